"""A pool of near-copies (frames of films, bursts of a camera): does it teach less than one picture of each would?

    python benchmarks/near_copies.py --data DIR --out benchmarks/results/near_copies.json

DIR, worlds and splits are those of ``front_door_blind.py``, photographs under a condition and domains; ours alone. Pools:

    all          as it is there
    fifth        a fifth of it, at random
    5 copies     each of the fifth five times, every time with noise of a tenth or of three tenths of its length
    films        of a twentieth of the pool, 20 frames each, noise of 0.15 from frame to frame

Shown: share of known samples kept, of shifted ones, of unknown ones rejected; AUROC of unknown samples against known ones,
shifted or not.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from front_door import SETS, make_task
from front_door_blind import CONDITIONS, photographs_of, worlds
from no_shift import SHOWN, look_at
from wildspec.bench.pacs_embeddings import DOMAINS, load_embeddings
from wildspec.files import write_json
from wildspec.graph.search import unit_rows
from wildspec.provenance import environment


def pools(wild: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)

    def shaken(rows: np.ndarray, by: float) -> np.ndarray:
        return unit_rows((rows + by * rng.normal(size=rows.shape) / np.sqrt(rows.shape[1])).astype(np.float32))

    fifth = wild[rng.permutation(len(wild))[: len(wild) // 5]]
    frames = [wild[rng.permutation(len(wild))[: len(wild) // 20]]]
    for _ in range(19):
        frames.append(shaken(frames[-1], 0.15))
    return {
        "all": wild, "fifth": fifth, "5 copies, 0.1": shaken(np.repeat(fifth, 5, axis=0), 0.1),
        "5 copies, 0.3": shaken(np.repeat(fifth, 5, axis=0), 0.3), "films": np.concatenate(frames),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = load_embeddings(given.data / "pacs_efficientnet_lite0.npz")
    photographs = {name: photographs_of(given.data, name) for name in SETS if name != "cifar"}
    records: list[dict[str, Any]] = []
    for world in worlds():
        if world.source == "cifar" or world.condition not in (*CONDITIONS, *DOMAINS) or world.unknown != 1:
            continue
        for seed in range(given.seeds):
            task, _ = make_task(world, seed, rows, photographs)
            for name, pool in pools(task.wild, seed).items():
                metrics = look_at(replace(task, wild=pool, counts=(len(pool), 0, 0)), "auto")
                records.append({"world": world.name, "pool": name, "seed": seed, "metrics": metrics})
        print(world.name, flush=True)
    command = "python benchmarks/near_copies.py --data DIR --out benchmarks/results/near_copies.json"
    made = environment() | {"command": command}
    write_json(given.out, {"schema": "wildspec.near-copies/1", "environment": made, "records": records})
    for name in dict.fromkeys(record["pool"] for record in records):
        found = [[r["metrics"][m] for m in SHOWN] for r in records if r["pool"] == name]
        print(name, len(found), *(f"{m} {v:.1f}" for m, v in zip(SHOWN, 100 * np.mean(found, axis=0), strict=True)))


if __name__ == "__main__":
    main()
