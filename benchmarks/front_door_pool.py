"""In the worlds of the front door: do probabilities mean what they say, and is the pool itself judged like fresh samples?

    python benchmarks/front_door_pool.py --data DIR --out benchmarks/results/front_door_pool.json

DIR as for `front_door.py`, whose features are kept. Ours alone. In every world, with the samples of known classes as
labelled ("clean"), under other conditions ("shifted"), and of unknown classes:

    calibration_error    expected calibration error of the class probabilities, 15 bins, clean test samples; shifted ones;
                         "by_chance": what exact probabilities would show on as few clean samples, labels drawn from them
    pool, fresh          share rejected of each kind, among the samples of the pool and among test samples
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch

from front_door import make_task, read_photographs, worlds
from wildspec import SpectralClassifier
from wildspec.bench.pacs_embeddings import Task, load_embeddings
from wildspec.decision.temperature import calibration_error
from wildspec.files import read_json, write_json
from wildspec.provenance import environment

KINDS = ("clean", "shifted", "unknown")


def look_at(task: Task) -> dict[str, Any]:
    model = SpectralClassifier(random_state=task.seed).fit(task.labelled, task.labels, task.wild)
    parts = np.split(model.predict(task.wild) == -1, np.cumsum(task.counts)[:-1])
    tests = [model.predict(rows) == -1 for rows in task.tests]
    clean, shifted = (model.predict_proba(rows) for rows in task.tests[:2])
    return {
        "calibration_error": {
            "clean": calibration_error(clean, task.id_labels), "shifted": calibration_error(shifted, task.covariate_labels),
            "by_chance": by_chance(clean, task.seed),
        },
        "temperature": model.temperature_,
        "pool": {kind: float(part.mean()) if len(part) else None for kind, part in zip(KINDS, parts, strict=True)},
        "fresh": {kind: float(part.mean()) if len(part) else None for kind, part in zip(KINDS, tests, strict=True)},
        "samples": {"pool": list(task.counts), "fresh": [len(part) for part in tests]},
    }  # fmt: skip


def by_chance(probabilities: np.ndarray, seed: int, draws: int = 50) -> float:
    """Mean calibration error of (n, C) probabilities that are exact: labels are drawn from them."""
    rng, below = np.random.default_rng(seed), probabilities.cumsum(axis=1)[:, :-1]
    drawn = ((rng.random((len(below), 1)) > below).sum(axis=1) for _ in range(draws))
    return float(np.mean([calibration_error(probabilities, labels) for labels in drawn]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows, photographs = load_embeddings(given.data / "pacs_efficientnet_lite0.npz"), read_photographs(given.data)
    records: list[dict[str, Any]] = read_json(given.out)["records"] if given.out.exists() else []
    done = {(record["world"], record["seed"]) for record in records}
    made = environment()
    made["command"] = "python benchmarks/front_door_pool.py --data DIR --out benchmarks/results/front_door_pool.json"
    for seed in range(given.seeds):
        for world in sorted(worlds(), key=lambda world: world.settled):
            if (world.name, seed) in done:
                continue
            found = look_at(make_task(world, seed, rows, photographs)[0])
            records.append({"world": world.name, "settled": world.settled, "seed": seed, **found})
            print(f"seed {seed}, {world.name}", flush=True)
            write_json(given.out, {"schema": "wildspec.front-door-pool/1", "environment": made, "records": records})


if __name__ == "__main__":
    main()
