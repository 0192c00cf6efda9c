"""Simulated answers about wild samples, on the worlds of the front door: what 10 to 100 of them change, by question rule.

    python benchmarks/review.py --data DIR --out benchmarks/results/review.json

Worlds, splits and features are those of ``benchmarks/front_door.py`` (DIR too), those held back; ``--settled``: the others;
``--blind``: those of ``front_door_blind.py``, right answers only.
A question is answered by the truth, a known class or unknown, or, with ``wrong`` > 0, by another of these with that
probability. Questions are asked in rounds, each by the model that has learned from the rounds before. Where the pool has
fewer than twice as many samples as questions, the round is left out.

``--speed``: how long ten questions and a refit take with 10,000 wild samples, into the same file.

``--jobs N``: as many processes, with one thread each. Results are written after every world; the same command goes on where
it was stopped. ``--features FOLDER``: the features in half precision; made from DIR where the folder is not there, after
that DIR is not needed.
"""

import argparse
import copy
import os
import shutil
import time
from collections.abc import Iterable
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch

import front_door_blind
from front_door import SETS, Photographs, World, make_task, read_photographs, worlds
from wildspec import SpectralClassifier
from wildspec.bench.embedding_methods import Answer
from wildspec.bench.pacs_embeddings import Embeddings, Task, load_embeddings, measure
from wildspec.decision.questions import QUESTION_RULES
from wildspec.files import read_json, write_json
from wildspec.graph.search import unit_rows
from wildspec.provenance import environment

ROUNDS = (10, 20, 50, 100)
OURS = "groups"
COMPARED = (OURS, "random", "boundary")
WRONG = {0.0: (None, *QUESTION_RULES), 0.05: COMPARED, 0.1: COMPARED}  # share of wrong answers: rules
PACS = "pacs_efficientnet_lite0.npz"
KEPT = ("fs_auroc", "id_kept", "covariate_kept", "detection_rate", "ood_acc", "id_acc")


def judge(model: SpectralClassifier, task: Task, names: tuple[str, ...] = KEPT) -> dict[str, float]:
    """The judge of the front door's page."""
    every = np.concatenate(task.tests)
    ends = np.cumsum([len(rows) for rows in task.tests])[:-1]
    decided = model.model_.decide(unit_rows(every))  # once for what ood_score, predict_proba and predict say
    likely = model.classes_[decided.probabilities.argmax(axis=1)]
    parts = (np.split(values, ends) for values in (decided.score, likely, ~model.thresholds_.reject(decided)))
    scores, named, kept = (tuple(part) for part in parts)
    found = measure(task, Answer(scores, named, kept))  # type: ignore[arg-type]
    return {name: round(float(found[name]), 5) for name in names}


def person(truth: np.ndarray, classes: int, wrong: float, rng: np.random.Generator) -> list[Any]:
    """(m,) classes, -1: unknown -> what is answered: a class or "unknown"; a mistake is any other of them."""
    choices = np.arange(-1, classes)
    said = truth.copy()
    for i in np.flatnonzero(rng.random(len(truth)) < wrong):
        said[i] = rng.choice(choices[choices != truth[i]])
    return ["unknown" if value == -1 else int(value) for value in said]


def run_world(
    task: Task, truth: np.ndarray, head: dict[str, Any], rules: tuple[str | None, ...]
) -> list[dict[str, Any]]:
    """One world, draw and share of wrong answers: the model with answers to questions by each rule, None: without any."""
    start = SpectralClassifier(random_state=task.seed).fit(task.labelled, task.labels, task.wild)
    wrong, records = head["wrong"], []
    for rule in rules:
        if rule is None:
            records.append(head | {"rule": None, "answers": 0} | judge(start, task))
            continue
        model, asked = copy.deepcopy(start), 0
        said: dict[bytes, Any] = {}  # of a copy a person says the same again
        rng = np.random.default_rng([task.seed, crc32(head["world"].encode()), round(1000 * wrong)])  # of the mistakes
        for wanted in ROUNDS:
            if len(truth) < 2 * wanted:
                break
            rows = model.questions(wanted - asked, rule)
            asked += len(rows)
            answers = person(truth[rows], int(task.labels.max()) + 1, wrong, rng)
            pairs = zip(rows.tolist(), answers, strict=True)
            given = {row: said.setdefault(task.wild[row].tobytes(), answer) for row, answer in pairs}
            begun = time.perf_counter()
            model.answer(given)
            seconds = time.perf_counter() - begun
            records.append(head | {"rule": rule, "answers": wanted, "refit_seconds": round(seconds, 3)} | judge(model, task))
    return records


def refit_speed(rows: np.ndarray, rounds: int = 5) -> dict[str, Any]:
    """Seconds for ten questions, and for a refit after their answers, with 10,000 wild samples; 500 labelled, 4 classes."""
    rng = np.random.default_rng(0)
    many = rows[rng.choice(len(rows), 10_500)] + rng.normal(scale=0.002, size=(10_500, rows.shape[1])).astype(np.float32)
    model = SpectralClassifier(random_state=0).fit(many[:500], np.arange(500) % 4, many[500:])
    asking, learning = [], []
    for _ in range(rounds):
        begun = time.perf_counter()
        names = model.questions(10)
        between = time.perf_counter()
        model.answer({int(name): "unknown" if name % 2 else int(name) // 2 % 4 for name in names})
        asking.append(between - begun)
        learning.append(time.perf_counter() - between)
    medians = {"questions": float(np.median(asking)), "refit": float(np.median(learning))}
    return {"wild": 10_000, "features": rows.shape[1], "rounds": rounds, **medians}


def keep_features(folder: Path, data: Path, chosen: Iterable[World], blind: bool = False) -> None:
    """What the chosen worlds need, in half precision."""
    made = folder.with_name(f"{folder.name}.part")
    made.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(data / PACS, made / PACS)
    needed = {"clean"} | {world.condition for world in chosen}
    blindly = ((name, front_door_blind.photographs_of(data, name)) for name in SETS)
    for name, found in blindly if blind else read_photographs(data).items():
        rows = {condition: rows.astype(np.float16) for condition, rows in found.rows.items() if condition in needed}
        np.savez_compressed(made / f"{name}.npz", labels=found.labels, **rows)  # type: ignore[arg-type]
    made.rename(folder)


def read_features(folder: Path) -> dict[str, Photographs]:
    found = {}
    for file in sorted(folder.glob("*.npz")):
        if file.name != PACS:
            with np.load(file) as stored:
                rows = {key: unit_rows(stored[key].astype(np.float32)) for key in stored.files if key != "labels"}
                found[file.stem] = Photographs(stored["labels"], rows)
    return found


_LOADED: list[tuple[Embeddings, dict[str, Photographs]]] = []  # of this process


def _load(data: Path, features: Path | None) -> None:
    torch.set_num_threads(1)
    photographs = read_photographs(data) if features is None else read_features(features)
    _LOADED.append((load_embeddings((features or data) / PACS), photographs))


def _run(unit: tuple[World, int, float, tuple[str | None, ...]]) -> list[dict[str, Any]]:
    world, draw, wrong, rules = unit
    head = {"world": world.name, "settled": world.settled, "draw": draw, "wrong": wrong}
    return run_world(*make_task(world, draw, *_LOADED[0]), head, rules)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="not needed where --features is there")
    parser.add_argument("--features", type=Path, help="a folder of features, made where it is missing")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--rules", nargs="+", choices=sorted(QUESTION_RULES), help="these alone, and no answers")
    parser.add_argument("--only", default="", help="worlds whose names have this in them")
    parser.add_argument("--settled", action="store_true", help="the worlds that rules were settled on")
    parser.add_argument("--blind", action="store_true", help="the worlds that were written down first; needs --features")
    parser.add_argument("--speed", action="store_true", help="only how long a refit takes with 10,000 wild samples")
    given = parser.parse_args()
    document = read_json(given.out) if given.out.exists() else {"schema": "wildspec.review/1", "records": []}
    if given.speed:
        rows = load_embeddings((given.features or given.data) / PACS).features
        write_json(given.out, document | {"speed": refit_speed(unit_rows(rows))})
        return
    every = front_door_blind.worlds() if given.blind else [world for world in worlds() if world.settled == given.settled]
    chosen = [world for world in every if given.only in world.name]
    shares = {0.0: WRONG[0.0]} if given.blind else WRONG
    if given.data is None and (given.features is None or not given.features.exists()):
        parser.error("give --data, or a folder of --features that is there")
    if given.blind and given.features is None:
        parser.error("--blind needs --features")
    if given.features is not None and not given.features.exists():
        keep_features(given.features, given.data, every, given.blind)
    records: list[dict[str, Any]] = document["records"]
    done = {(record["world"], record["draw"], record["wrong"], record["rule"]) for record in records}
    asked = {None, *(given.rules or QUESTION_RULES)}
    units = []
    order = product(range(given.draws), shares, chosen)
    for draw, wrong, world in sorted(order, key=lambda unit: unit[1] > 0):  # without mistakes first
        left = tuple(rule for rule in WRONG[wrong] if rule in asked and (world.name, draw, wrong, rule) not in done)
        units += [(world, draw, wrong, left)] if left else []
    made = environment()
    half = "" if given.features is None else " --features FOLDER"
    half += f" --rules {' '.join(given.rules)} --blind --draws {given.draws}" if given.blind else ""
    made["command"] = f"python benchmarks/review.py --data DIR{half} --out benchmarks/results/{given.out.name}"
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # of new processes
    with get_context("spawn").Pool(given.jobs, _load, (given.data, given.features)) as pool:
        for found in pool.imap_unordered(_run, units):
            records += found
            write_json(given.out, document | {"environment": made, "records": records})
            print(f"{found[0]['world']}, draw {found[0]['draw']}, wrong {found[0]['wrong']}", flush=True)


if __name__ == "__main__":
    main()
