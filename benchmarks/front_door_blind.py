"""The front door, blind: worlds with conditions and choices of known classes that `front_door.py` does not have. Run once.

    python benchmarks/front_door_blind.py --data DIR --out benchmarks/results/front_door_blind.json

DIR, splits, methods and measures are those of ``front_door.py``, whose held-back worlds have been looked at several times by
now. Here are other photographs than there (but for three classes of scenes8, which have too few), six other conditions, and
other choices of known classes; the rows of the PACS domains are the same, there are no others. The worlds were written down
and committed before the first of them was run.
"""

import argparse
from itertools import permutations
from pathlib import Path

import numpy as np
import torch

from front_door import PER_CLASS, SETS, Photographs, World, read_table, run
from wildspec.bench.pacs_embeddings import DOMAINS, load_embeddings
from wildspec.data import corrupt
from wildspec.models.encoder import Encoder

FEWEST = 50  # images of a class
CONDITIONS = ("glass", "grain", "evening", "glare", "tilt", "dirt")
KNOWN = {
    "photo": ((0, 4, 5), (1, 3, 4, 6), (0, 2, 3, 5, 6)), "scenes": ((0, 1, 5, 7), (2, 3, 6), (0, 2, 4, 5, 7)),
    "cifar": ((0, 3, 5, 8), (1, 2, 4, 6, 9)),
}  # fmt: skip
PAIRS = (
    (2, 3, 6), (0, 1, 3, 5), (1, 4, 5), (0, 2, 4), (3, 5, 6), (0, 1, 3, 4), (1, 2, 5, 6), (0, 5, 6), (2, 3, 4, 6), (1, 3, 4),
    (0, 4, 5), (1, 2, 3),
)  # fmt: skip


def worlds() -> list[World]:
    found = [
        World(f"{source} to {target}, {known}", False, source, target, known)
        for (source, target), known in zip(permutations(DOMAINS, 2), PAIRS, strict=True)
    ]
    for source, choices in KNOWN.items():
        for i, condition in enumerate(CONDITIONS if source != "cifar" else CONDITIONS[:4]):
            found.append(World(f"{source}, {condition}", False, source, condition, choices[i % len(choices)]))
    for source in ("photo", "scenes"):
        choice = KNOWN[source][1]
        found.append(World(f"{source}, no shift, {choice}", False, source, "clean", choice, shift=False))
        found.append(World(f"{source}, evening, 10 % of the pool unknown", False, source, "evening", choice, -0.1))
    return found


def worsened(images: torch.Tensor, condition: str, seed: int) -> torch.Tensor:
    """uint8 (n, 3, S, S) under another condition."""
    if condition in ("glass", "grain"):
        return corrupt(images, *{"glass": ("glass_blur", 2), "grain": ("shot_noise", 3)}[condition], seed)
    rng, n, side = np.random.default_rng(seed), len(images), images.shape[2]

    def between(low: float, high: float) -> torch.Tensor:
        return torch.from_numpy(rng.uniform(low, high, (n, 1, 1, 1)).astype(np.float32))

    x = images.float() / 255
    down, across = torch.meshgrid(torch.linspace(0, 1, side), torch.linspace(0, 1, side), indexing="ij")
    if condition == "evening":  # low, warm light from one side
        x = x * (0.35 + 0.65 * across) * torch.tensor([1.15, 0.85, 0.55]).view(1, 3, 1, 1) * between(0.7, 1.0)
    elif condition == "glare":  # the sun in the picture
        away = (down - between(0.1, 0.6)) ** 2 + (across - between(0.1, 0.9)) ** 2
        x = x + between(0.7, 1.1) * torch.exp(-away / 0.06)
    elif condition == "tilt":  # the camera turned by 20 to 40 degrees, either way
        turn = torch.deg2rad(between(20, 40).flatten() * torch.from_numpy(rng.choice([-1.0, 1.0], n).astype(np.float32)))
        zero = torch.zeros(n)
        matrix = torch.stack([turn.cos(), -turn.sin(), zero, turn.sin(), turn.cos(), zero], dim=1).view(n, 2, 3)
        grid = torch.nn.functional.affine_grid(matrix, list(x.shape), align_corners=False)
        x = torch.nn.functional.grid_sample(x, grid, padding_mode="reflection", align_corners=False)
    else:  # dirt on the lens: ten soft dark spots
        for _ in range(10):
            away = (down - between(0, 1)) ** 2 + (across - between(0, 1)) ** 2
            x = x * (1 - 0.8 * torch.exp(-away / between(0.002, 0.01)))
    return (x.clamp(0, 1) * 255).round().to(torch.uint8)


def photographs_of(data: Path, name: str, encoder: Encoder | None = None) -> Photographs:
    """Images that `front_door.py` leaves aside, as many of each class; where fewer than `FEWEST` are left, the same.
    ``encoder``: if not the usual one."""
    table, drawn = read_table(data, name, first=4000)
    left = [rows[:0] if name == "cifar" else rows[PER_CLASS : 2 * PER_CLASS] for rows in drawn]  # CIFAR: another slice
    some = [others if len(others) >= FEWEST else rows[:PER_CLASS] for others, rows in zip(left, drawn, strict=True)]
    conditions = CONDITIONS if name != "cifar" else CONDITIONS[:4]
    return Photographs.of(name, table, np.sort(np.concatenate(some)), conditions, worsened, 200, encoder)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = load_embeddings(given.data / "pacs_efficientnet_lite0.npz")
    photographs = {name: photographs_of(given.data, name) for name in SETS}
    command = "python benchmarks/front_door_blind.py --data DIR --out benchmarks/results/front_door_blind.json"
    run(worlds(), given.seeds, rows, photographs, given.out, command)


if __name__ == "__main__":
    main()
