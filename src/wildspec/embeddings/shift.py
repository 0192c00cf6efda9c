"""Which wild samples are drawn like the labelled ones, and what moved the others: the shift, estimated and undone.

The wild pool mixes samples like the labelled ones with shifted ones. In the leading principal directions both groups are
modelled as Gaussian with one covariance, the labelled samples belonging to the first for certain; EM gives every wild
sample the posterior r(x) of the second, a logistic function of x. It starts from the neighbours: r is low where labelled
samples are as frequent among a wild sample's neighbours as they are in the whole.

A shift common to all classes (another camera, another style) moves mean and spread of the features. Aligning takes it out:
each group is standardized by its own mean and standard deviation, a sample by the mixture of both that r(x) says, and scaled
to length 1. What is left is the class.

A group of unknown classes stands apart from the labelled samples too. It is no shift, and undoing it would give it the place
of the known classes; so the group must show that it is made of them (`kinship`).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from wildspec.embeddings.kinship import Kinship, kinship
from wildspec.graph.search import NeighborIndex, Rows, unit_rows

Vector = NDArray[np.float64]
Labels = NDArray[np.int64]

DIRECTIONS = 100  # leading principal directions in which the groups are told apart
NEIGHBORS = 20
STEPS = 30
MOST = 20_000  # samples of each kind that the estimate looks at
TRIAL = 5_000  # the same for the trials with half of the labelled samples
RIDGE = 1e-4  # of the mean variance: keeps the covariance invertible
SPREAD = 1e-3  # added to standard deviations of features of length 1: a constant feature is not blown up
STRAY = 0.25  # a shift is believed if held-out labelled samples fall on its side this often at most, compared to wild ones
CLIP = 30.0


@dataclass(frozen=True, eq=False)
class Shift:
    """``means``, ``deviations`` (2, d): of samples like the labelled ones and of shifted ones.

    ``direction`` (d,), ``offset``: log r(x) / (1 - r(x)) = x . direction + offset. ``share``: of shifted samples in the wild
    pool. ``stray``: share of labelled samples kept out of the estimate that fall on the shifted side. ``kappa``: how well
    two views agree on the classes of shifted samples (`kinship`), 0 where nobody looked.
    """

    direction: Vector
    offset: float
    means: Vector
    deviations: Vector
    share: float
    stray: float
    kappa: float = 0.0

    def posterior(self, rows: Rows) -> Vector:
        """(n, d) rows of length 1 -> (n,) r(x), the probability of the shifted group."""
        logits = np.clip(rows @ self.direction + self.offset, -CLIP, CLIP)
        return np.asarray(1.0 / (1.0 + np.exp(-logits)))

    def align(self, rows: Rows, posterior: Vector | None = None) -> Rows:
        """(n, d) -> (n, d) of length 1, standardized by the group each sample belongs to."""
        return unit_rows(self.standardize(rows, posterior))

    def standardize(self, rows: Rows, posterior: Vector | None = None) -> Rows:
        """The same before it is scaled: a sample far from its group is long."""
        r = (self.posterior(rows) if posterior is None else posterior)[:, None].astype(np.float32)
        means, inverse = self.means.astype(np.float32), (1.0 / self.deviations).astype(np.float32)
        kept = (rows - means[0]) * inverse[0] * (1 - r)
        return np.asarray(kept + (rows - means[1]) * inverse[1] * r)


def estimate_shift(labelled: Rows, wild: Rows, labels: Labels | None = None, *, seed: int = 0) -> Shift | None:
    """(n, d), (m, d) rows of length 1 -> the shift, or None where the wild pool has no group of its own.

    Each half of the labelled samples is kept out of an estimate in turn: where they fall on the side of the shifted group
    nearly as often as wild samples do, that group is a part of the labelled distribution and there is no shift. With
    ``labels`` (n,) the group must be kin to the known classes; without them that is taken for granted.
    """
    rng = np.random.default_rng(seed)
    chosen = _some(len(labelled), rng)
    labelled, wild = labelled[chosen], wild[_some(len(wild), rng)]
    if len(labelled) < 4 or len(wild) < 4:
        return None
    found = _estimate(labelled, wild)
    if found is None:
        return None
    if labels is not None:
        kin = group_kinship(found, labelled, labels[chosen], wild)
        if not kin.believed:
            return None
        found = replace(found, kappa=kin.kappa)
    order = rng.permutation(len(labelled))[: 2 * TRIAL]
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    wild = wild[_some(len(wild), rng, TRIAL)]
    strays, shares = [], []
    for kept, out in (halves, halves[::-1]):
        trial = _estimate(labelled[kept], wild)
        if trial is None:
            return None
        strays.append(float((trial.posterior(labelled[out]) > 0.5).mean()))
        shares.append(trial.share)
    if np.mean(strays) > STRAY * np.mean(shares):
        return None
    return replace(found, stray=float(np.mean(strays)))


def group_kinship(shift: Shift, labelled: Rows, labels: Labels, wild: Rows) -> Kinship:
    """Whether the wild samples on the shifted side are of the known classes."""
    group = wild[shift.posterior(wild) > 0.5]
    aligned, others = shift.align(labelled, np.zeros(len(labelled))), shift.align(group, np.ones(len(group)))
    return kinship(labelled, labels, aligned, group, others)


def _estimate(labelled: Rows, wild: Rows) -> Shift | None:
    rows = np.concatenate([labelled, wild]).astype(np.float64)
    count = len(labelled)
    centre = rows.mean(axis=0)
    basis = _directions(rows - centre)  # (d, p)
    points = (rows - centre) @ basis
    second = points.T @ points
    r = _by_neighbors(points, count)
    for _ in range(STEPS):
        weights = np.stack([1 - r, r])
        mass = weights.sum(axis=1)
        if mass[1] < 2:
            return None  # nothing in the pool stands apart
        means = weights @ points / mass[:, None]
        covariance = (second - (means * mass[:, None]).T @ means) / len(points)  # the weights of a sample sum to 1
        covariance += (RIDGE * np.trace(covariance) / len(covariance) + 1e-12) * np.eye(len(covariance))
        slope = np.linalg.solve(covariance, means[1] - means[0])
        prior = np.clip(r[count:].mean(), 1e-6, 1 - 1e-6)
        offset = -0.5 * (means[0] + means[1]) @ slope + np.log(prior / (1 - prior))
        r = np.r_[np.zeros(count), 1 / (1 + np.exp(-np.clip(points[count:] @ slope + offset, -CLIP, CLIP)))]
    weights = np.stack([1 - r, r])
    mass = np.maximum(weights.sum(axis=1), 1e-12)
    means = weights @ rows / mass[:, None]
    deviations = np.sqrt(np.maximum(weights @ rows**2 / mass[:, None] - means**2, 0)) + SPREAD
    direction = basis @ slope
    return Shift(direction, float(offset - centre @ direction), means, deviations, float(r[count:].mean()), 0.0)


def _directions(centred: Vector) -> Vector:
    """(n, d) -> (d, p) leading principal directions, p <= DIRECTIONS and well below n."""
    most = max(1, min(DIRECTIONS, centred.shape[1], len(centred) // 4))
    width = centred.shape[1]
    if width <= len(centred):
        return np.asarray(linalg.eigh(centred.T @ centred, subset_by_index=[width - most, width - 1])[1][:, ::-1])
    return np.asarray(np.linalg.svd(centred, full_matrices=False)[2][:most].T)


def _by_neighbors(points: Vector, count: int) -> Vector:
    """First guess of r: 0 for labelled samples; for wild ones 1 - (labelled among the neighbours / twice as expected)."""
    k = min(NEIGHBORS + 1, len(points))
    index = NeighborIndex(points, metric="euclidean", method="exact")
    found = index.search_self(k)[1][count:, 1:]
    share = (found < count).mean(axis=1) if k > 1 else np.zeros(len(points) - count)
    return np.r_[np.zeros(count), np.clip(1 - share / (2 * count / len(points)), 0, 1)]


def _some(count: int, rng: np.random.Generator, most: int = MOST) -> Labels:
    return np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))
