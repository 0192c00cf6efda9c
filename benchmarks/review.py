"""Simulated answers about wild samples, on the worlds of the front door: what 10 to 100 of them change, by question rule.

    python benchmarks/review.py --data DIR --out benchmarks/results/review.json

Worlds, splits and features are those of ``benchmarks/front_door.py`` (DIR too), every other one of those held back;
``--settled``: of the others. A question is answered by the truth, a known class or unknown, or, with ``wrong`` > 0, by
another of these with that probability. Questions are asked in rounds, each by the model that has learned from the rounds
before. Where the pool has fewer than twice as many samples as questions, the round is left out.
"""

import argparse
import copy
import time
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch

from front_door import make_task, read_photographs, worlds
from wildspec import SpectralClassifier
from wildspec.bench.embedding_methods import Answer
from wildspec.bench.pacs_embeddings import Task, load_embeddings, measure
from wildspec.decision.questions import QUESTION_RULES
from wildspec.files import read_json, write_json
from wildspec.provenance import environment

ROUNDS = (10, 20, 50, 100)
OURS = "groups"
COMPARED = ("random", "boundary", OURS)  # in every draw; others, and wrong answers, in the first, in small pools
SMALL = 1000
WRONG = (0.05, 0.1)
KEPT = ("fs_auroc", "id_kept", "covariate_kept", "detection_rate", "ood_acc", "id_acc")


def judge(model: SpectralClassifier, task: Task) -> dict[str, float]:
    """The judge of the front door's page."""
    every = np.concatenate(task.tests)
    ends = np.cumsum([len(rows) for rows in task.tests])[:-1]
    likely = model.classes_[model.predict_proba(every).argmax(axis=1)]
    parts = (np.split(values, ends) for values in (model.ood_score(every), likely, model.predict(every) != -1))
    scores, named, kept = (tuple(part) for part in parts)
    found = measure(task, Answer(scores, named, kept))  # type: ignore[arg-type]
    return {name: float(found[name]) for name in KEPT}


def person(truth: np.ndarray, classes: int, wrong: float, rng: np.random.Generator) -> list[Any]:
    """(m,) classes, -1: unknown -> what is answered: a class or "unknown"; a mistake is any other of them."""
    choices = np.arange(-1, classes)
    said = truth.copy()
    for i in np.flatnonzero(rng.random(len(truth)) < wrong):
        said[i] = rng.choice(choices[choices != truth[i]])
    return ["unknown" if value == -1 else int(value) for value in said]


def run_world(task: Task, truth: np.ndarray, head: dict[str, Any]) -> list[dict[str, Any]]:
    start = SpectralClassifier(random_state=task.seed).fit(task.labelled, task.labels, task.wild)
    records = [head | {"rule": None, "wrong": 0.0, "answers": 0} | judge(start, task)]
    asked_by = [(rule, 0.0) for rule in COMPARED]
    if head["draw"] == 0 and len(truth) <= SMALL:
        asked_by += [*((rule, 0.0) for rule in QUESTION_RULES if rule not in COMPARED), *((OURS, share) for share in WRONG)]
    for rule, wrong in asked_by:
        model, asked = copy.deepcopy(start), 0
        rng = np.random.default_rng([task.seed, crc32(head["world"].encode()), round(1000 * wrong)])  # of the mistakes
        for wanted in ROUNDS:
            if len(truth) < 2 * wanted:
                break
            rows = model.questions(wanted - asked, rule)
            asked += len(rows)
            begun = time.perf_counter()
            model.answer(dict(zip(rows.tolist(), person(truth[rows], int(task.labels.max()) + 1, wrong, rng), strict=True)))
            seconds = time.perf_counter() - begun
            line = {"rule": rule, "wrong": wrong, "answers": wanted, "refit_seconds": round(seconds, 3)}
            records.append(head | line | judge(model, task))
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--settled", action="store_true", help="the worlds that rules were settled on")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows, photographs = load_embeddings(given.data / "pacs_efficientnet_lite0.npz"), read_photographs(given.data)
    records: list[dict[str, Any]] = read_json(given.out)["records"] if given.out.exists() else []
    done = {(record["world"], record["draw"]) for record in records}
    made = environment()
    made["command"] = "python benchmarks/review.py --data DIR --out benchmarks/results/review.json"
    for draw in range(given.draws):
        for world in worlds()[::2]:  # every other one: half an hour
            if world.settled == given.settled and (world.name, draw) not in done:
                head = {"world": world.name, "settled": world.settled, "draw": draw}
                records += run_world(*make_task(world, draw, rows, photographs), head)
                write_json(given.out, {"schema": "wildspec.review/1", "environment": made, "records": records})
                print(f"draw {draw}, {world.name}", flush=True)


if __name__ == "__main__":
    main()
