"""Labelled samples to compare with: how far is the k-th nearest of them, and how far apart are the two nearest classes?"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from wildspec.graph.search import Indices, Rows

Vector = NDArray[np.float64]

NEIGHBOR = 10  # the distance to this one counts, at most: a single mislabelled or odd sample does not
VOTERS = 5  # nearest samples of a class whose mean similarity is the class's
BLOCK = 1 << 24  # similarities of one block
ABSENT = -2.0  # less than any similarity


@dataclass(frozen=True, eq=False)
class ClassBank:
    """``rows`` (m, d) of length 1, ordered by ``labels`` (m,) in 0..n_classes-1. ``nearest``: k."""

    rows: Rows
    labels: NDArray[np.int64]
    n_classes: int
    nearest: int = NEIGHBOR

    @classmethod
    def of(
        cls, rows: Rows, labels: NDArray[np.int64], n_classes: int, nearest: int | None = None
    ) -> "ClassBank":
        """``nearest``: by default what `nearest_of` says of the labels."""
        order = np.argsort(labels, kind="stable")
        nearest = nearest_of(labels) if nearest is None else nearest
        return cls(np.ascontiguousarray(rows[order]), labels[order], n_classes, nearest)

    def compare(self, features: Rows, own: Indices | None = None) -> tuple[Vector, Vector]:
        """(n, d) of length 1 -> distance 1 - cos to the k-th nearest (n,), margin (n,), 0 where one class is.

        own: place of each sample in the bank, -1 = not in it; a sample is not its own neighbour.
        """
        edges = np.searchsorted(self.labels, np.arange(self.n_classes + 1))
        away, margin = np.empty(len(features)), np.zeros(len(features))
        step = max(1, BLOCK // max(1, len(self.rows)))
        for start in range(0, len(features), step):
            stop = min(start + step, len(features))
            similar = features[start:stop] @ self.rows.T  # (block, m)
            if own is not None:
                inside = np.flatnonzero(own[start:stop] >= 0)
                similar[inside, own[start:stop][inside]] = ABSENT
            away[start:stop] = 1.0 - _largest(similar, self.nearest).min(axis=1)
            if self.n_classes > 1:
                near = [_voters(similar[:, low:high]) for low, high in pairwise(edges.tolist()) if high > low]
                if len(near) > 1:
                    two = np.partition(np.stack(near, axis=1), -2, axis=1)[:, -2:]
                    margin[start:stop] = two[:, 1] - two[:, 0]
        return away, margin


def nearest_of(labels: NDArray[np.int64]) -> int:
    """k = half of the samples of the smallest class, at least 1, at most `NEIGHBOR`: with more, the k-th nearest of a sample
    would be of another class, and the distance say nothing."""
    counts = np.unique(labels, return_counts=True)[1]
    return int(min(NEIGHBOR, max(1, counts.min() // 2))) if len(counts) else 1


def _largest(values: Rows, count: int) -> Rows:
    """(n, m) -> (n, min(count, m)) largest of each row, in any order; a sample taken out of the bank is not among them
    while others are left."""
    count = min(count, max(1, values.shape[1] - 1))
    return np.partition(values, -count, axis=1)[:, -count:]


def _voters(values: Rows) -> Rows:
    """(n, m) -> (n,) mean of the largest, of as many as there are; `ABSENT` has no vote."""
    if values.shape[1] > VOTERS:
        values = np.partition(values, -VOTERS, axis=1)[:, -VOTERS:]
    there = values > ABSENT
    count = there.sum(axis=1)
    return np.where(count > 0, np.where(there, values, 0).sum(axis=1) / np.maximum(count, 1), ABSENT)
