"""What a model says about samples: one row each, and the same in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from wildspec.checks import REJECTED_NAME
from wildspec.graph.nearest import normalize, search_nearest

REJECTED = -1


@dataclass(frozen=True)
class Verdicts:
    """n samples. ``predicted``: class or -1 = rejected; ``likely``: the most likely class, rejected or not.

    ``probabilities`` (n, C) over the known classes; ``score`` high = OOD; above ``threshold``: rejected; ``p_value``
    conformal;
    ``neighbours`` (n, k) rows of the labelled bank, nearest first, ``distances`` (n, k) to them. ``features`` (n, d).
    """

    predicted: np.ndarray
    likely: np.ndarray
    probabilities: np.ndarray
    score: np.ndarray
    threshold: np.ndarray
    p_value: np.ndarray
    neighbours: np.ndarray
    distances: np.ndarray
    features: np.ndarray

    def __len__(self) -> int:
        return len(self.predicted)

    def rows(self, where: slice, neighbours: int | None = None) -> "Verdicts":
        """Some samples, with no more than ``neighbours`` neighbours each."""
        part = {name: getattr(self, name)[where] for name in self.__dataclass_fields__}
        if neighbours is not None:
            part |= {name: part[name][:, :neighbours] for name in ("neighbours", "distances")}
        return Verdicts(**part)

    @property
    def rejected(self) -> np.ndarray:
        return self.predicted == REJECTED

    @property
    def probability(self) -> np.ndarray:
        """(n,) of the most likely class."""
        return self.probabilities[np.arange(len(self)), self.likely]


def join(blocks: list[Verdicts]) -> Verdicts:
    """Blocks of samples one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    names = Verdicts.__dataclass_fields__
    return Verdicts(**{name: np.concatenate([getattr(block, name) for block in blocks]) for name in names})


@dataclass(frozen=True)
class LabelledBank:
    """The labelled training samples in feature space: ``features`` (m, d) normalized, ``labels`` (m,), ``names`` m."""

    features: Tensor
    labels: np.ndarray
    names: list[str]

    def sample(self, row: int, classes: Sequence[str]) -> tuple[str, str, int]:
        """Name, class and number of a row."""
        return self.names[row], classes[int(self.labels[row])], row

    def nearest(self, features: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(n, d) -> rows (n, k) and distances (n, k) of the nearest labelled samples, nearest first."""
        k = min(k, len(self.names))
        if k == 0 or len(features) == 0:
            return np.empty((len(features), k), np.int64), np.empty((len(features), k), np.float32)
        queries = normalize(features).to(self.features)
        found, where = search_nearest(queries, self.features, k)
        return where.cpu().numpy(), found.cpu().numpy()


@dataclass(frozen=True)
class Neighbour:
    """A labelled training sample near the one asked about; ``row`` of the bank."""

    name: str
    label: str
    distance: float
    row: int


@dataclass(frozen=True)
class Explanation:
    """Why a sample was kept or rejected."""

    decision: str
    likely: str
    probability: float
    ood_score: float
    threshold: float
    p_value: float
    neighbours: tuple[Neighbour, ...]

    @property
    def rejected(self) -> bool:
        return self.decision == REJECTED_NAME

    def __str__(self) -> str:
        near = ", ".join(f"{n.name} ({n.label}, {n.distance:.3g})" for n in self.neighbours)
        compared = f"score {self.ood_score:.4g} {'>' if self.rejected else '<='} threshold {self.threshold:.4g}"
        head = f"rejected (nearest class {self.likely})" if self.rejected else f"{self.likely} ({self.probability:.0%})"
        return f"{head}: {compared}, p = {self.p_value:.3g}" + (f"; nearest labelled: {near}" if near else "")


def explain_rows(
    verdicts: Verdicts, classes: Sequence[str], neighbour: Callable[[int], tuple[str, str, int]]
) -> list[Explanation]:
    """One explanation per sample. ``neighbour``: a row of the labelled bank -> its name, its class, what it is numbered."""
    columns = [verdicts.probability, verdicts.score, verdicts.threshold, verdicts.p_value]
    numbers = np.stack(columns, axis=1).astype(np.float64).tolist()
    out = []
    for i in range(len(verdicts)):
        near = []
        for row, distance in zip(verdicts.neighbours[i].tolist(), verdicts.distances[i].tolist(), strict=True):
            name, label, number = neighbour(row)
            near.append(Neighbour(name, label, distance, number))
        likely = classes[int(verdicts.likely[i])]
        decision = REJECTED_NAME if verdicts.rejected[i] else likely
        sure, score, limit, p_value = numbers[i]
        out.append(Explanation(decision, likely, sure, score, limit, p_value, tuple(near)))
    return out


def with_rejected(classes: NDArray[Any], rejected: NDArray[np.bool_]) -> NDArray[Any]:
    """(n,) classes with the reject label: -1 among numbers, "rejected" among names. Whole numbers are int64, whether any is
    rejected or not, unless they are too large for it."""
    kind = classes.dtype.kind
    if kind == "i" or (kind == "u" and int(classes.max(initial=0)) <= np.iinfo(np.int64).max):
        classes = classes.astype(np.int64, copy=False)
    if not rejected.any():
        return classes
    if kind in "UO":
        return np.where(rejected, REJECTED_NAME, classes.astype(str))
    found = classes.astype(classes.dtype if classes.dtype.kind in "if" else object)
    found[rejected] = REJECTED
    return found
