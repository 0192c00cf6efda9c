"""The front door: photographs and domains it was settled on, and as many that it was not.

    python benchmarks/front_door.py --data DIR --out benchmarks/results/front_door.json

DIR holds ``pacs160``, ``scenes8``, ``cifar10`` (parquet) and ``pacs_efficientnet_lite0.npz``. A world has known classes in
labelled form, and a pool of the same classes as labelled, of the same under other conditions, and of unknown classes:

    known, as labelled         40 % labelled, 12 % in the pool, 13 % test (photographs); 50, 25, 25 % (domains)
    known, other conditions    20 % in the pool, 15 % test (photographs); 50, 50 % (domains)
    unknown                    half in the pool, half test

"settled": conditions and choices of known classes that were looked at while the rule was chosen; all worlds of version 0.1
of this suite are among them by now. "held back": others, listed before the rule was changed for the last time, and only
reported. Photographs go through a frozen EfficientNet-Lite0 at 160 px once; PACS domains are ready-made rows. All methods
have the same features in the same run; a method without a decision of its own is cut at the 95 % quantile of its own ID test
scores, which favours it.
"""

import argparse
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image

from wildspec.bench.embedding_methods import Answer, method
from wildspec.bench.pacs_embeddings import DOMAINS, Task, load_embeddings, measure
from wildspec.data import ImageArrays, corrupt
from wildspec.embeddings.open_set import OVANet
from wildspec.files import cache_folder, read_json, write_json
from wildspec.graph.search import unit_rows
from wildspec.images.encoding import ImageEncoder
from wildspec.models.encoder import Encoder
from wildspec.provenance import environment

Worsen = Callable[[torch.Tensor, str, int], torch.Tensor]
SIZE, PER_CLASS = 160, 110
BASELINES = ("lr", "lr-energy", "knn-10", "mahalanobis", "vim", "label-spreading-rbf")
SETS = {"photo": "pacs160", "scenes": "scenes8", "cifar": "cifar10"}
CONDITIONS = {  # in this order: a condition's number seeds its noise
    "photo": ("dark", "fog", "noise", "lowres", "motion", "cast", "night", "rain", "zoom", "flat"),
    "scenes": ("snow", "jpeg", "over", "dark", "defocus", "grey", "night", "rain", "zoom", "flat"),
    "cifar": ("noise", "fog"),
}
NEW = ("night", "rain", "zoom", "flat")  # held back
LOOKED_AT = {"photo": ("dark", "fog", "noise", "lowres"), "scenes": ("snow", "jpeg", "over", "dark")}
PHOTO_KNOWN = {True: ((0, 1, 2, 3), (3, 4, 5, 6)), False: ((0, 2, 4, 6), (1, 2, 5, 6))}
SCENES_KNOWN = {True: ((0, 1, 2, 3), (4, 5, 6, 7)), False: ((0, 2, 4, 6), (1, 3, 5, 6))}
PAIR_KNOWN = {True: ((0, 1, 2, 3), (3, 4, 5, 6)), False: ((0, 2, 4, 6), (1, 3, 5, 6), (0, 1, 5, 6), (2, 3, 4, 5))}
NEW_PAIRS = (  # three, four or five classes known
    (0, 3, 5), (1, 4, 6), (0, 2, 3, 6), (1, 2, 4, 5), (0, 1, 4, 6), (2, 5, 6), (0, 3, 4), (1, 3, 4, 5, 6), (0, 1, 2, 4, 5),
    (0, 2, 5, 6), (1, 2, 3, 6), (0, 4, 5, 6),
)  # fmt: skip
NEW_KNOWN = {"photo": ((0, 3, 6), (1, 2, 4, 5)), "scenes": ((0, 3, 5), (1, 2, 4, 7))}
VEHICLES, ANIMALS = (0, 1, 8, 9), (2, 3, 4, 5, 6, 7)


@dataclass(frozen=True)
class World:
    """``unknown``: share of the unknown samples that is in the pool, or, negative, the share of the pool that is unknown;
    ``shift``: whether the pool has the other condition."""

    name: str
    settled: bool
    source: str
    condition: str
    known: tuple[int, ...]
    unknown: float = 1.0
    shift: bool = True


def worlds() -> list[World]:
    """First those that were settled on."""
    found = []
    for i, (source, target) in enumerate(permutations(DOMAINS, 2)):
        choices = PAIR_KNOWN[i % 3 == 0]
        found.append(World(f"{source} to {target}", True, source, target, choices[i % len(choices)]))
    for source, known in (("photo", PHOTO_KNOWN), ("scenes", SCENES_KNOWN)):
        conditions = CONDITIONS[source][:6]
        for i, condition in enumerate(conditions):
            choice = known[condition in LOOKED_AT[source]][i % 2]
            found.append(World(f"{source}, {condition}", True, source, condition, choice))
        for choice, condition in ((known[True][0], conditions[0]), (known[False][0], conditions[-1])):
            found.append(World(f"{source}, no shift, {choice}", True, source, "clean", choice, shift=False))
            found.append(World(f"{source}, {condition}, nothing unknown", True, source, condition, choice, 0.0))
            found.append(World(f"{source}, {condition}, a tenth of the unknown", True, source, condition, choice, 0.1))
    return found + new_worlds()


def new_worlds() -> list[World]:
    """Held back: classes and conditions that nobody has looked at."""
    found = []
    for (source, target), known in zip(permutations(DOMAINS, 2), NEW_PAIRS, strict=True):
        found.append(World(f"{source} to {target}, {known}", False, source, target, known))
    for source, choices in NEW_KNOWN.items():
        for i, condition in enumerate(NEW):
            found.append(World(f"{source}, {condition}", False, source, condition, choices[i % 2]))
        found.append(World(f"{source}, no shift, {choices[0]}", False, source, "clean", choices[0], shift=False))
        for share, words in ((0.0, "nothing"), (0.02, "2 %"), (0.1, "10 %"), (0.3, "30 %")):
            found.append(World(f"{source}, rain, {words} of the pool unknown", False, source, "rain", choices[1], -share))
    found.append(World("cifar, vehicles, noise", False, "cifar", "noise", VEHICLES))
    found.append(World("cifar, animals, fog", False, "cifar", "fog", ANIMALS))
    return found


def worsened(images: torch.Tensor, condition: str, seed: int) -> torch.Tensor:
    """uint8 (n, 3, S, S) under another light, weather, optics or compression."""
    rng, n = np.random.default_rng(seed), len(images)
    known = {"snow": ("snow", 2), "noise": ("gaussian_noise", 3), "defocus": ("defocus_blur", 1)}
    if condition in known:
        return corrupt(images, *known[condition], seed)
    if condition == "jpeg":
        return torch.stack([_jpeg(image, 7) for image in images])
    x = images.float() / 255

    def between(low: float, high: float, shape: tuple[int, ...] = (1, 1, 1)) -> torch.Tensor:
        return torch.from_numpy(rng.uniform(low, high, (n, *shape)).astype(np.float32))

    if condition == "dark":
        noise = torch.from_numpy(rng.standard_normal(tuple(x.shape), dtype=np.float32))
        x = x.clamp_min(1e-4) ** between(1.5, 2.5) * between(0.25, 0.5) + 0.04 * noise
    elif condition == "fog":
        veil = between(0.5, 0.75) * torch.linspace(1, 0.55, x.shape[2]).view(1, 1, -1, 1)
        x = x * (1 - veil) + veil * between(0.75, 0.95)
    elif condition == "lowres":
        small = torch.nn.functional.interpolate(x, size=40, mode="area")
        x = torch.nn.functional.interpolate(small, size=x.shape[2], mode="bilinear")
    elif condition == "motion":
        x = torch.stack([torch.roll(x, step - 6, 3) for step in range(13)]).mean(dim=0)
    elif condition == "cast":
        x = x * between(0.5, 1.2, (3, 1, 1))
    elif condition == "night":
        x = x ** between(1.4, 2.0) * between(0.3, 0.5) * torch.tensor([0.7, 0.85, 1.3]).view(1, 3, 1, 1)
    elif condition == "rain":
        drops = torch.from_numpy((rng.random((n, 1, *x.shape[2:])) > 0.985).astype(np.float32))
        streaks = torch.stack([torch.roll(drops, (step, step // 3), (2, 3)) for step in range(12)]).amax(dim=0)
        x = 0.8 * x * (1 - 0.35 * streaks) + 0.3 * streaks
    elif condition == "zoom":
        side = x.shape[2]
        middle = x[:, :, side // 4 : -side // 4, side // 4 : -side // 4]
        x = torch.nn.functional.interpolate(middle, size=side, mode="bilinear")
    elif condition == "flat":
        x = 0.5 + (x - 0.5) * between(0.2, 0.35)
    elif condition == "over":
        x = x * between(1.8, 2.6)
    elif condition == "grey":
        x = x.mean(dim=1, keepdim=True).expand(-1, 3, -1, -1) * between(0.7, 1.1)
    return (x.clamp(0, 1) * 255).round().to(torch.uint8)


def _jpeg(image: torch.Tensor, quality: int) -> torch.Tensor:
    held = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).numpy()).save(held, "JPEG", quality=quality)
    return torch.from_numpy(np.array(Image.open(held).convert("RGB"))).permute(2, 0, 1)


@dataclass
class Photographs:
    """Rows (n, d) of length 1 of every condition."""

    labels: np.ndarray
    rows: dict[str, np.ndarray]

    @classmethod
    def of(
        cls, name: str, table: pa.Table, chosen: np.ndarray, conditions: Sequence[str], worsen: Worsen, first_seed: int,
        encoder: Encoder | None = None, skip: Sequence[str] = (),
    ) -> "Photographs":
        """The images ``chosen`` of a table, as they are and under every condition but those in ``skip``. ``encoder``: if not
        the usual one; it sees the same pictures, enlarged or reduced to its size."""
        images = torch.stack([_decode(item["bytes"]) for item in table.take(chosen)["image"].to_pylist()])
        encoder = encoder or Encoder("efficientnet_lite0", SIZE)
        network = ImageEncoder(encoder, keep=cache_folder() / "front-door")
        rows = {}
        for i, condition in enumerate(("clean", *conditions)):
            if condition in skip:
                continue
            pixels = resized(images if condition == "clean" else worsen(images, condition, first_seed + i), encoder.size)
            blocks = network.encode(ImageArrays(pixels, torch.zeros(len(pixels)).long(), ("any",)))
            rows[condition] = unit_rows(np.concatenate([block.features.numpy() for block in blocks]))
            print(f"{name}, {condition}: {len(pixels)} images", flush=True)
        return cls(np.array(table["label"])[chosen], rows)


def read_table(data: Path, name: str, first: int = 0) -> tuple[pa.Table, list[np.ndarray]]:
    """Of each set the first file (of CIFAR-10 4,000 test images from ``first`` on, of PACS the photographs), and the rows of
    every class in a random order."""
    table = pq.read_table(next((data / SETS[name]).glob("*test*.parquet" if name == "cifar" else "*.parquet")))
    if name == "cifar":
        table = table.slice(first, 4000)
    if "domain" in table.column_names:
        table = table.take(np.flatnonzero(np.array(table["domain"].to_pylist()) == "photo"))
    labels, rng = np.array(table["label"]), np.random.default_rng(0)
    return table, [rng.permutation(np.flatnonzero(labels == c)) for c in np.unique(labels)]


def _decode(data: bytes) -> torch.Tensor:
    image = Image.open(io.BytesIO(data)).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    image = image.crop((left, top, left + side, top + side)).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def resized(images: torch.Tensor, size: int) -> torch.Tensor:
    """uint8 (n, 3, S, S) -> uint8 (n, 3, size, size)."""
    if images.shape[2] == size:
        return images
    parts = [
        torch.nn.functional.interpolate(part.float(), size=(size, size), mode="bilinear", antialias=True)
        for part in images.split(64)
    ]
    return torch.cat([part.round().to(torch.uint8) for part in parts])


def photo_task(data: Photographs, world: World, seed: int) -> tuple[Task, np.ndarray]:
    """The split, and (m,) the classes of the wild samples, -1: unknown; only a simulated person may look at them."""
    rng, parts = np.random.default_rng(seed), {name: [] for name in ("labelled", "pool", "moved", "id", "shifted")}
    strange: list[np.ndarray] = []
    for c in np.unique(data.labels):
        rows = rng.permutation(np.flatnonzero(data.labels == c))
        if c not in world.known:
            strange.append(rows)
            continue
        cuts = (np.cumsum([0.4, 0.12, 0.2, 0.13]) * len(rows)).astype(int)
        for name, part in zip(parts, np.split(rows, cuts), strict=True):
            parts[name].append(part)
    found = {name: np.concatenate(rows) for name, rows in parts.items()}
    halves = [np.split(rows, [len(rows) // 2]) for rows in strange]
    in_pool, asked = (np.concatenate([half[i] for half in halves]) for i in (0, 1))
    among = len(found["pool"]) + len(found["moved"])
    count = world.unknown * len(in_pool) if world.unknown > 0 else -world.unknown / (1 + world.unknown) * among
    in_pool = rng.permutation(in_pool)[: round(count)]
    clean, other = data.rows["clean"], data.rows[world.condition if world.shift else "clean"]
    mixed = lambda rows: np.concatenate([clean[rows[::2]], other[rows[1::2]]])  # noqa: E731  half of them under the condition
    number = np.full(int(data.labels.max()) + 1, -1)
    number[list(world.known)] = np.arange(len(world.known))
    pool = [clean[found["pool"]], other[found["moved"]], mixed(in_pool)]
    task = Task(
        clean[found["labelled"]], number[data.labels[found["labelled"]]], np.concatenate(pool),
        (len(pool[0]), len(pool[1]), len(pool[2])), clean[found["id"]], number[data.labels[found["id"]]],
        other[found["shifted"]], number[data.labels[found["shifted"]]], mixed(asked), seed,
    )  # fmt: skip
    return task, number[data.labels[np.r_[found["pool"], found["moved"], in_pool]]]


def pair_task(data: Any, world: World, seed: int) -> tuple[Task, np.ndarray]:
    rng, known = np.random.default_rng(seed), np.isin(data.labels, world.known)

    def split(chosen: np.ndarray, shares: tuple[float, ...]) -> list[np.ndarray]:
        parts: list[list[np.ndarray]] = [[] for _ in shares]
        for c in np.unique(data.labels[chosen]):
            rows = rng.permutation(chosen[data.labels[chosen] == c])
            for part, one in zip(parts, np.split(rows, (np.cumsum(shares[:-1]) * len(rows)).astype(int)), strict=True):
                part.append(one)
        return [np.concatenate(part) for part in parts]

    ours, theirs = data.domain == world.source, data.domain == world.condition
    labelled, pool, asked = split(np.flatnonzero(ours & known), (0.5, 0.25, 0.25))
    moved, shifted = split(np.flatnonzero(theirs & known), (0.5, 0.5))
    strange, unknown = split(np.flatnonzero(theirs & ~known), (0.5, 0.5))
    rows, number = unit_rows(data.features), np.full(8, -1)
    number[list(world.known)] = np.arange(len(world.known))
    wild = np.concatenate([pool, moved, strange])
    task = Task(
        rows[labelled], number[data.labels[labelled]], rows[wild], (len(pool), len(moved), len(strange)), rows[asked],
        number[data.labels[asked]], rows[shifted], number[data.labels[shifted]], rows[unknown], seed,
    )  # fmt: skip
    return task, number[data.labels[wild]]


def make_task(world: World, seed: int, rows: Any, photographs: dict[str, Photographs]) -> tuple[Task, np.ndarray]:
    photo = world.source in photographs and world.condition not in DOMAINS
    return photo_task(photographs[world.source], world, seed) if photo else pair_task(rows, world, seed)


def read_photographs(data: Path, encoder: Encoder | None = None, skip: Sequence[str] = ()) -> dict[str, Photographs]:
    found = {}
    for name in SETS:
        table, drawn = read_table(data, name)
        chosen = np.sort(np.concatenate([rows[:PER_CLASS] for rows in drawn]))
        found[name] = Photographs.of(name, table, chosen, CONDITIONS[name], worsened, 100, encoder, skip)
    return found


def ovanet(task: Task) -> Answer:
    model = OVANet(random_state=task.seed).fit(task.labelled, task.labels, task.wild)
    scores, likely = ([f(rows) for rows in task.tests] for f in (model.ood_score, model.predict_known))
    kept = [model.predict(rows) != -1 for rows in task.tests]
    return Answer(tuple(map(np.asarray, scores)), tuple(map(np.asarray, likely)), tuple(map(np.asarray, kept)))  # type: ignore[arg-type]


def answers(task: Task, done: set[str]) -> Iterator[tuple[str, Answer]]:
    """Of all methods but those that are done."""
    runs = {name: method(name).run for name in BASELINES} | {"ovanet": ovanet, "front-door": method("spectral").run}
    yield from ((name, run(task)) for name, run in runs.items() if name not in done)


def run(chosen: list[World], seeds: int, rows: Any, photographs: dict[str, Photographs], out: Path, command: str) -> None:
    """Every method in every world that is not in the file yet, which is written after every world."""
    records: list[dict[str, Any]] = read_json(out)["records"] if out.exists() else []
    made = environment() | {"command": command}
    for seed in range(seeds):
        for world in chosen:
            done = {r["method"] for r in records if (r["world"], r["seed"]) == (world.name, seed)}
            if len(done) == len(BASELINES) + 2:
                continue
            task, _ = make_task(world, seed, rows, photographs)
            for name, answer in answers(task, done):
                metrics = {k: v for k, v in measure(task, answer).items() if not isinstance(v, str)}
                record = {"world": world.name, "settled": world.settled, "seed": seed, "method": name, "metrics": metrics}
                records.append(record)
            print(f"seed {seed}, {world.name}", flush=True)
            write_json(out, {"schema": "wildspec.front-door/1", "environment": made, "records": records})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--again", help="a method whose records are thrown away and made again")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = load_embeddings(given.data / "pacs_efficientnet_lite0.npz")
    if given.again and given.out.exists():
        before = read_json(given.out)
        left = [record for record in before["records"] if record["method"] != given.again]
        write_json(given.out, before | {"records": left})
    command = "python benchmarks/front_door.py --data DIR --out benchmarks/results/front_door.json"
    held_first = sorted(worlds(), key=lambda world: world.settled)
    run(held_first, given.seeds, rows, read_photographs(given.data), given.out, command)


if __name__ == "__main__":
    main()
