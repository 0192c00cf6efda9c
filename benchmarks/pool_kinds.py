"""A wild pool of one kind alone: what does the joint decision make of it? Digits, networks trained on that pool.

    python benchmarks/pool_kinds.py --seeds 0,1,2 --workers 2

Each network decides three times on the same features: by plain KNN, by `wild_knn`, and by `wild_knn` with everything
attributed up to Otsu's cut ("to the cut"), also where the pool's distances are one group.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from wildspec.bench.demo import PRETRAIN, decide, measure, start_on, train_on
from wildspec.data.digits_task import DigitsTask, digits_task
from wildspec.data.mixture import WildPool
from wildspec.files import write_json
from wildspec.provenance import environment

OUT = Path(__file__).resolve().parent / "results" / "pool_kinds.json"
METHODS = ("erm", "spectral", "spectral+")
KINDS = {"clean": 0, "noisy": 1, "unknown": 2}
UNKNOWN = 250  # in the pool of unknown things alone; the others are the test
SHOWN = ("id_kept", "covariate_kept", "detection_rate")


def of_kind(task: DigitsTask, kind: str) -> DigitsTask:
    """The task with a pool of one kind; "all": as it is."""
    if kind == "all":
        return task
    if kind == "unknown":
        unknown = task.semantic_test
        pool, rest = unknown.subset(torch.arange(UNKNOWN)), unknown.subset(torch.arange(UNKNOWN, len(unknown)))
        return replace(task, wild=WildPool(pool), semantic_test=rest, wild_component=np.full(UNKNOWN, 2, dtype=np.int8))
    kept = np.flatnonzero(task.wild_component == KINDS[kind])
    pool = task.wild.pool.subset(torch.from_numpy(kept))
    return replace(task, wild=WildPool(pool), wild_component=task.wild_component[kept])


def one_case(case: tuple[int, str]) -> list[dict[str, Any]]:
    """A row for each method and decision."""
    seed, kind = case
    torch.set_num_threads(1)
    task = of_kind(digits_task(seed), kind)
    start, rows = start_on(task, seed, PRETRAIN), []
    for method in METHODS:
        network = train_on(task, method, seed, start=start if method.startswith("spectral") else None)
        made = {"knn": decide(network, task, "knn"), "wild_knn": decide(network, task, "wild_knn")}
        with patch("wildspec.decision.attribution._like_labelled", lambda distance, *_: torch.ones_like(distance).bool()):
            made["to the cut"] = decide(network, task, "wild_knn")
        for name, decision in made.items():
            found = measure(network, decision)
            attribution = getattr(decision.detector, "attribution_", None)
            rows.append({
                "seed": seed, "pool": kind, "method": method, "decision": name,
                **{metric: getattr(found, metric) for metric in SHOWN},
                "attributed": None if attribution is None else float(attribution.known.double().mean()),
            })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--kinds", default="all,clean,noisy,unknown")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    cases = [(int(seed), kind) for seed in given.seeds.split(",") for kind in given.kinds.split(",")]
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        for part in pool.map(one_case, cases):
            rows += part
            print(part[0]["seed"], part[0]["pool"], flush=True)
    write_json(given.out, {"schema": "wildspec.pool-kinds/1", "rows": rows, "environment": environment()})
    found: dict[tuple[str, str, str], list[list[float]]] = {}
    for row in rows:
        key = (row["pool"], row["method"], row["decision"])
        found.setdefault(key, []).append([row[metric] for metric in SHOWN])
    for (kind, method, name), mine in found.items():
        means = zip(SHOWN, 100 * np.mean(mine, axis=0), strict=True)
        print(f"{kind:8} {method:10} {name:10}", *(f"{metric} {value:.1f}" for metric, value in means))


if __name__ == "__main__":
    main()
