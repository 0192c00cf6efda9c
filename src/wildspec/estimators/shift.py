"""Which wild samples are drawn like the labelled ones, and what moved the others: the shift, estimated and undone.

The wild pool mixes samples like the labelled ones with shifted ones. In the leading principal directions both groups are
modelled as Gaussian with one covariance, the labelled samples belonging to the first for certain; EM gives every wild
sample the posterior r(x) of the second, a logistic function of x. It starts from the neighbours: r is low where labelled
samples are as frequent among a wild sample's neighbours as they are in the whole.

A shift common to all classes (another camera, another style) moves mean and spread of the features. Aligning takes it out:
each group is standardized by its own mean and standard deviation, a sample by the mixture of both that r(x) says, and scaled
to length 1. What is left is the class. The assumption, stated: most of the shifted samples belong to known classes. A pool
whose shifted part is unknown throughout looks the same from here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from wildspec.graph.search import NeighborIndex, Rows, unit_rows

Vector = NDArray[np.float64]

DIRECTIONS = 100  # leading principal directions in which the groups are told apart
NEIGHBORS = 20
STEPS = 30
MOST = 20_000  # samples of each kind that the estimate looks at
RIDGE = 1e-4  # of the mean variance: keeps the covariance invertible
SPREAD = 1e-3  # added to standard deviations of features of length 1: a constant feature is not blown up
STRAY = 0.25  # a shift is believed if held-out labelled samples fall on its side this often at most, compared to wild ones
CLIP = 30.0


@dataclass(frozen=True, eq=False)
class Shift:
    """``means``, ``deviations`` (2, d): of samples like the labelled ones and of shifted ones.

    ``direction`` (d,), ``offset``: log r(x) / (1 - r(x)) = x . direction + offset. ``share``: of shifted samples in the wild
    pool. ``stray``: share of labelled samples kept out of the estimate that fall on the shifted side.
    """

    direction: Vector
    offset: float
    means: Vector
    deviations: Vector
    share: float
    stray: float

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


def estimate_shift(labelled: Rows, wild: Rows, *, seed: int = 0) -> Shift | None:
    """(n, d), (m, d) rows of length 1 -> the shift, or None where the wild pool has no group of its own.

    Half of the labelled samples (at most) are kept out of a first estimate: where they fall on the side of the shifted
    group nearly as often as wild samples do, that group is a part of the labelled distribution and there is no shift.
    """
    rng = np.random.default_rng(seed)
    labelled, wild = _some(labelled, rng), _some(wild, rng)
    if len(labelled) < 4 or len(wild) < 4:
        return None
    order = rng.permutation(len(labelled))
    half = len(labelled) // 2
    trial = _estimate(labelled[order[half:]], wild)
    if trial is None:
        return None
    stray = float((trial.posterior(labelled[order[:half]]) > 0.5).mean())
    if stray > STRAY * trial.share:
        return None
    found = _estimate(labelled, wild)
    if found is None:
        return None
    return Shift(found.direction, found.offset, found.means, found.deviations, found.share, stray)


def _estimate(labelled: Rows, wild: Rows) -> Shift | None:
    rows = np.concatenate([labelled, wild]).astype(np.float64)
    count = len(labelled)
    centre = rows.mean(axis=0)
    basis = _directions(rows - centre)  # (d, p)
    points = (rows - centre) @ basis
    r = _by_neighbors(points, count)
    for _ in range(STEPS):
        weights = np.stack([1 - r, r])
        mass = weights.sum(axis=1)
        if mass[1] < 2:
            return None  # nothing in the pool stands apart
        means = weights @ points / mass[:, None]
        covariance = sum(
            ((points - mean) * weight[:, None]).T @ (points - mean) for mean, weight in zip(means, weights, strict=True)
        ) / len(points)
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


def _some(rows: Rows, rng: np.random.Generator) -> Rows:
    return rows if len(rows) <= MOST else rows[np.sort(rng.choice(len(rows), MOST, replace=False))]
