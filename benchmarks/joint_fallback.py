"""Which threshold where the wild pool shows one group only? Three answers on digits, for pools of many compositions.

    python benchmarks/joint_fallback.py        writes docs/results/joint-fallback.json, then: python docs/make_results.py

Three networks for each of the seeds 100 to 104, on which choices were made; pools are drawn from the task's wild images. Per
pool: is it separated, and what the ID threshold alone, raised to Otsu's cut, or raised to the pool's 95 % quantile, keeps of
clean and of shifted known test images and rejects of unknown ones. About four minutes on one core.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wildspec.bench.demo import ALPHA, PRETRAIN, Trained, start_on, train_on
from wildspec.bench.digits import DigitsTask, digits_task
from wildspec.evaluation import decide_jointly
from wildspec.files import write_json
from wildspec.provenance import environment

OUT = Path(__file__).resolve().parent.parent / "docs" / "results" / "joint-fallback.json"
SCHEMA = "wildspec.joint-fallback/1"
POOL = 250
COMPOSITIONS = ((0.0, 0.0), (0.25, 0.0), (0.5, 0.0), (0.75, 0.0), (0.0, 0.02), (0.5, 0.02), (0.0, 0.05), (0.25, 0.05),
                (0.5, 0.05), (0.0, 0.1), (0.25, 0.1), (0.5, 0.1))  # fmt: skip
TESTS = {"id_kept": "id_test", "covariate_kept": "covariate_test", "detection_rate": "semantic_test"}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", default="100,101,102,103,104")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    seeds = [int(seed) for seed in given.seeds.split(",")]
    rows = []
    for seed in seeds:
        task = digits_task(seed)
        start = start_on(task, seed, PRETRAIN)
        for method in ("erm", "spectral", "spectral+"):
            trained = train_on(task, method, seed, start=None if method == "erm" else start)
            rows += [{"method": method, "seed": seed, **row} for row in judged(trained, task, seed)]
        print(f"seed {seed}", file=sys.stderr, flush=True)
    write_json(given.out, {
        "schema": SCHEMA, "seeds": seeds, "alpha": ALPHA, "pool": POOL, "rows": rows, "environment": environment(),
    })  # fmt: skip


def judged(trained: Trained, task: DigitsTask, seed: int) -> Iterator[dict[str, Any]]:
    """One row per pool: the task's own first, then one of each composition."""
    rng = np.random.default_rng(seed)
    wild = trained.outputs["wild"].features
    yield {"pi_c": None, "pi_s": None, **thresholds(trained, task, wild)}
    for pi_c, pi_s in COMPOSITIONS:
        counts = [POOL - round(POOL * pi_c) - round(POOL * pi_s), round(POOL * pi_c), round(POOL * pi_s)]
        have = [int((task.wild_component == kind).sum()) for kind in range(3)]
        share = min(1.0, *(most / count for most, count in zip(have, counts, strict=True) if count))
        parts = [
            rng.permutation(np.flatnonzero(task.wild_component == kind))[: int(share * count)]
            for kind, count in enumerate(counts)
        ]
        yield {"pi_c": pi_c, "pi_s": pi_s, **thresholds(trained, task, wild[torch.from_numpy(np.concatenate(parts))])}


def thresholds(trained: Trained, task: DigitsTask, pool: Tensor) -> dict[str, Any]:
    """What each of the three thresholds keeps and rejects, with the pool in the bank."""
    seen = trained.outputs
    made = decide_jointly(seen["labelled"].features, task.labelled.labels, pool, seen["calibration"].features, alpha=ALPHA)
    found, own = made.calibration, made.detector.wild_scores_
    plain = found.id_threshold
    quantile = float(np.quantile(own.double().numpy(), 1 - ALPHA, method="inverted_cdf"))
    scores = {name: made.score(seen[part].features).double().numpy() for name, part in TESTS.items()}

    def at(threshold: float) -> dict[str, float]:
        kept = {name: float(np.mean(values <= threshold)) for name, values in scores.items()}
        return {**kept, "detection_rate": 1 - kept["detection_rate"]}

    return {
        "eta": found.mixture.eta, "separated": found.mixture.separated,
        "id": at(plain), "otsu": at(max(plain, found.mixture.cut)), "quantile": at(max(plain, quantile)),
    }  # fmt: skip


if __name__ == "__main__":
    main()
