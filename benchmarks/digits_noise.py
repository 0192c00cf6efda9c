"""Raw digits with Gaussian noise, the paper's own shift: are noisy digits kept, and does a rotation change a decision?

    python benchmarks/digits_noise.py --out benchmarks/results/digits_noise.json

scikit-learn's digits as rows of 64 numbers; 0 to 5 are known. 40 % of them are labelled, 10 % are in the pool clean and 25 %
noisy, 10 % are ID test and 15 % noisy test; half of 6 to 9 are in the pool, half are test. Rotation: all rows times one
random orthogonal matrix, which changes no distance. Per cent, means over splits.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from wildspec import SpectralClassifier
from wildspec.files import write_json
from wildspec.provenance import environment

DEVIATIONS = (2, 4, 6)


def measure(deviation: float, seed: int) -> dict[str, float]:
    rows, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows))
    rows, labels = rows[order], labels[order]
    known, unknown = np.flatnonzero(labels < 6), np.flatnonzero(labels >= 6)
    labelled, pool, moved, asked, shifted = np.split(known, (np.array([0.4, 0.5, 0.75, 0.85]) * len(known)).astype(int))
    strange, never = np.split(unknown, [len(unknown) // 2])

    def noisy(some: np.ndarray) -> np.ndarray:
        return rows[some] + deviation * rng.normal(size=rows[some].shape)

    wild = np.concatenate([rows[pool], noisy(moved), rows[strange]])
    tests = [rows[asked], noisy(shifted), rows[never]]
    model = SpectralClassifier(random_state=seed).fit(rows[labelled], labels[labelled], wild)
    turn = np.linalg.qr(rng.normal(size=(rows.shape[1],) * 2))[0]
    turned = SpectralClassifier(random_state=seed).fit(rows[labelled] @ turn, labels[labelled], wild @ turn)
    scores, found = [model.ood_score(part) for part in tests], [model.predict(part) for part in tests]
    changed = np.concatenate([turned.predict(part @ turn) != one for part, one in zip(tests, found, strict=True)])
    return {
        "shifted_kept_at_95": float(np.mean(scores[1] <= np.quantile(scores[0], 0.95))),
        "known_kept": float(np.mean(found[0] != -1)), "shifted_kept": float(np.mean(found[1] != -1)),
        "unknown_rejected": float(np.mean(found[2] == -1)), "changed_by_rotation": float(changed.mean()),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22, 23])
    given = parser.parse_args()
    cases = [(deviation, seed) for deviation in DEVIATIONS for seed in given.seeds]
    records = [{"deviation": deviation, "seed": seed, **measure(deviation, seed)} for deviation, seed in cases]
    write_json(given.out, {"schema": "wildspec.digits-noise/1", "environment": environment(), "records": records})
    for deviation in DEVIATIONS:
        some = [record for record in records if record["deviation"] == deviation]
        means = {name: round(100 * float(np.mean([r[name] for r in some])), 1) for name in some[0] if "_" in name}
        print(f"noise {deviation}: {means}")


if __name__ == "__main__":
    main()
