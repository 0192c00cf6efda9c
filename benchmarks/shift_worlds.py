"""Is a new group in the wild pool a shifted copy of the known classes, or are they classes nobody knows? SpectralClassifier
in worlds whose truth is known, over several draws and random states, beside a plain baseline.

    python benchmarks/shift_worlds.py
    python benchmarks/shift_worlds.py --pacs pacs_efficientnet_lite0.npz

Baseline: distance to the nearest labelled sample, threshold at 95 % of held-out labelled samples (20 %, drawn by the random
state), logistic regression for the class; rows prepared as ours are. Labels of the pool are used by nobody. --pacs measures
worlds of real embeddings in which pool and labelled samples are of one domain and only unknown classes are new; the other
worlds stay in the file as they are. Results: docs/dev/shift-worlds.json, from which `python tools/make_results.py` writes
docs/dev/shift-worlds.md.
"""

import argparse
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from wildspec import SpectralClassifier
from wildspec.decision.calibration import calibrate, samples_needed
from wildspec.files import read_json, write_json
from wildspec.graph.search import NeighborIndex, unit_rows
from wildspec.provenance import environment

Rows = np.ndarray
DRAWS, STATES = 5, 4
ALPHA = 0.05


@dataclass(frozen=True, eq=False)
class World:
    """``labelled`` rows with ``labels``, the ``wild`` pool, and test rows of three kinds, any of which may be empty."""

    labelled: Rows
    labels: Rows
    wild: Rows
    same: Rows
    same_labels: Rows
    shifted: Rows
    shifted_labels: Rows
    unknown: Rows
    metric: str = "cosine"


# -- made worlds -------------------------------------------------------------------------------------------------------
def _simplex(count: int, width: int, rng: np.random.Generator, distance: float) -> Rows:
    """(count, width) random centres, about ``distance`` apart from each other."""
    centres = rng.normal(size=(count, width))
    return distance * centres / np.sqrt(2 * width)


def blobs(
    seed: int, *, known: int = 3, unknown: int = 1, width: int = 64, distance: float = 16.0, size: int = 100,
    centres: Rows | None = None, clean: bool = True, move: Callable[[Rows, np.random.Generator], Rows] | None = None,
    moved_unknown: bool = False, offset: float = 0.0, metric: str = "euclidean",
) -> World:  # fmt: skip
    """Gaussian clouds of deviation 1. ``clean``: the pool has samples like the labelled ones. ``move``: the shift."""
    rng = np.random.default_rng(seed)
    if centres is None:
        centres = _simplex(known + unknown, width, rng, distance)
    width = centres.shape[1]

    def draw(low: int, high: int, moved: bool = False) -> tuple[Rows, Rows]:
        classes = rng.permutation(np.repeat(np.arange(low, high), size))
        rows = centres[classes] + rng.normal(size=(len(classes), width))
        if moved and move is not None:
            rows = move(rows, np.random.default_rng(seed + 1000))
        return rows + offset, classes

    labelled, labels = draw(0, known)
    pool = []
    if clean:
        pool.append(draw(0, known)[0])
    if move is not None:
        pool.append(draw(0, known, True)[0])
    if unknown:
        pool.append(draw(known, known + unknown, moved_unknown)[0])
    same, same_labels = draw(0, known)
    shifted, shifted_labels = draw(0, known, True) if move is not None else (np.empty((0, width)), np.empty(0, int))
    strange = draw(known, known + unknown, moved_unknown)[0] if unknown else np.empty((0, width))
    wild = rng.permutation(np.concatenate(pool))
    return World(labelled, labels, wild, same, same_labels, shifted, shifted_labels, strange, metric)


def translation(rows: Rows, rng: np.random.Generator) -> Rows:
    step = rng.normal(size=rows.shape[1])
    return rows + 10 * step / np.linalg.norm(step)


def scaling(rows: Rows, rng: np.random.Generator) -> Rows:
    step = rng.normal(size=rows.shape[1])
    return rows * np.exp(0.4 * rng.normal(size=rows.shape[1])) + 6 * step / np.linalg.norm(step)


def noise(rows: Rows, rng: np.random.Generator) -> Rows:
    return rows + 1.5 * rng.normal(size=rows.shape)


# -- real sets ---------------------------------------------------------------------------------------------------------
def held_back(
    X: Rows, y: Rows, known: Iterable[int], seed: int, *, unknown: bool = True, clean: bool = True,
    move: Callable[[Rows], Rows] | None = None, metric: str = "cosine",
) -> World:  # fmt: skip
    """Known classes 40 % labelled, 30 % wild, 30 % test; the other classes half wild, half test.

    move: the wild and the test part of the known classes are halved, and one half is moved; unknown samples are moved too.
    """
    rng = np.random.default_rng(seed)
    known = list(known)
    mine = rng.permutation(np.flatnonzero(np.isin(y, known)))
    rest = rng.permutation(np.flatnonzero(~np.isin(y, known)))
    a, b = int(0.4 * len(mine)), int(0.7 * len(mine))
    labelled, wild, test = mine[:a], mine[a:b], mine[b:]
    rare, far = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    shift = (lambda rows: rows) if move is None else move
    halves = [(wild, wild[:0]), (test, test[:0])]
    if move is not None:
        halves = [(part[: len(part) // 2], part[len(part) // 2 :]) for part in (wild, test)]
    (same_wild, moved_wild), (same_test, moved_test) = halves
    pool = [X[same_wild]] if clean else []
    pool += [shift(X[moved_wild])] + ([shift(X[rare])] if unknown else [])
    strange = shift(X[far]) if unknown else X[:0]
    return World(
        X[labelled], y[labelled], rng.permutation(np.concatenate(pool)), X[same_test], y[same_test],
        shift(X[moved_test]), y[moved_test], strange, metric,
    )  # fmt: skip


def digits(seed: int, known: Iterable[int], **options: Any) -> World:
    X, y = load_digits(return_X_y=True)
    return held_back(X, y, known, seed, **options)


def table(load: Any, seed: int, known: Iterable[int], metric: str) -> World:
    X, y = load(return_X_y=True)
    return held_back(StandardScaler().fit_transform(X), y, known, seed, metric=metric)


def inverted(rows: Rows) -> Rows:
    """Digits dark on light, half the contrast: the same strokes under another rendering."""
    return 16 - 0.5 * rows


def faded(rows: Rows) -> Rows:
    """Background light of 6 and less contrast."""
    return 6 + 0.5 * rows


PLANE = np.array([[10.0, 0.0], [0.0, 10.0], [-10.0, 0.0], [0.0, -10.0]])  # directions in the plane
CORNERS = np.array([[0.0, 0.0], [12.0, 0.0], [0.0, 12.0], [12.0, 12.0]])
BETWEEN = np.array([[-10.0, 0.0], [10.0, 0.0], [0.0, 17.0], [0.0, 5.0]])
TWO_NEW = np.array([[0.0, 0.0], [12.0, 0.0], [0.0, 12.0], [12.0, 12.0], [-12.0, -6.0]])

WORLDS: dict[str, Callable[[int], World]] = {
    "digits, 6 known": lambda s: digits(s, range(6)),
    "digits, 6 known, euclidean": lambda s: digits(s, range(6), metric="euclidean"),
    "digits, 8 known": lambda s: digits(s, range(8)),
    "digits, 3 known": lambda s: digits(s, range(3)),
    "digits, 3 known, 3 5 8": lambda s: digits(s, (3, 5, 8)),
    "digits, no unknown": lambda s: digits(s, range(6), unknown=False),
    "digits, all wild unknown": lambda s: digits(s, range(6), clean=False),
    "wine, class 2 unknown": lambda s: table(load_wine, s, (0, 1), "cosine"),
    "wine, class 0 unknown, euclidean": lambda s: table(load_wine, s, (1, 2), "euclidean"),
    "breast cancer, malignant unknown": lambda s: table(load_breast_cancer, s, (1,), "euclidean"),
    "blobs, plane, directions": lambda s: blobs(s, centres=PLANE, metric="cosine"),
    "blobs, plane, corners": lambda s: blobs(s, centres=CORNERS),
    "blobs, plane, unknown between": lambda s: blobs(s, centres=BETWEEN),
    "blobs, plane, two unknown": lambda s: blobs(s, unknown=2, centres=TWO_NEW),
    "blobs, 64-d": lambda s: blobs(s),
    "blobs, 64-d, cosine": lambda s: blobs(s, metric="cosine"),
    "blobs, 64-d, two unknown": lambda s: blobs(s, unknown=2),
    "blobs, 64-d, three unknown": lambda s: blobs(s, unknown=3),
    "blobs, 64-d, 6 known, 6 unknown": lambda s: blobs(s, known=6, unknown=6),
    "blobs, 64-d, no unknown": lambda s: blobs(s, unknown=0),
    "blobs, 64-d, all wild unknown": lambda s: blobs(s, unknown=2, clean=False),
    "blobs, 64-d, one known class": lambda s: blobs(s, known=1, unknown=1),
    "translation, no unknown": lambda s: blobs(s, known=5, unknown=0, move=translation),
    "scaling, no unknown": lambda s: blobs(s, known=5, unknown=0, move=scaling),
    "noise, no unknown": lambda s: blobs(s, known=5, unknown=0, move=noise),
    "translation, two unknown": lambda s: blobs(s, known=5, unknown=2, move=translation, moved_unknown=True),
    "translation, two unknown not moved": lambda s: blobs(s, known=5, unknown=2, move=translation),
    "scaling, two unknown": lambda s: blobs(s, known=5, unknown=2, move=scaling, moved_unknown=True),
    "digits faded, 6 known": lambda s: digits(s, range(6), move=faded),
    "digits inverted, 6 known": lambda s: digits(s, range(6), move=inverted),
    "digits faded, no unknown": lambda s: digits(s, range(6), move=faded, unknown=False),
    "digits all faded, 6 known": lambda s: digits(s, range(6), move=faded, clean=False),
}


def pacs_worlds(path: Path) -> dict[str, Callable[[int], World]]:
    """One domain of PACS: dog, elephant, giraffe, guitar known; horse, house, person unknown, together or alone."""
    from wildspec.bench.pacs_embeddings import DOMAINS, KNOWN, UNKNOWN, load_embeddings

    data = load_embeddings(path)

    def world(domain: str, others: tuple[int, ...]) -> Callable[[int], World]:
        chosen = (data.domain == domain) & np.isin(data.labels, [*KNOWN, *others])
        return lambda seed: held_back(data.features[chosen], data.labels[chosen], KNOWN, seed)

    found = {f"PACS {domain}, three unknown": world(domain, tuple(UNKNOWN)) for domain in DOMAINS}
    return found | {
        f"PACS {domain}, {name} unknown": world(domain, (number,)) for domain in DOMAINS for number, name in UNKNOWN.items()
    }


# -- measuring ---------------------------------------------------------------------------------------------------------
def share(rejected: Rows) -> float | None:
    return float(rejected.mean()) if len(rejected) else None


def measured(world: World, reject: Callable[[Rows], Rows], classify: Callable[[Rows], Rows]) -> dict[str, float | None]:
    """Kept and rejected shares, and accuracies over all samples of known classes, rejected or not."""

    def accuracy(rows: Rows, labels: Rows) -> float | None:
        return float((classify(rows) == labels).mean()) if len(rows) else None

    def kept(rows: Rows) -> float | None:
        return float(1 - reject(rows).mean()) if len(rows) else None

    return {
        "id_kept": kept(world.same), "covariate_kept": kept(world.shifted),
        "unknown_rejected": share(reject(world.unknown)) if len(world.unknown) else None,
        "id_acc": accuracy(world.same, world.same_labels), "covariate_acc": accuracy(world.shifted, world.shifted_labels),
    }  # fmt: skip


def ours(world: World, state: int) -> dict[str, float | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = SpectralClassifier(metric=world.metric, alpha=ALPHA, random_state=state)
        model.fit(world.labelled, world.labels, world.wild)
    found = measured(
        world, lambda rows: model.predict(rows) == -1, lambda rows: model.classes_[model.predict_proba(rows).argmax(axis=1)]
    )
    return found | {"shifted_share": model.shifted_share_, "unknown_share": model.unknown_share_}


def baseline(world: World, state: int) -> dict[str, float | None]:
    def prepared(rows: Rows) -> Rows:
        return unit_rows(rows) if world.metric == "cosine" else np.asarray(rows, dtype=np.float32)

    order = np.random.default_rng(state).permutation(len(world.labelled))
    held, kept = np.split(order, [int(0.2 * len(order))])
    rows = prepared(world.labelled)
    index = NeighborIndex(rows[kept], metric="euclidean")

    def score(asked: Rows) -> Rows:
        return index.search(prepared(asked), 1)[0][:, 0]

    limit = np.inf  # too few held-out samples: nothing can be promised, nothing is rejected, as in ours
    if len(held) >= samples_needed(ALPHA):
        limit = calibrate(score(world.labelled[held]), ALPHA).threshold
    one = len(np.unique(world.labels)) == 1
    probe = None if one else LogisticRegression(C=10.0, max_iter=300).fit(rows, world.labels)
    first = world.labels[0]
    return measured(
        world, lambda asked: score(asked) > limit,
        lambda asked: np.full(len(asked), first) if probe is None else probe.predict(prepared(asked)),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=DRAWS, help="data sets of each world")
    parser.add_argument("--states", type=int, default=STATES, help="random states for each")
    parser.add_argument("--pacs", type=Path, help="embeddings of PACS: their worlds alone")
    parser.add_argument("--out", type=Path, default=Path("docs/dev/shift-worlds.json"))
    options = parser.parse_args()
    worlds = WORLDS if options.pacs is None else pacs_worlds(options.pacs)
    document: dict[str, Any] = read_json(options.out) if options.out.exists() else {"worlds": {}, "environments": {}}
    for name, make in worlds.items():
        runs = []
        for draw in range(options.draws):
            world = make(draw)
            runs += [
                {"draw": draw, "state": state, "ours": ours(world, state), "baseline": baseline(world, state)}
                for state in range(options.states)
            ]
        document["worlds"][name] = {"shift": len(world.shifted) > 0, "runs": runs}
        numbers = [run["ours"]["unknown_rejected"] for run in runs]
        print(name, "unknown rejected:", [None if v is None else round(v, 3) for v in numbers], flush=True)
    document["environments"]["made" if options.pacs is None else "pacs"] = environment()
    write_json(options.out, document)


if __name__ == "__main__":
    main()
