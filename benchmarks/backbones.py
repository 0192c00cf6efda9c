"""What another network, or a larger input, is worth: the photographs held back by `front_door.py`, through several networks.

    python benchmarks/backbones.py --data DIR --out benchmarks/results/backbones.json
    python benchmarks/backbones.py --data DIR --blind --bounds 1.0,1.5 --out benchmarks/results/backbones_blind.json
    python benchmarks/backbones.py --data DIR --blind --sizes 112,136,160 --out benchmarks/results/sizes.json
    python benchmarks/backbones.py --data DIR --blind --beside efficientnet_lite2 --out benchmarks/results/beside.json

DIR as for `front_door.py`, whose pictures, splits and measures these are; worlds with a whole pool, three seeds; networks of
`pip install 'wildspec[backbones]'`. The pictures have 160 px: a larger input shows a network nothing more, only enlarged.
Seconds of an image: one thread, batches as `fit` has them, the fastest of five rounds in which the networks take turns.
With --blind the photographs' worlds of `front_door_blind.py` instead, all of photo and scenes, and no seconds.
--sizes: the usual network alone, with its input made so small: what pixels are worth that the pictures really have.
--beside: the usual network, this one at the same size, and the features of both side by side, each of length 1.
--bounds: our method once with each of these as `FARTHEST` of `wildspec.decision.rule`; "bound" in every record, null of
the other methods.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import front_door_blind
from few_labelled import KEPT, SEEDS, chosen
from front_door import CONDITIONS, Photographs, World, photo_task, read_photographs
from wildspec.bench.embedding_methods import Answer, method
from wildspec.bench.pacs_embeddings import DOMAINS, Task, measure
from wildspec.decision import rule
from wildspec.files import write_json
from wildspec.graph.search import unit_rows
from wildspec.models.encoder import Encoder
from wildspec.provenance import environment

NETWORKS = (
    ("efficientnet_lite0", 160), ("efficientnet_lite0", 224), ("efficientnet_lite1", 240), ("efficientnet_lite2", 260),
)  # fmt: skip
METHODS = {"front-door": "spectral", "lr-energy": "lr-energy", "vim": "vim"}
BLIND = ("photo", "scenes")
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


def blind_worlds() -> list[World]:
    return [w for w in front_door_blind.worlds() if w.source in BLIND and w.condition not in DOMAINS]


def photographs_for(data: Path, encoder: Encoder, worlds: list[World], blind: bool) -> dict[str, Photographs]:
    if blind:
        return {name: front_door_blind.photographs_of(data, name, encoder) for name in BLIND}
    skip = {name for names in CONDITIONS.values() for name in names} - {world.condition for world in worlds}
    return read_photographs(data, encoder, sorted(skip))


def beside(one: Photographs, other: Photographs) -> Photographs:
    """The same pictures through two networks: rows side by side, of length 1 again."""
    rows = {name: unit_rows(np.concatenate([one.rows[name], other.rows[name]], axis=1)) for name in one.rows}
    return Photographs(one.labels, rows)


def answers(task: Task, bounds: Sequence[float]) -> Iterator[tuple[str, float | None, Answer]]:
    """Method, bound, answer: ours once for every bound."""
    for bound in bounds:
        rule.FARTHEST = bound
        yield "front-door", bound, method(METHODS["front-door"]).run(task)
    yield from ((name, None, method(run).run(task)) for name, run in METHODS.items() if name != "front-door")


def numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--blind", action="store_true", help="the photographs' worlds of front_door_blind.py")
    parser.add_argument("--bounds", type=numbers, help="bounds on the displacement of other things, as 1.0,1.5")
    parser.add_argument("--sizes", type=numbers, help="sides of the usual network's input, as 112,136,160")
    parser.add_argument("--beside", help="a network, its features beside those of the usual one")
    given = parser.parse_args()
    networks = [(NETWORKS[0][0], int(size)) for size in given.sizes] if given.sizes else list(NETWORKS)
    if given.beside:
        networks = [NETWORKS[0], (given.beside, NETWORKS[0][1])]
    encoders = {f"{name}, {size} px": Encoder(name, size) for name, size in networks}
    torch.set_num_threads(1)
    timed = {} if given.blind else {"seconds": seconds_each(encoders)}
    worlds = blind_worlds() if given.blind else chosen()
    options = " --blind" if given.blind else ""
    options += f" --bounds {','.join(map(str, given.bounds))}" if given.bounds else ""
    options += f" --sizes {','.join(f'{size:g}' for size in given.sizes)}" if given.sizes else ""
    options += f" --beside {given.beside}" if given.beside else ""
    command = f"python benchmarks/backbones.py --data DIR{options} --out benchmarks/results/{given.out.name}"
    made, records = environment() | {"command": command}, list[dict[str, Any]]()
    seen = dict[str, dict[str, Photographs]]()
    for network, encoder in encoders.items():
        seen[network] = photographs_for(given.data, encoder, worlds, given.blind)
    if given.beside:
        one, other = seen.values()
        if timed:
            timed["seconds"]["both, side by side"] = sum(timed["seconds"].values())
        seen["both, side by side"] = {name: beside(one[name], other[name]) for name in one}
    for network, photographs in seen.items():
        for world in worlds:
            for seed in SEEDS:
                task, _ = photo_task(photographs[world.source], world, seed)
                for name, bound, answer in answers(task, given.bounds or [rule.FARTHEST]):
                    found = measure(task, answer)
                    metrics = {key: round(float(found[key]), 5) for key in KEPT}
                    where = {"network": network, "world": world.name, "seed": seed, "method": name}
                    where |= {"bound": bound} if given.bounds else {}
                    records.append({**where, "metrics": metrics})
        write_json(given.out, {"schema": "wildspec.backbones/1", "environment": made, **timed, "records": records})
        here = [r for r in records if r["network"] == network]
        speed = f", {1000 * timed['seconds'][network]:.1f} ms" if timed else ""
        for name, bound in dict.fromkeys((r["method"], r.get("bound")) for r in here):
            rows = [r["metrics"] for r in here if (r["method"], r.get("bound")) == (name, bound)]
            means = {key: round(100 * float(np.mean([row[key] for row in rows])), 1) for key in KEPT}
            print(f"{network}{speed}, {name}{f', bound {bound}' if bound else ''}: {means}", flush=True)


if __name__ == "__main__":
    main()
