"""How strange a sample looks beside the known classes, measured three ways and put on one scale.

For features f of length 1, class probabilities p and a bank of samples of known classes:

    unsure     -max_c p_c                        the probe does not know
    distant    -max_i f . b_i                    no sample of the bank is near
    undecided  -(s_(1) - s_(2))                  two classes are about equally near

with s_c the mean of the 5 largest f . b_i in class c. Each is replaced by its rank among reference samples, the ranks are
added, and the sum is ranked again: u in (0, 1), the share of reference samples that look less strange. Ranks need no scale,
and no single evidence can outvote the other two.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from wildspec.graph.search import Indices, Rows

Vector = NDArray[np.float64]

VOTERS = 5  # bank samples of a class whose nearness is averaged
NOBODY = -2.0  # similarity of what is not there: below that of any two rows of length 1
BLOCK = 1 << 23  # similarities of one block


@dataclass(frozen=True, eq=False)
class Bank:
    """Samples of known classes: ``rows`` (m, d) of length 1, sorted by ``labels`` (m,) in 0..C-1."""

    rows: Rows
    labels: NDArray[np.int64]
    n_classes: int

    @classmethod
    def of(cls, rows: Rows, labels: NDArray[np.int64], n_classes: int) -> tuple["Bank", Indices]:
        """The bank and where each given row went."""
        order = np.argsort(labels, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return cls(np.ascontiguousarray(rows[order]), labels[order], n_classes), place

    def compare(self, features: Rows, own: Indices | None = None) -> tuple[Vector, Vector]:
        """(n, d) -> nearest similarity (n,) and margin between the two nearest classes (n,); 0 where there is one class.

        own: place of each sample in the bank, -1 = not in it; a sample is not its own neighbour.
        """
        edges = np.searchsorted(self.labels, np.arange(self.n_classes + 1))
        nearest, margin = np.empty(len(features)), np.zeros(len(features))
        step = max(1, BLOCK // max(1, len(self.rows)))
        for start in range(0, len(features), step):
            stop = min(start + step, len(features))
            similar = features[start:stop] @ self.rows.T  # (block, m)
            if own is not None:
                inside = np.flatnonzero(own[start:stop] >= 0)
                similar[inside, own[start:stop][inside]] = NOBODY
            nearest[start:stop] = similar.max(axis=1)
            near = np.full((stop - start, self.n_classes), NOBODY)
            for c, (low, high) in enumerate(pairwise(edges.tolist())):
                if high > low:
                    near[:, c] = _mean_of_largest(similar[:, low:high], VOTERS)
            if self.n_classes > 1:
                two = np.partition(near, -2, axis=1)[:, -2:]
                margin[start:stop] = two[:, 1] - two[:, 0]
        return nearest, margin


def evidence(features: Rows, probabilities: Vector, bank: Bank, own: Indices | None = None) -> Vector:
    """(n, 3): unsure, distant, undecided; high = strange."""
    nearest, margin = bank.compare(features, own)
    return np.stack([-probabilities.max(axis=1), -nearest, -margin], axis=1)


@dataclass(frozen=True, eq=False)
class Ranks:
    """``singles`` (m, 3): each evidence of m reference samples, ascending; ``sums`` (m,): their summed ranks, ascending."""

    singles: Vector
    sums: Vector

    @classmethod
    def of(cls, reference: Vector) -> "Ranks":
        singles = np.sort(reference, axis=0)
        return cls(singles, np.sort(_summed(singles, reference)))

    def __call__(self, found: Vector) -> Vector:
        """(n, 3) evidence -> (n,) u in (0, 1)."""
        sums = _summed(self.singles, found)
        below = np.searchsorted(self.sums, sums, side="left")
        above = np.searchsorted(self.sums, sums, side="right")
        return (below + above + 1) / (2 * len(self.sums) + 2)  # ties share their mean rank


@dataclass(frozen=True)
class Tail:
    """far(d): 0 for distances as they occur among reference samples, 1 well beyond: a logistic step.

    With the median q50 and D = q99 - q50 of the reference distances the step is at q99 + D and D / 8 wide.
    """

    step: float
    width: float

    @classmethod
    def of(cls, distances: Rows) -> "Tail":
        middle, high = np.quantile(distances, [0.5, 0.99])
        spread = max(high - middle, 0.05 * middle, 1e-3)
        return cls(float(high + spread), float(spread / 8))

    def __call__(self, distances: Rows) -> Vector:
        exponent = np.clip((distances.astype(np.float64) - self.step) / self.width, -500, 500)
        return np.asarray(1.0 / (1.0 + np.exp(-exponent)))


def _summed(singles: Vector, found: Vector) -> Vector:
    total = np.zeros(len(found))
    for reference, values in zip(singles.T, found.T, strict=True):
        below = np.searchsorted(reference, values, side="left")
        above = np.searchsorted(reference, values, side="right")
        total += (below + above) / (2 * len(reference))
    return total


def _mean_of_largest(values: Rows, count: int) -> Rows:
    """(n, m) -> (n,), or of as many as there are; `NOBODY` has no vote, and where there is nobody else it is the answer."""
    if count < values.shape[1]:
        values = np.partition(values, -count, axis=1)[:, -count:]
    there = values > NOBODY
    if there.all():
        return values.mean(axis=1)
    voters = there.sum(axis=1)
    return np.where(voters > 0, np.where(there, values, 0).sum(axis=1) / np.maximum(voters, 1), NOBODY)
