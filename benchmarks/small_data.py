"""Small pools, and classes of few samples: what the rule does about them, beside the rule that does nothing.

    python benchmarks/small_data.py --data DIR --out benchmarks/results/small_data.json

DIR as for `front_door.py`. "pool": so many random samples of each world's pool (0: none), the rule that counts a pool from
`SMALLEST_POOL` samples on, and one that counts any. "class": a class with so few labelled samples beside the others with all
theirs, the rule that weighs small classes up, and one that does not. Worlds: domains of PACS (rows, 12 pairs of
`front_door.py`) and digits under noise, which were looked at when the rules were made; photographs of `front_door_blind.py`
under their conditions, which were not (two draws of each).
"""

import argparse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import front_door_blind
from backbones import blind_worlds
from front_door import make_task, worlds
from wildspec import SpectralClassifier
from wildspec.bench.pacs_embeddings import DOMAINS, Task, load_embeddings
from wildspec.decision import answers, rule
from wildspec.evaluation import auroc
from wildspec.files import write_json
from wildspec.provenance import environment

POOLS, SAMPLES = (0, 20, 30, 40, 60, 80, 120), (3, 5, 10, 15)
DRAWS = {"domains": 1, "photographs": 2}
DIGITS, KNOWN, NOISE = 12, 6, (2, 4, 6)  # worlds, known classes, deviations of the noise (pixels go from 0 to 16)


@contextmanager
def nothing_done() -> Iterator[None]:
    """The rule without both."""
    kept = rule.SMALLEST_POOL, rule.weights_of
    try:
        rule.SMALLEST_POOL = answers.SMALLEST_POOL = 0
        rule.weights_of = answers.weights_of = lambda *given: None
        yield
    finally:
        rule.SMALLEST_POOL, rule.weights_of = answers.SMALLEST_POOL, answers.weights_of = kept


def digits_world(seed: int) -> Task:
    from sklearn.datasets import load_digits

    rows, classes = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(10)[:KNOWN]
    known, strange = (rng.permutation(np.flatnonzero(np.isin(classes, chosen) == one)) for one in (True, False))
    number = np.full(10, -1)
    number[chosen] = np.arange(KNOWN)

    def noisy(which: np.ndarray) -> np.ndarray:
        return rows[which] + NOISE[seed % len(NOISE)] * rng.normal(size=(len(which), rows.shape[1]))

    def mixed(which: np.ndarray) -> np.ndarray:
        return np.concatenate([rows[which[::2]], noisy(which[1::2])])

    labelled, pool, moved, asked, shifted, _ = np.split(known, [360, 460, 600, 750, 900])
    wild = [rows[pool], noisy(moved), mixed(strange[:150])]
    return Task(
        rows[labelled], number[classes[labelled]], np.concatenate(wild), (len(pool), len(moved), 150), rows[asked],
        number[classes[asked]], noisy(shifted), number[classes[shifted]], mixed(strange[150:350]), seed,
    )  # fmt: skip


def measured(task: Task, rows: np.ndarray, wild: np.ndarray, rare: int | None = None) -> dict[str, float]:
    """Of a model of the labelled ``rows`` and ``wild``; with ``rare`` also of this class's own test samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        pool = wild if len(wild) else None
        model = SpectralClassifier(random_state=0).fit(task.labelled[rows], task.labels[rows], pool)
    scores, said = ([ask(test) for test in task.tests] for ask in (model.ood_score, model.predict))
    likely = [model.classes_[model.predict_proba(test).argmax(axis=1)] for test in task.tests[:2]]
    found = {
        "told_apart": auroc(np.concatenate(scores[:2]), scores[2]), "known_kept": np.mean(said[0] != -1),
        "shifted_kept": np.mean(said[1] != -1), "unknown_rejected": np.mean(said[2] == -1),
        "shifted_recognised": np.mean(likely[1] == task.covariate_labels),
    }  # fmt: skip
    if rare is not None:
        own = task.id_labels == rare
        found["class_recognised"] = np.mean(likely[0][own] == rare)
        found["class_kept_as_another"] = np.mean((said[0][own] != -1) & (said[0][own] != rare))
    return {name: round(float(value), 5) for name, value in found.items()}


def cases(task: Task, seed: int) -> Iterator[dict[str, Any]]:
    rng, everything = np.random.default_rng(seed), np.arange(len(task.labels))
    order = rng.permutation(len(task.wild))
    rare = int(rng.integers(task.labels.max() + 1))
    mine, others = (rng.permutation(np.flatnonzero((task.labels == rare) == one)) for one in (True, False))
    for count in POOLS:
        yield {"part": "pool", "count": count, **measured(task, everything, task.wild[order[:count]])}
    for count in SAMPLES:
        yield {"part": "class", "count": count, **measured(task, np.r_[mine[:count], others], task.wild, rare)}


def tasks(data: Path) -> Iterator[tuple[str, str, int, Task]]:
    """Set, world, seed, task."""
    rows = load_embeddings(data / "pacs_efficientnet_lite0.npz")
    for number in range(DIGITS):
        yield "digits", f"digits {number}", number, digits_world(number)
    pictures = {name: front_door_blind.photographs_of(data, name) for name in ("photo", "scenes")}
    pairs = [world for world in worlds()[:12] if world.condition in DOMAINS]
    for name, chosen in (("domains", pairs), ("photographs", blind_worlds())):
        for world in chosen:
            for seed in range(DRAWS[name]):
                yield name, world.name, seed, make_task(world, seed, rows, pictures)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    command = "python benchmarks/small_data.py --data DIR --out benchmarks/results/small_data.json"
    made, records = environment() | {"command": command}, list[dict[str, Any]]()
    for name, world, seed, task in tasks(given.data):
        where = {"set": name, "world": world, "seed": seed}
        records += [{**where, "rule": "as it is", **case} for case in cases(task, seed)]
        with nothing_done():
            records += [{**where, "rule": "without", **case} for case in cases(task, seed)]
        write_json(given.out, {"schema": "wildspec.small-data/1", "environment": made, "records": records})
        print(f"{name}, {world}, {seed}", flush=True)
    keys = [key for key in records[-1] if key not in ("set", "world", "seed", "rule", "part", "count")]
    for name, part, count, which in dict.fromkeys((r["set"], r["part"], r["count"], r["rule"]) for r in records):
        some = [r for r in records if (r["set"], r["part"], r["count"], r["rule"]) == (name, part, count, which)]
        means = {key: round(100 * float(np.mean([r[key] for r in some])), 1) for key in keys if key in some[0]}
        print(name, part, count, which, means)


if __name__ == "__main__":
    main()
