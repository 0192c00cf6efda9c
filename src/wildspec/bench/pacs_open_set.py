"""Open-set domain adaptation on PACS, rows or images: four known classes in the source, all seven in the target.

12 ordered pairs of domains x 3 choices of known classes (`CHOICES`) x seeds, and two settings:

    source, known classes    80 % labelled, 20 % held out (tests alone)
    transductive             pool = all target rows, tested on the very same, as the published systems are
    inductive                pool = half of the target rows, tested on the other half

Splits are stratified by class and follow from the seed. The choices: dog, elephant, giraffe, guitar, and, first in the
alphabet, two that share the fewest classes with it and with each other (2, 2 and 1); every class is unknown in one of them.
Reported at each system's own decision: OS*, UNK, OS, HOS (`wildspec.evaluation.open_set`); of its score: AUROC and
FPR95 with known target rows, and with held-out source rows, against unknown target rows.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from wildspec.bench.embedding_methods import RowMethod
from wildspec.bench.open_set_systems import SYSTEMS, Predictions
from wildspec.bench.pacs_embeddings import KNOWN, PAIRS, UNKNOWN, Embeddings, Records, fill_in, split
from wildspec.checks import choice
from wildspec.evaluation import auroc, fpr95_id, open_set_metrics
from wildspec.provenance import git_commit

NAMES = (*KNOWN.values(), *UNKNOWN.values())  # labels 0 to 6 of the file
CHOICES = (
    ("dog", "elephant", "giraffe", "guitar"),
    ("dog", "elephant", "horse", "house"),
    ("giraffe", "guitar", "horse", "person"),
)
SETTINGS = ("transductive", "inductive")


@dataclass(frozen=True, eq=False)
class OpenSetTask:
    """Rows, or images, of one pair, choice, seed and setting. ``test_labels`` are the file's; those of no known
    class are unknown."""

    labelled: np.ndarray
    labels: np.ndarray
    wild: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    id_test: np.ndarray
    id_labels: np.ndarray
    known: tuple[int, ...]
    seed: int
    transductive: bool


def make_task(data: Embeddings, known: Iterable[str], source: str, target: str, seed: int, setting: str) -> OpenSetTask:
    """The split of one pair; see the module's first lines."""
    choice("setting", setting, SETTINGS)
    numbers = tuple(NAMES.index(choice("known class", name, NAMES)) for name in known)
    home = (data.domain == source) & np.isin(data.labels, numbers)
    labelled, id_test = split(data, home, {"labelled": 0.8, "held out": 0.2}, seed)
    away = data.domain == target
    wild = test = np.flatnonzero(away)
    if setting == "inductive":
        wild, test = split(data, away, {"wild": 0.5, "test": 0.5}, seed)
    rows, labels = data.features, data.labels
    return OpenSetTask(
        labelled=rows[labelled], labels=labels[labelled], wild=rows[wild], test=rows[test], test_labels=labels[test],
        id_test=rows[id_test], id_labels=labels[id_test], known=numbers, seed=seed, transductive=setting == "transductive",
    )  # fmt: skip


def measure(task: OpenSetTask, told: Predictions) -> dict[str, Any]:
    """All metrics of one system on one task, in [0, 1]."""
    inside = np.isin(task.test_labels, task.known)
    unknown = told.scores[~inside]
    return open_set_metrics(told.predicted, task.test_labels, task.known).to_json() | {
        "auroc": auroc(told.scores[inside], unknown), "fpr95": fpr95_id(told.scores[inside], unknown),
        "id_auroc": auroc(told.id_scores, unknown), "id_fpr95": fpr95_id(told.id_scores, unknown),
        "id_acc": float(np.mean(told.id_predicted == task.id_labels)),
        "unknown_share": float(np.mean(~inside)),
    }  # fmt: skip


def run(
    data: Embeddings,
    *,
    seeds: Iterable[int],
    systems: Iterable[str] | None = None,
    known: Mapping[str, RowMethod] = SYSTEMS,
    settings: Iterable[str] = SETTINGS,
    choices: Iterable[tuple[str, ...]] = CHOICES,
    pairs: Iterable[tuple[str, str]] = PAIRS,
    **resuming: Any,
) -> Records:
    """One record per setting, choice, pair, seed and system. ``known``: the systems there are; ``systems``: the names of
    those to run, all by default; ``resuming``: see `fill_in`."""
    chosen = {name: known[choice("system", name, known)] for name in (known if systems is None else systems)}
    commit = git_commit()
    places = [
        {"setting": setting, "known": list(classes), "source": source, "target": target, "seed": seed}
        for seed, setting, classes, (source, target) in product(seeds, settings, choices, pairs)
    ]

    def work(where: dict[str, Any], names: list[str]) -> Iterator[dict[str, Any]]:
        task = make_task(data, **where)
        for name in names:
            began = time.perf_counter()
            metrics = measure(task, chosen[name].run(task))
            seconds = round(time.perf_counter() - began, 2)
            yield {"system": name, "commit": commit, "seconds": seconds, "metrics": metrics}

    return fill_in(places, list(chosen), "system", work, **resuming)
