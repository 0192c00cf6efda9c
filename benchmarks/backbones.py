"""What another network, or a larger input, is worth: the photographs held back by `front_door.py`, through several networks.

    python benchmarks/backbones.py --data DIR --out benchmarks/results/backbones.json

DIR as for `front_door.py`, whose pictures, splits and measures these are; worlds with a whole pool, three seeds; networks of
`pip install 'wildspec[backbones]'`. The pictures have 160 px: a larger input shows a network nothing more, only enlarged.
Seconds of an image: one thread, batches as `fit` has them, the fastest of five rounds in which the networks take turns.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from few_labelled import KEPT, SEEDS, chosen
from front_door import CONDITIONS, photo_task, read_photographs
from wildspec.bench.embedding_methods import method
from wildspec.bench.pacs_embeddings import measure
from wildspec.files import write_json
from wildspec.models.encoder import Encoder
from wildspec.provenance import environment

NETWORKS = (
    ("efficientnet_lite0", 160), ("efficientnet_lite0", 224), ("efficientnet_lite1", 240), ("efficientnet_lite2", 260),
)  # fmt: skip
METHODS = {"front-door": "spectral", "lr-energy": "lr-energy", "vim": "vim"}
ROUNDS, IMAGES = 5, 32


def seconds_each(encoders: dict[str, Encoder]) -> dict[str, float]:
    """Seconds of one image on one thread."""
    best = dict.fromkeys(encoders, float("inf"))
    for _ in range(ROUNDS):
        for name, encoder in encoders.items():
            pixels = torch.randint(0, 256, (IMAGES, 3, encoder.size, encoder.size), dtype=torch.uint8)
            start = time.perf_counter()
            encoder.encode(pixels)
            best[name] = min(best[name], (time.perf_counter() - start) / IMAGES)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    encoders = {f"{name}, {size} px": Encoder(name, size) for name, size in NETWORKS}
    torch.set_num_threads(1)
    seconds = seconds_each(encoders)
    worlds = chosen()
    skip = {name for names in CONDITIONS.values() for name in names} - {world.condition for world in worlds}
    command = "python benchmarks/backbones.py --data DIR --out benchmarks/results/backbones.json"
    made, records = environment() | {"command": command}, list[dict[str, Any]]()
    for network, encoder in encoders.items():
        photographs = read_photographs(given.data, encoder, sorted(skip))
        for world in worlds:
            for seed in SEEDS:
                task, _ = photo_task(photographs[world.source], world, seed)
                for name, run in METHODS.items():
                    found = measure(task, method(run).run(task))
                    metrics = {key: round(float(found[key]), 5) for key in KEPT}
                    where = {"network": network, "world": world.name, "seed": seed, "method": name}
                    records.append({**where, "metrics": metrics})
        write_json(
            given.out, {"schema": "wildspec.backbones/1", "environment": made, "seconds": seconds, "records": records}
        )
        for name in METHODS:
            rows = [r["metrics"] for r in records if (r["network"], r["method"]) == (network, name)]
            means = {key: round(100 * float(np.mean([row[key] for row in rows])), 1) for key in KEPT}
            print(f"{network}, {1000 * seconds[network]:.1f} ms, {name}: {means}", flush=True)


if __name__ == "__main__":
    main()
