"""Your own embeddings: from two arrays to decisions, no training. Goes with docs/howto-embeddings.md.

    python examples/own_embeddings.py                                       # on digits that come with scikit-learn
    python examples/own_embeddings.py --labelled A.parquet --wild B.parquet  # on yours: a column of vectors, a column label
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import wildspec
from wildspec.data.embeddings import EmbeddingTable


def digits(seed: int = 0) -> dict[str, np.ndarray]:
    """0 to 6 are known and clean; the wild pool adds the same in another style, with 7, 8 and 9 among them."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    X, y = load_digits(return_X_y=True)
    rows, known = X.astype(np.float32), y < 7

    def restyled(part: np.ndarray) -> np.ndarray:
        """Another pen and another scanner: strokes smeared to the right, darker paper, noise."""
        pictures = part.reshape(-1, 8, 8)
        smeared = pictures + 0.6 * np.roll(pictures, 1, axis=2)
        return (0.7 * smeared + 4 + rng.normal(size=pictures.shape)).reshape(-1, 64).astype(np.float32)

    clean, other = np.array_split(rng.permutation(np.flatnonzero(known)), 2)
    strange = rng.permutation(np.flatnonzero(~known))
    labelled, like = clean[:400], clean[400:]
    moved, asked_moved = np.array_split(other, 2)
    unknown, asked_unknown = np.array_split(strange[:300], 2)
    return {
        "X": rows[labelled], "y": y[labelled],
        "X_wild": np.concatenate([rows[like], restyled(rows[moved]), restyled(rows[unknown])]),
        "X_moved": restyled(rows[asked_moved]), "y_moved": y[asked_moved], "X_unknown": restyled(rows[asked_unknown]),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labelled", type=Path, help="embeddings with labels: .parquet or .npz")
    parser.add_argument("--wild", type=Path, help="embeddings without labels, from the field")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "wildspec-embeddings")
    args = parser.parse_args()
    if args.labelled is None or args.wild is None:
        given = digits()
        X, y, X_wild = given["X"], given["y"], given["X_wild"]
    else:
        given, table = {}, EmbeddingTable(args.labelled)
        X, y, X_wild = table.read(), table.labels, EmbeddingTable(args.wild).read()

    model = wildspec.SpectralClassifier(random_state=0).fit(X, y, X_wild=X_wild)
    print(f"classes {model.classes_.tolist()}, threshold {model.threshold_:.2g}")
    print(f"of {len(X_wild)} wild samples about {model.shifted_share_:.0%} are shifted, {model.unknown_share_:.0%} unknown")

    decided = model.predict(X_wild)  # -1 = none of the classes
    rejected = decided == -1
    print(f"{rejected.sum()} of {len(X_wild)} wild samples look like none of the classes")
    print(model.explain(X_wild[:1])[0])
    if given:  # here the truth is known
        kept, found = model.predict(given["X_moved"]), model.predict_proba(given["X_moved"]).argmax(axis=1)
        print(f"another style: {np.mean(kept != -1):.0%} kept, {np.mean(found == given['y_moved']):.0%} named rightly")
        print(f"unknown: {np.mean(model.predict(given['X_unknown']) == -1):.0%} rejected")

    model.save(args.out / "model")  # safetensors and JSON, with checksums
    again = wildspec.load(args.out / "model")
    assert np.array_equal(again.predict(X_wild), decided)
    print(f"the model is in {args.out / 'model'}")


if __name__ == "__main__":
    main()
