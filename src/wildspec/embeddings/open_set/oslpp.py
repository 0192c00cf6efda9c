"""OSLPP: a subspace in which each class holds together, found again as target samples join classes or are rejected.

Wang, Meng and Breckon, Neural Networks 2024; the steps follow the authors' published program. Rows x_i (p,) after PCA.

Graph: W_ij = 1 where i and j have one label (a class, or "rejected", one class of its own), 0 where either is uncertain;
L = D - W. It is never built: with groups g of n_g members and sums s_g, X D X^T = sum_g n_g sum_{i in g} x_i x_i^T and
X W X^T = sum_g s_g s_g^T. Subspace: the d largest v of X D X^T v = w (X L X^T + I) v, with v^T (X L X^T + I) v = 1.

Round t of T: project, subtract the mean of all rows, scale to length 1; q(c|x) = softmax over classes of minus the distance
to the mean of source class c (length 1); the label is the argmax, the confidence its q. Selected: of each predicted class
the most confident, a share growing as t / (T - 1). In round 2 the n_r least confident are rejected; from then on whatever
is nearer to a rejected than to a selected sample. At the end everything that is not selected is unknown.
Score: S = distance to the nearest selected - distance to the nearest rejected sample (ours), > 0 = unknown.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from wildspec.checks import choice, fraction, integer
from wildspec.embeddings.open_set.base import Numbers, OpenSetAnswer, OpenSetClassifier, Vector, unit
from wildspec.errors import InputError
from wildspec.graph.search import Rows

UNCERTAIN, REJECTED = -1, -2
BLOCK = 1 << 22  # distances that are held at once
FARTHEST = 2.0  # between two rows of length 1; the distance to an empty set
Mask = NDArray[np.bool_]


def principal_directions(rows: Vector, count: int) -> Vector:
    """(N, d) -> (d, p) leading eigenvectors of the covariance; p = min(count, N, d)."""
    centred = rows - rows.mean(axis=0)
    found, wide = min(count, *rows.shape), rows.shape[1]
    if wide > len(rows):
        return np.asarray(linalg.svd(centred, full_matrices=False)[2][:found].T)
    return np.asarray(linalg.eigh(centred.T @ centred, subset_by_index=[wide - found, wide - 1])[1][:, ::-1])


def graph_sums(rows: Vector, labels: Numbers) -> tuple[Vector, Vector]:
    """(N, p) rows, (N,) labels -> X D X^T and X W X^T, (p, p) each."""
    sure = labels != UNCERTAIN
    groups, group, counts = np.unique(labels[sure], return_inverse=True, return_counts=True)
    sums = np.stack([rows[labels == each].sum(axis=0) for each in groups])
    weighted = rows[sure] * np.sqrt(counts[group])[:, None]
    return weighted.T @ weighted, sums.T @ sums


def subspace(rows: Vector, labels: Numbers, count: int) -> Vector:
    """(p, d) largest generalized eigenvectors, d = min(count, p)."""
    degree, weight = graph_sums(rows, labels)
    width = rows.shape[1]
    lowest = width - min(count, width)
    right = degree - weight + np.eye(width)
    return np.asarray(linalg.eigh(degree, right, subset_by_index=[lowest, width - 1])[1][:, ::-1])


def confident(predicted: Numbers, confidence: Vector, n_classes: int, t: int, rounds: int) -> Mask:
    """(m,) True for those of each predicted class above the confidence at place floor(N_c max(0, 1 - t / (T - 1)))."""
    chosen = np.zeros(len(predicted), dtype=bool)
    for number in range(n_classes):
        members = np.flatnonzero(predicted == number)
        if len(members):
            place = len(members) * max(0, rounds - 1 - t) // (rounds - 1)  # in whole numbers: no rounding
            chosen[members] = confidence[members] > np.sort(confidence[members])[place]
    return chosen


def class_probabilities(rows: Vector, means: Vector) -> Vector:
    """(n, d), (K, d) of length 1 -> (n, K) softmax of minus the distances."""
    logits = -np.sqrt(np.maximum(2.0 - 2.0 * rows @ means.T, 0.0))
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def nearest(rows: Vector, bank: Vector) -> Vector:
    """(n,) distance of each row of length 1 to the nearest of the bank, `FARTHEST` where the bank is empty."""
    if not len(bank):
        return np.full(len(rows), FARTHEST)
    step = max(1, BLOCK // len(bank))
    parts = [(rows[i : i + step] @ bank.T).max(axis=1) for i in range(0, len(rows), step)]
    return np.sqrt(np.maximum(2.0 - 2.0 * np.concatenate([np.empty(0), *parts]), 0.0))


class OSLPP(OpenSetClassifier):
    """Open-set locality preserving projections, for labelled rows (2 classes at least) and a wild pool from another domain.

    Parameters
    ----------
    n_reject : float or int, default=0.3
        How many wild samples are rejected at first, as a share of the pool (float) or a number (int): prior knowledge of how
        much is unknown. The authors take 1,200 on Office-Home, whose targets hold 3,897 on average.
    n_pca, n_components : int, default=512 and 128
        Dimensions after PCA and of the subspace; fewer where the data has fewer.
    rounds : int, default=10
        T, at least 2.
    center : bool, default=False
        Whether rows are centred when they are projected on the principal directions. The official program does not, its
        re-write in Python does; the figures differ much.

    Attributes
    ----------
    classes_ : (K,) the known classes.
    transduction_ : (m,) decision about the wild samples of ``fit``: those of X, then X_wild. A sample that was neither
        selected nor rejected is unknown here; ``predict`` gives new samples to the nearer of the two sets.
    n_rejected_ : int, how many wild samples were rejected, first or later.
    n_wild_ : int, how many there were.

    Examples
    --------
    >>> import numpy as np
    >>> from wildspec.embeddings import OSLPP
    >>> rng = np.random.default_rng(0)
    >>> means = 3 * np.eye(3)
    >>> X, y = np.repeat(means[:2], 20, axis=0) + 0.3 * rng.normal(size=(40, 3)), np.repeat([0, 1], 20)
    >>> wild = np.repeat(means, 20, axis=0) + 0.3 * rng.normal(size=(60, 3))
    >>> model = OSLPP(n_components=2).fit(X, y, wild)
    >>> [int(np.mean(model.predict(wild[i : i + 20]) == truth) > 0.8) for i, truth in ((0, 0), (20, 1), (40, -1))]
    [1, 1, 1]
    """

    def __init__(
        self, n_reject: float = 0.3, *, n_pca: int = 512, n_components: int = 128, rounds: int = 10, center: bool = False
    ) -> None:
        self.n_reject = n_reject
        self.n_pca = n_pca
        self.n_components = n_components
        self.rounds = rounds
        self.center = center

    def predict_proba(self, X: Any) -> Vector:
        """(n, K) q(c|x) over the known classes, as if each sample belonged to one of them."""
        return class_probabilities(self._project(self._rows(X)), self._means)

    # -- inside --------------------------------------------------------------------------------------------------------
    def _check(self) -> None:
        if isinstance(self.n_reject, float):
            fraction("n_reject", self.n_reject)
        else:
            integer("n_reject", self.n_reject)
        integer("n_pca", self.n_pca, minimum=1)
        integer("n_components", self.n_components, minimum=1)
        integer("rounds", self.rounds, minimum=2)
        choice("center", self.center, (True, False))

    def _learn(self, source: Rows, labels: Numbers, target: Rows) -> OpenSetAnswer:
        if len(self.classes_) < 2:  # q(c|x) of one class is 1: no sample is more confident than another
            raise InputError("OSLPP needs at least 2 known classes to be confident between, got 1; take OSNN or DAOD")
        rows = unit(np.concatenate([source, target]))
        self._directions = principal_directions(rows, int(self.n_pca))
        self._offset = rows.mean(axis=0) if self.center else np.zeros(rows.shape[1])
        rows = unit((rows - self._offset) @ self._directions)
        count, n = len(target), len(source)
        selected, rejected = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        wild = np.full(count, UNCERTAIN)
        for t in range(1, int(self.rounds) + 1 if count else 2):
            projected = self._find(rows, np.concatenate([labels, wild]), labels)
            found = class_probabilities(projected[n:], self._means)
            predicted, confidence = found.argmax(axis=1), found.max(axis=1)
            selected = confident(predicted, confidence, len(self.classes_), t, int(self.rounds)) & ~rejected
            if t == 2:
                rejected |= self._least(confidence)
            if t >= 2 and rejected.any():
                near, far = projected[n:][selected], projected[n:][rejected]
                rejected |= nearest(projected[n:], far) < nearest(projected[n:], near)
            selected &= ~rejected
            wild = np.where(rejected, REJECTED, np.where(selected, predicted, UNCERTAIN))
        self._selected, self._rejected = projected[n:][selected], projected[n:][rejected]
        self.n_rejected_ = int(rejected.sum())
        return OpenSetAnswer(predicted, ~selected, self._score(projected[n:]))

    def _find(self, rows: Vector, known: Numbers, labels: Numbers) -> Vector:
        """The subspace of these labels; (N, d) rows in it, and the source's class means."""
        self._subspace = subspace(rows, known, int(self.n_components))
        projected = rows @ self._subspace
        self._mean = projected.mean(axis=0)
        projected = unit(projected - self._mean)
        source = projected[: len(labels)]
        self._means = unit(np.stack([source[labels == c].mean(axis=0) for c in range(len(self.classes_))]))
        return projected

    def _least(self, confidence: Vector) -> Mask:
        """(m,) the n_r least confident, ties too."""
        count = len(confidence)
        wanted = round(self.n_reject * count) if isinstance(self.n_reject, float) else min(int(self.n_reject), count)
        return confidence <= np.sort(confidence)[wanted - 1] if wanted else np.zeros(count, dtype=bool)

    def _project(self, rows: Rows) -> Vector:
        reduced = unit((unit(rows) - self._offset) @ self._directions)
        return unit(reduced @ self._subspace - self._mean)

    def _score(self, projected: Vector) -> Vector:
        return nearest(projected, self._selected) - nearest(projected, self._rejected)

    def _answer(self, rows: Rows) -> OpenSetAnswer:
        projected = self._project(rows)
        score = self._score(projected)
        return OpenSetAnswer(class_probabilities(projected, self._means).argmax(axis=1), score > 0, score)
