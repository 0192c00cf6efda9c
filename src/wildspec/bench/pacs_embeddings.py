"""Known classes in one domain, the same and unknown ones in another, on ready-made embeddings of PACS.

For each ordered pair (source, target) of the four domains, with dog, elephant, giraffe, guitar known and horse, house,
person unknown:

    source, known classes      50 % labelled, 25 % in the wild pool, 25 % ID test
    target, known classes      50 % in the wild pool, 50 % covariate test
    target, unknown classes    50 % in the wild pool, 50 % semantic test

Splits are stratified by class and follow from the seed. Mixture "all" puts all wild parts into the pool (the shares differ
from pair to pair and are recorded); "paper" cuts them to the paper's 40 % ID, 50 % covariate, 10 % semantic. No method sees
a label of the pool or of the test sets.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import permutations, product
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from wildspec.bench.embedding_methods import METHODS, Answer, method
from wildspec.checks import choice
from wildspec.data.splits import fraction_split
from wildspec.errors import DataError, one_line
from wildspec.evaluation import evaluate_scores
from wildspec.evaluation.report import joint_score
from wildspec.files import sha256_file

DOMAINS = ("photo", "art_painting", "cartoon", "sketch")
KNOWN = {0: "dog", 1: "elephant", 2: "giraffe", 3: "guitar"}
UNKNOWN = {4: "horse", 5: "house", 6: "person"}
MIXTURES = ("all", "paper")
PAPER_SHARES = (0.4, 0.5, 0.1)  # ID, covariate, semantic: pi_c = 0.5, pi_s = 0.1
PAIRS = tuple(permutations(DOMAINS, 2))
Records = list[dict[str, Any]]


@dataclass(frozen=True)
class Embeddings:
    """``features`` (n, d) float32, ``labels`` (n,), ``domain`` (n,); ``sha256`` of the file."""

    features: np.ndarray
    labels: np.ndarray
    domain: np.ndarray
    sha256: str


@dataclass(frozen=True, eq=False)
class Task:
    """Rows of one pair and seed. ``wild`` holds ``counts`` samples like the labelled ones, shifted known, unknown."""

    labelled: np.ndarray
    labels: np.ndarray
    wild: np.ndarray
    counts: tuple[int, int, int]
    id_test: np.ndarray
    id_labels: np.ndarray
    covariate: np.ndarray
    covariate_labels: np.ndarray
    semantic: np.ndarray
    seed: int

    @property
    def tests(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.id_test, self.covariate, self.semantic


def load_embeddings(path: str | PathLike[str]) -> Embeddings:
    """A .npz file with ``features`` (n, d), ``labels`` (n,) and ``domain`` (n,) names."""
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{file} does not exist; give the .npz file with features, labels and domain")
    try:
        with np.load(file, allow_pickle=False) as stored:
            features, labels, domain = (np.asarray(stored[name]) for name in ("features", "labels", "domain"))
    except (KeyError, ValueError, OSError, EOFError, TypeError, BadZipFile) as error:  # TypeError: a single array, .npy
        raise DataError(f"{file} is not an embeddings file with features, labels and domain: {one_line(error)}") from error
    if features.ndim != 2 or labels.shape != (len(features),) or domain.shape != (len(features),):
        shapes = f"features {features.shape}, labels {labels.shape}, domain {domain.shape}"
        raise DataError(f"{file}: {shapes} do not fit together; each sample needs one of each")
    if features.dtype.kind not in "fiu" or not np.isfinite(features).all():
        raise DataError(f"{file}: features must be finite numbers, got {features.dtype} or values that are not finite")
    if labels.dtype.kind not in "iuf" or not np.isin(labels, [*KNOWN, *UNKNOWN]).all():
        raise DataError(f"{file}: labels must be whole numbers from 0 to 6, the classes of PACS in alphabetical order")
    missing = sorted(set(DOMAINS) - set(domain.tolist()))
    if missing:
        raise DataError(f"{file} has no samples of the domain {', '.join(missing)}")
    return Embeddings(features.astype(np.float32), labels.astype(np.int64), domain, sha256_file(file))


def make_task(data: Embeddings, source: str, target: str, seed: int, mixture: str = "all") -> Task:
    """The split of one pair; see the module's first lines."""
    choice("mixture", mixture, MIXTURES)
    known = np.isin(data.labels, list(KNOWN))
    labelled, wild_id, id_test = split(
        data, (data.domain == source) & known, {"labelled": 0.5, "wild": 0.25, "test": 0.25}, seed
    )
    wild_cov, covariate = split(data, (data.domain == target) & known, {"wild": 0.5, "test": 0.5}, seed)
    wild_sem, semantic = split(data, (data.domain == target) & ~known, {"wild": 0.5, "test": 0.5}, seed)
    parts = [wild_id, wild_cov, wild_sem]
    if mixture == "paper":
        total = min(len(part) / share for part, share in zip(parts, PAPER_SHARES, strict=True))
        rng = np.random.default_rng(seed)
        parts = [
            rng.permutation(part)[: int(share * total)] for part, share in zip(parts, PAPER_SHARES, strict=True)
        ]
    rows = data.features
    return Task(
        labelled=rows[labelled], labels=data.labels[labelled], wild=rows[np.concatenate(parts)],
        counts=(len(parts[0]), len(parts[1]), len(parts[2])),
        id_test=rows[id_test], id_labels=data.labels[id_test],
        covariate=rows[covariate], covariate_labels=data.labels[covariate], semantic=rows[semantic], seed=seed,
    )  # fmt: skip


def measure(task: Task, answer: Answer) -> dict[str, Any]:
    """All metrics of one method on one task; the decision is the method's own, or at its 95 %-ID threshold."""
    found = evaluate_scores(
        id_scores=answer.scores[0], id_pred=answer.predictions[0], id_labels=task.id_labels,
        covariate_scores=answer.scores[1], covariate_pred=answer.predictions[1], covariate_labels=task.covariate_labels,
        semantic_scores=answer.scores[2],
    ).to_json()  # fmt: skip
    if answer.kept is not None:
        kept_id, kept_cov, kept_sem = answer.kept
        right = np.concatenate(
            [answer.predictions[0] == task.id_labels, answer.predictions[1] == task.covariate_labels]
        )
        kept = np.concatenate([kept_id, kept_cov])
        rejected = float(1 - kept_sem.mean())
        found |= {
            "threshold_from": "calibrated", "id_kept": float(kept_id.mean()), "false_alarm_rate": float(1 - kept_id.mean()),
            "covariate_kept": float(kept_cov.mean()), "detection_rate": rejected,
            "accuracy_kept": float(right[kept].mean()) if kept.any() else None,
            "joint": joint_score(found["ood_acc"], float(kept_cov.mean()), rejected),
        }  # fmt: skip
    return found


def run(
    data: Embeddings,
    *,
    seeds: Iterable[int],
    mixtures: Iterable[str] = MIXTURES,
    methods: Iterable[str] | None = None,
    pairs: Iterable[tuple[str, str]] = PAIRS,
    **resuming: Any,
) -> Records:
    """One record per mixture, pair, seed and method; ``resuming``: see `fill_in`."""
    chosen = {name: method(name) for name in (METHODS if methods is None else methods)}
    places = [
        {"mixture": mixture, "source": source, "target": target, "seed": seed}
        for mixture, (source, target), seed in product(mixtures, pairs, seeds)
    ]

    def work(where: dict[str, Any], names: list[str]) -> Iterator[dict[str, Any]]:
        task = make_task(data, **where)
        for name in names:
            yield {"method": name, "wild": list(task.counts), "metrics": measure(task, chosen[name].run(task))}

    return fill_in(places, list(chosen), "method", work, **resuming)


def fill_in(
    places: list[dict[str, Any]],
    names: list[str],
    kind: str,
    work: Callable[[dict[str, Any], list[str]], Iterator[dict[str, Any]]],
    done: Records | None = None,
    say: Callable[[str], None] = lambda text: None,
    keep: Callable[[Records], None] = lambda records: None,
    scale: float = 1.0,
) -> Records:
    """A record for each place (the split) and each name (a ``kind`` of thing that is run there) that ``done`` lacks, which
    are records of an earlier run. Those of another ``scale`` (of the recipes; 1 where a record does not say) stay, but count
    for nothing.

    ``work`` makes those of one place. ``keep`` is called with all records after every place: a run that is cut is resumed.
    """
    records = list(done or [])
    have = {
        (*(str(record[key]) for key in next(iter(places), ())), record[kind])
        for record in records if record.get("scale", 1) == scale
    }  # fmt: skip
    mark = {} if scale == 1 else {"scale": scale}
    for place in places:
        missing = [name for name in names if (*map(str, place.values()), name) not in have]
        if missing:
            records += [{**place, **mark, **made} for made in work(place, missing)]
            keep(records)
            say(f"{', '.join(map(str, place.values()))}: {len(missing)} {kind}s")
    return records


def split(data: Embeddings, chosen: np.ndarray, shares: dict[str, float], seed: int) -> list[np.ndarray]:
    """Rows of the chosen samples (a mask), stratified by class."""
    rows = np.flatnonzero(chosen)
    parts = fraction_split(len(rows), shares, seed, labels=data.labels[rows])
    return [rows[parts[name]] for name in shares]
