"""Is a group of wild samples made of the known classes under a shift, or of classes nobody knows? Told without any label
of it.

Two views. The features are cut into halves that have little to do with one another; the nearest class mean in each half
names every sample of the (aligned) group. Samples of known classes carry their class in both halves, so the two names
agree, as they do for labelled samples. Samples of an unknown class are given one name by one half and another by the
other: what is near a known class in some features is not near it in the rest. With Cohen's kappa of the group and of
labelled samples (each named by means of the other half of them), averaged over `CUTS` ways to cut,

    agreement = kappa_group / kappa_labelled       about 1: all of known classes; about 0: none

Features are ordered by their weight in a leading eigenvector of the correlations within classes and cut in the middle;
each of the leading eigenvectors gives one cut. Nothing is drawn at random.

Displacement. If unknown classes differ from the known ones as those differ from each other, the mean of one unknown
class is (1 + 1/C) tau^2 away from the mean of C known ones on average (tau^2: variance of class means), that of several
less. With

    displacement = |mean of the group - mean of the classes|^2 / ((1 + 1/C) tau^2)

more than 1 says that everything moved together, further than classes lie apart; less says that it need not have moved.

Regions. Known classes are regions of the group: a sample and its nearest neighbours have one name. An unknown class is cut
through by the borders between the known ones. With names from all features and p_c the share of the name c,

    torn = share of the edges to the `NEIGHBORS` nearest of the group that join two names / (1 - sum_c p_c^2)

    kinship = agreement - standard error + `WEIGHT` log displacement

A shift is believed if kinship is above `BELIEVED` and torn below `TORN`. The standard error is that of kappa,
sqrt((1 - kappa^2) / n) / kappa_labelled. `WEIGHT`, `BELIEVED` and `TORN` were settled on the worlds of
benchmarks/shift_worlds.py and on PACS (docs/dev/shift-worlds.md shows what they do there). Where
there is one class, or a half of the features does not tell the labelled classes apart, there is no evidence and no
shift is believed: the safe side, since without a shift whatever is unlike the labelled samples is rejected.
"""

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from wildspec.graph.search import NeighborIndex, Rows

Vector = NDArray[np.float64]
Labels = NDArray[np.int64]

CUTS = 12
FEWEST = 40  # samples of a group below which its classes cannot be seen
TELLING = 0.5  # kappa of labelled samples below which half of the features says too little
WEIGHT = 0.03
BELIEVED = 0.265
NEIGHBORS, TORN = 10, 0.68
MOST = 5_000  # samples of each kind that are looked at


@dataclass(frozen=True)
class Kinship:
    """``agreement`` and its standard ``error``; ``displacement``; ``kappa`` of the group; ``torn``; see the first lines."""

    agreement: float
    error: float
    displacement: float
    kappa: float
    torn: float

    @property
    def value(self) -> float:
        return self.agreement - self.error + WEIGHT * log(max(self.displacement, 1e-6))

    @property
    def believed(self) -> bool:
        return self.value > BELIEVED and self.torn < TORN


STRANGERS = Kinship(0.0, 1.0, 0.0, 0.0, 1.0)  # no evidence


def kinship(labelled: Rows, labels: Labels, aligned: Rows, group: Rows, aligned_group: Rows) -> Kinship:
    """(n, d) labelled rows with classes (n,), the same rows aligned, (m, d) rows of the group, the same aligned."""
    keep = np.linspace(0, len(group) - 1, min(len(group), MOST)).astype(np.int64)
    group, aligned_group = group[keep], aligned_group[keep]
    keep = np.linspace(0, len(labelled) - 1, min(len(labelled), MOST)).astype(np.int64)
    labelled, labels, aligned = labelled[keep], labels[keep], aligned[keep]
    classes, labels = np.unique(labels, return_inverse=True)
    count = len(classes)
    if count < 2 or labelled.shape[1] < 2 or len(group) < FEWEST:
        return STRANGERS
    own, theirs = agreements(aligned, labels, aligned_group, count)
    if own < TELLING:
        return STRANGERS
    error = sqrt(max(1 - theirs**2, 0.0) / len(group)) / own
    names = _nearest(aligned, labels, aligned_group)
    return Kinship(theirs / own, error, displacement(labelled, labels, group, count), theirs, torn(aligned_group, names))


def agreements(aligned: Rows, labels: Labels, group: Rows, n_classes: int) -> tuple[float, float]:
    """Mean kappa over the cuts: of labelled samples, each named by means it has no part in, and of the group."""
    width = aligned.shape[1]
    fold = _folds(labels)
    own, theirs = [], []
    for order in _orders(aligned, labels, n_classes):
        halves = order[: width // 2], order[width // 2 :]
        names = np.empty((2, len(labels)), np.int64)
        for name, half in zip(names, halves, strict=True):
            for k in (0, 1):
                taught, asked = fold != k, fold == k
                name[asked] = _nearest(aligned[taught][:, half], labels[taught], aligned[asked][:, half])
        own.append(kappa(names[0], names[1], n_classes))
        one, other = (_nearest(aligned[:, half], labels, group[:, half]) for half in halves)
        theirs.append(kappa(one, other, n_classes))
    return float(np.mean(own)), float(np.mean(theirs))


def displacement(labelled: Rows, labels: Labels, group: Rows, n_classes: int) -> float:
    """Squared distance between the means, less what sampling adds, in units of (1 + 1/C) tau^2."""
    rows, strange = labelled.astype(np.float64), group.astype(np.float64)
    means = np.stack([rows[labels == c].mean(axis=0) for c in range(n_classes)])
    sizes = np.bincount(labels, minlength=n_classes)
    within = float(((rows - means[labels]) ** 2).sum()) / max(len(rows) - n_classes, 1)
    centre = means.mean(axis=0)
    between = float(((means - centre) ** 2).sum()) / (n_classes - 1) - within * float(np.mean(1 / sizes))
    spread = float(((strange - strange.mean(axis=0)) ** 2).sum()) / max(len(strange) - 1, 1)
    noise = spread / len(strange) + within * float(np.mean(1 / sizes)) / n_classes
    away = float(((strange.mean(axis=0) - centre) ** 2).sum()) - noise
    return max(away, 0.0) / ((1 + 1 / n_classes) * max(between, 1e-12))


def torn(group: Rows, names: Labels) -> float:
    """Edges between two names among those to the nearest neighbours, over what the shares of the names give by chance."""
    chance = 1.0 - float(((np.bincount(names) / len(names)) ** 2).sum())
    found = NeighborIndex(group, metric="euclidean", method="exact").search_self(min(NEIGHBORS + 1, len(group)))[1][:, 1:]
    return 1.0 if chance < 1e-9 else float((names[found] != names[:, None]).mean()) / chance


def kappa(one: Labels, other: Labels, n_classes: int) -> float:
    """Cohen's kappa (1960): agreement beyond what the shares of the names give by chance; 0 where all names are one."""
    table = np.zeros((n_classes, n_classes))
    np.add.at(table, (one, other), 1 / len(one))
    chance = float(table.sum(axis=0) @ table.sum(axis=1))
    return 0.0 if chance > 1 - 1e-9 else (float(np.trace(table)) - chance) / (1 - chance)


def _orders(aligned: Rows, labels: Labels, n_classes: int) -> list[NDArray[np.int64]]:
    """Features ordered by their weight in each of the leading eigenvectors of the correlations within classes."""
    from sklearn.utils.extmath import randomized_svd

    means = np.stack([aligned[labels == c].mean(axis=0) for c in range(n_classes)])
    within = aligned - means[labels]
    within = within / np.maximum(within.std(axis=0), 1e-6)
    count = min(CUTS, *within.shape)
    leading = randomized_svd(within, count, random_state=0)[2]  # (count, d); its own start is no matter of the caller's seed
    return [np.argsort(weights, kind="stable") for weights in leading]


def _nearest(rows: Rows, labels: Labels, asked: Rows) -> Labels:
    """(m,) the class whose mean, seen from the mean of the class means, points most nearly where a sample does.

    A class without rows (its only sample is among those asked about) is nobody's.
    """
    present = np.unique(labels)
    if not len(present):
        return np.zeros(len(asked), np.int64)
    means = np.stack([rows[labels == c].mean(axis=0) for c in present]).astype(np.float64)
    means -= means.mean(axis=0)
    means /= np.linalg.norm(means, axis=1, keepdims=True) + 1e-12
    return np.asarray(present[(asked @ means.T).argmax(axis=1)], dtype=np.int64)


def _folds(labels: Labels) -> Labels:
    """(n,) 0 or 1, every other sample of each class."""
    fold = np.empty(len(labels), np.int64)
    for c in np.unique(labels):
        members = np.flatnonzero(labels == c)
        fold[members] = np.arange(len(members)) % 2
    return fold
