"""Few labelled samples a class: the photographs held back by `front_door.py`, with 4, 8 or 16 of each class labelled.

    python benchmarks/few_labelled.py --data DIR --out benchmarks/results/few_labelled.json

DIR as for `front_door.py`, whose features, splits and measures these are; worlds with a whole pool, three seeds. Beside ours
stand two of its baselines. alpha is 0.1: nothing smaller can be promised from so few.
"""

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from front_door import Photographs, World, photo_task, read_photographs, worlds
from wildspec.bench.embedding_methods import method, spectral
from wildspec.bench.pacs_embeddings import DOMAINS, Task, measure
from wildspec.files import write_json
from wildspec.provenance import environment

SIZES, SEEDS, ALPHA = (4, 8, 16), (0, 1, 2), 0.1
KEPT = ("fs_auroc", "id_kept", "covariate_kept", "detection_rate", "ood_acc")


def chosen() -> list[World]:
    return [world for world in worlds() if not world.settled and world.condition not in DOMAINS and world.unknown == 1.0]


def with_few(task: Task, count: int) -> Task:
    """``count`` labelled samples of each class, drawn by the task's seed."""
    rng = np.random.default_rng(task.seed)
    rows = [rng.permutation(np.flatnonzero(task.labels == c))[:count] for c in np.unique(task.labels)]
    keep = np.concatenate(rows)
    return replace(task, labelled=task.labelled[keep], labels=task.labels[keep])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # that samples are few is the point
    photographs: dict[str, Photographs] = read_photographs(given.data)
    methods = {"front-door": spectral(alpha=ALPHA), "lr-energy": method("lr-energy").run, "vim": method("vim").run}
    command = "python benchmarks/few_labelled.py --data DIR --out benchmarks/results/few_labelled.json"
    made = environment() | {"command": command}
    records: list[dict[str, Any]] = []
    for world in chosen():
        for seed in SEEDS:
            task, _ = photo_task(photographs[world.source], world, seed)
            for count in SIZES:
                few = with_few(task, count)
                for name, run in methods.items():
                    found = measure(few, run(few))
                    metrics = {key: round(float(found[key]), 5) for key in KEPT}
                    where = {"world": world.name, "seed": seed, "labelled": count, "method": name}
                    records.append({**where, "metrics": metrics})
    write_json(given.out, {"schema": "wildspec.few-labelled/1", "environment": made, "records": records})
    for count in SIZES:
        for name in methods:
            rows = [r["metrics"] for r in records if (r["labelled"], r["method"]) == (count, name)]
            print(count, name, {key: round(100 * float(np.mean([row[key] for row in rows])), 1) for key in KEPT})


if __name__ == "__main__":
    main()
