"""What is won by saying that the pool's conditions are those of the labelled samples, and what is lost where they are not?

    python benchmarks/no_shift.py --data DIR --out benchmarks/results/no_shift.json

DIR, photographs, conditions and splits are those of ``front_door_blind.py``. Each of its choices of known classes comes once
more with all photographs as they are, and each of its conditions as it is there. Ours alone, told nothing (``auto``) and
told that there is no shift (``told``): share of known samples kept, of those under the condition, and of unknown ones
rejected; AUROC of unknown samples against known ones, shifted or not.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from front_door import SETS, World, make_task
from front_door_blind import CONDITIONS, KNOWN, photographs_of, worlds
from wildspec import SpectralClassifier
from wildspec.bench.pacs_embeddings import Task
from wildspec.files import write_json
from wildspec.provenance import environment

SHOWN = ("known_kept", "shifted_kept", "unknown_rejected", "told_apart")


def chosen() -> list[World]:
    """First those without a shift."""
    same = [
        World(f"{source} as they are, {known}", False, source, "clean", known, shift=False)
        for source, choices in KNOWN.items() for known in choices
    ]  # fmt: skip
    return same + [world for world in worlds() if world.condition in CONDITIONS and world.unknown == 1]


def look_at(task: Task, shift: Any) -> dict[str, float]:
    model = SpectralClassifier(shift=shift, random_state=task.seed).fit(task.labelled, task.labels, task.wild)
    kept = [float((model.predict(rows) != -1).mean()) for rows in task.tests]
    scores = [model.ood_score(rows) for rows in task.tests]
    unknown = np.repeat([0, 0, 1], [len(part) for part in scores])
    apart = float(roc_auc_score(unknown, np.concatenate(scores)))
    return dict(zip(SHOWN, (kept[0], kept[1], 1 - kept[2], apart), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    photographs = {name: photographs_of(given.data, name) for name in SETS}
    records: list[dict[str, Any]] = []
    for world in chosen():
        for seed in range(given.seeds):
            task, _ = make_task(world, seed, None, photographs)
            for name, shift in (("auto", "auto"), ("told", False)):
                record = {"world": world.name, "shift": world.shift, "seed": seed, "rule": name}
                records.append(record | {"metrics": look_at(task, shift)})
        print(world.name, flush=True)
    command = "python benchmarks/no_shift.py --data DIR --out benchmarks/results/no_shift.json"
    made = environment() | {"command": command}
    write_json(given.out, {"schema": "wildspec.no-shift/1", "environment": made, "records": records})
    for shift in (False, True):
        for name in ("auto", "told"):
            rows = [[r["metrics"][m] for m in SHOWN] for r in records if (r["shift"], r["rule"]) == (shift, name)]
            means = zip(SHOWN, 100 * np.mean(rows, axis=0), strict=True)
            print("shift" if shift else "none ", name, len(rows), *(f"{metric} {value:.1f}" for metric, value in means))


if __name__ == "__main__":
    main()
