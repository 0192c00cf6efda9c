"""Would the paper's loss on views of photographs, through a frozen network, do better than the rule on plain features?

    python benchmarks/spectral_head.py --data DIR --out benchmarks/results/spectral_head.json

DIR holds ``pacs160``. Every photograph goes through the frozen EfficientNet-Lite0 as it is and in 8 random views (crop,
flip, light, contrast, colour, blur, noise). A head of two layers, 1,280 -> 512 -> 64, learns by the spectral loss from pairs
of views of labelled and wild photographs, 600 steps. What it makes of the plain features is then scored by the rule of
`wildspec.decision`, by the distance to the 10th labelled neighbour, and by ``wild_linear``. Worlds and splits are those of
``front_door.py`` that were looked at while the rule was chosen: photographs of PACS under six conditions.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from front_door import CONDITIONS, PER_CLASS, SIZE, Photographs, World, _decode, photo_task, read_table, worlds, worsened
from wildspec.bench.embedding_methods import Answer, logistic_regression, method
from wildspec.bench.pacs_embeddings import Task, measure
from wildspec.data.augment import Augmentation
from wildspec.detectors import build_detector
from wildspec.files import write_json
from wildspec.graph.search import unit_rows
from wildspec.losses.spectral import clip_norm, spectral_loss
from wildspec.models.encoder import Encoder
from wildspec.provenance import environment

VIEWS, WIDE, WIDTH, STEPS, BATCH, LARGEST = 8, 512, 64, 600, 128, 10.0
FIELD = Augmentation(
    scale=(0.5, 1.0), jitter=(0.5, 0.5, 0.4, 0.05), jitter_p=0.8, grey=0.1, blur=0.4, noise=0.1, noise_p=0.3
)  # fmt: skip
CHOSEN = ("clean", *CONDITIONS["photo"][:6])
KEPT = ("fs_auroc", "id_kept", "covariate_kept", "detection_rate", "ood_acc")
Head = Callable[[np.ndarray], np.ndarray]


def read(data: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(n,) labels; of every condition (1 + VIEWS, n, 1280) float16 of length 1: the picture, then its views."""
    encoder, generator = Encoder("efficientnet_lite0", SIZE), torch.Generator().manual_seed(0)
    table, drawn = read_table(data, "photo")
    chosen = np.sort(np.concatenate([rows[:PER_CLASS] for rows in drawn]))
    images = torch.stack([_decode(item["bytes"]) for item in table.take(chosen)["image"].to_pylist()])
    found = {}
    for i, condition in enumerate(CHOSEN):
        pixels = images if condition == "clean" else worsened(images, condition, 100 + i)
        parts = [encoder.encode(pixels)]
        for _ in range(VIEWS):
            seen = [FIELD.apply(part, FIELD.draw(len(part), SIZE, generator)) for part in pixels.split(64)]
            parts.append(encoder.encode((torch.cat(seen) * 255).round().to(torch.uint8)))
        found[condition] = np.stack([unit_rows(part.numpy()).astype(np.float16) for part in parts])
        print(f"{condition}: {len(pixels)} photographs", flush=True)
    return np.array(table["label"])[chosen], found


def split(world: World, seed: int, labels: np.ndarray, rows: dict[str, np.ndarray]) -> tuple[Task, np.ndarray, np.ndarray]:
    """The task, and views (VIEWS, n, d) of its labelled and of its wild photographs."""
    other = world.condition if world.shift else "clean"
    number = np.arange(len(labels))
    places = {name: np.stack([number, np.full(len(labels), name != "clean")], axis=1) for name in ("clean", other)}
    task, _ = photo_task(Photographs(labels, places), world, seed)

    def of(place: np.ndarray) -> np.ndarray:
        both = np.where(place[None, :, 1:] > 0, rows[other][:, place[:, 0]], rows["clean"][:, place[:, 0]])
        return np.asarray(both, np.float32)

    names = ("labelled", "wild", "id_test", "covariate", "semantic")
    found = {name: of(getattr(task, name).astype(np.int64)) for name in names}
    return replace(task, **{name: found[name][0] for name in names}), found["labelled"][1:], found["wild"][1:]


def learn(labelled: np.ndarray, labels: np.ndarray, wild: np.ndarray, seed: int) -> Head:
    """(V, n, d), (n,), (V, m, d) -> the head: (n, d) plain features -> (n, WIDTH)."""
    torch.manual_seed(seed)
    ours, theirs, classes = torch.from_numpy(labelled), torch.from_numpy(wild), torch.from_numpy(labels)
    everything = torch.cat([ours, theirs], dim=1)
    mean, scale = everything.mean(dim=(0, 1)), everything.std()
    net = torch.nn.Sequential(
        torch.nn.Linear(ours.shape[2], WIDE), torch.nn.BatchNorm1d(WIDE), torch.nn.ReLU(), torch.nn.Linear(WIDE, WIDTH)
    )
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        i, j = torch.randint(ours.shape[1], (BATCH,)), torch.randint(theirs.shape[1], (BATCH,))
        a, b, c, d = torch.randint(VIEWS, (4, BATCH))
        pairs = torch.cat([ours[a, i], ours[b, i], theirs[c, j], theirs[d, j]])
        z1, z2, u1, u2 = clip_norm(net((pairs - mean) / scale), LARGEST).chunk(4)
        loss = spectral_loss(z1, z2, classes[i], torch.cat([u1, z1]), torch.cat([u2, z2]), eta_l=0.5, eta_u=1.0)
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        schedule.step()
    net.eval()

    @torch.no_grad()
    def head(rows: np.ndarray) -> np.ndarray:
        return np.asarray(unit_rows(net((torch.from_numpy(rows) - mean) / scale).numpy()))

    return head


def wild_linear(task: Task) -> Answer:
    detector = build_detector("wild_linear")
    labels = torch.from_numpy(np.r_[task.labels, np.full(len(task.wild), -1)])
    detector.fit(features=torch.from_numpy(np.concatenate([task.labelled, task.wild])), labels=labels)
    model = logistic_regression().fit(task.labelled, task.labels)
    scores = tuple(detector.score(features=torch.from_numpy(rows)).numpy() for rows in task.tests)
    return Answer(scores, tuple(model.predict(rows) for rows in task.tests))  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    labels, rows = read(given.data)
    chosen = [world for world in worlds() if world.settled and world.source == "photo" and world.condition in CHOSEN]
    records: list[dict[str, Any]] = []
    for seed in range(given.seeds):
        for world in chosen:
            task, labelled, wild = split(world, seed, labels, rows)
            head = learn(labelled, task.labels, wild, seed)
            names = ("labelled", "wild", "id_test", "covariate", "semantic")
            after = replace(task, **{name: head(getattr(task, name)) for name in names})
            answers = {
                "features, rule": method("spectral").run(task), "head, rule": method("spectral").run(after),
                "head, neighbours": method("knn-10").run(after), "head, wild_linear": wild_linear(after),
            }  # fmt: skip
            for name, answer in answers.items():
                found = measure(task, answer)
                records.append({"world": world.name, "seed": seed, "method": name, **{key: found[key] for key in KEPT}})
            print(world.name, {r["method"]: round(100 * r["fs_auroc"], 1) for r in records[-4:]}, flush=True)
            write_json(given.out, {"schema": "wildspec.spectral-head/1", "environment": environment(), "records": records})


if __name__ == "__main__":
    main()
