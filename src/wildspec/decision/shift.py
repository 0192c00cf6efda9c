"""Which wild samples are displaced from the labelled ones, and by how much: the shift, found and undone.

The wild pool mixes samples like the labelled ones with others. In the leading principal directions both groups are modelled
as Gaussian with one covariance, the labelled samples belonging to the first for certain; EM gives every wild sample the
posterior r(x) of the second, a logistic function of x. It starts from the neighbours: r is low where labelled samples are
as frequent among a wild sample's neighbours as they are in the whole.

Undoing the shift takes each group's mean away, a sample's own mixture of both, and scales to length 1:

    a(x) = u / |u|,   u = x - (1 - r(x)) m_0 - r(x) m_1

Only means are used, no deviations of single features: turning all features by one rotation changes no decision. A displaced
group may be made of known classes (another camera), of unknown ones, or of both. Nobody has to tell them apart here: a group
of unknown classes whose mean is taken away still lies between the known classes, not on them.

The test. Half of the labelled and half of the wild samples estimate the shift; of the other halves, those on the shifted
side are counted. Fisher's exact test asks whether wild samples are there more often than labelled ones. If all were drawn
alike, it would say so with probability at most `LEVEL`.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from wildspec.graph.search import NeighborIndex, Rows, unit_rows

Vector = NDArray[np.float64]

DIRECTIONS = 60  # leading principal directions in which the groups are told apart
NEIGHBORS = 20
STEPS = 30
MOST = 20_000  # samples of each kind that the estimate looks at
RIDGE = 1e-4  # of the mean variance: keeps the covariance invertible
FEWEST = 20  # samples of a group below which its mean says nothing
LEVEL = 0.01  # of the test
CLIP = 30.0  # of log-odds


@dataclass(frozen=True, eq=False)
class Shift:
    """``means`` (2, d): of samples like the labelled ones and of displaced ones.

    ``direction`` (d,), ``offset``: log r(x) / (1 - r(x)) = x . direction + offset. ``share``: of displaced samples in the
    wild pool; 0: no shift. ``p_value``: of the test; 1 where it could not be made.
    """

    direction: Vector
    offset: float
    means: Vector
    share: float
    p_value: float

    @classmethod
    def none(cls, labelled: Rows, p_value: float = 1.0) -> "Shift":
        """No shift: one mean, r = 0."""
        mean = labelled.mean(axis=0, dtype=np.float64)
        return cls(np.zeros(labelled.shape[1]), -CLIP, np.stack([mean, mean]), 0.0, p_value)

    @property
    def found(self) -> bool:
        return self.share > 0

    def posterior(self, rows: Rows) -> Vector:
        """(n, d) rows -> (n,) r(x), the probability of the displaced group; 0 where there is none."""
        if not self.found:
            return np.zeros(len(rows))
        return _logistic(rows @ self.direction + self.offset)

    def align(self, rows: Rows, posterior: Vector | None = None) -> Rows:
        """(n, d) -> (n, d) of length 1, each group's mean taken away."""
        r = (self.posterior(rows) if posterior is None else posterior)[:, None].astype(np.float32)
        near, far = self.means.astype(np.float32)
        return unit_rows(rows - near * (1 - r) - far * r)


def find_shift(labelled: Rows, wild: Rows, *, believe: bool | None = None, seed: int = 0) -> Shift:
    """(n, d), (m, d) rows -> the shift. ``believe``: None: what the test says; True, False: whatever it says."""
    rng = np.random.default_rng(seed)
    labelled, wild = labelled[some_of(len(labelled), MOST, rng)], wild[some_of(len(wild), MOST, rng)]
    if believe is False or len(labelled) < 4 or len(wild) < FEWEST:
        return Shift.none(labelled)
    p_value = _test(labelled, wild, rng)
    if believe is None and p_value > LEVEL:
        return Shift.none(labelled, p_value)
    found = _estimate(labelled, wild)
    return Shift.none(labelled, p_value) if found is None else replace(found, p_value=p_value)


def _test(labelled: Rows, wild: Rows, rng: np.random.Generator) -> float:
    """p-value of Fisher's exact test on halves that the estimate has not seen."""
    from scipy.stats import fisher_exact

    ours, theirs = rng.permutation(len(labelled)), rng.permutation(len(wild))
    half, other = len(labelled) // 2, len(wild) // 2
    trial = _estimate(labelled[ours[:half]], wild[theirs[:other]])
    if trial is None:
        return 1.0
    counts = [trial.posterior(rows) > 0.5 for rows in (wild[theirs[other:]], labelled[ours[half:]])]
    return float(fisher_exact([[int(c.sum()), int((~c).sum())] for c in counts], alternative="greater").pvalue)


def _estimate(labelled: Rows, wild: Rows) -> Shift | None:
    rows = np.concatenate([labelled, wild]).astype(np.float64)
    count = len(labelled)
    centre = rows.mean(axis=0)
    basis = _directions(rows - centre)  # (d, p)
    points = (rows - centre) @ basis
    second = points.T @ points
    r = _by_neighbors(points, count)
    slope, offset = np.zeros(points.shape[1]), 0.0
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
        r = np.r_[np.zeros(count), _logistic(points[count:] @ slope + offset)]
    if int((r > 0.5).sum()) < FEWEST:
        return None
    weights = np.stack([1 - r, r])
    means = weights @ rows / weights.sum(axis=1)[:, None]
    direction = basis @ slope
    return Shift(direction, float(offset - centre @ direction), means, float(r[count:].mean()), 1.0)


def _logistic(logits: Vector) -> Vector:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logits, -CLIP, CLIP))))


def _directions(centred: Vector) -> Vector:
    """(n, d) -> (d, p) leading principal directions, p <= DIRECTIONS and well below n."""
    count, width = centred.shape
    most = max(1, min(DIRECTIONS, width, count // 4))
    if width <= count:
        return _leading(centred.T @ centred, most)
    # By way of the samples, as the matrix is smaller so; numpy's SVD may not converge where samples are repeated.
    return np.asarray(np.linalg.qr(centred.T @ _leading(centred @ centred.T, most))[0])


def _leading(symmetric: Vector, most: int) -> Vector:
    """(m, m) -> (m, most) eigenvectors of the largest eigenvalues, the largest first."""
    m = len(symmetric)
    return np.asarray(linalg.eigh(symmetric, subset_by_index=[m - most, m - 1])[1][:, ::-1])


def _by_neighbors(points: Vector, count: int) -> Vector:
    """First guess of r: 0 for labelled samples; for wild ones 1 - (labelled among the neighbours / twice as expected)."""
    k = min(NEIGHBORS + 1, len(points))
    index = NeighborIndex(points, metric="euclidean", method="exact")
    found = index.search_self(k)[1][count:, 1:]
    share = (found < count).mean(axis=1) if k > 1 else np.zeros(len(points) - count)
    return np.r_[np.zeros(count), np.clip(1 - share / (2 * count / len(points)), 0, 1)]


def some_of(count: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Of ``count`` samples all, or ``most`` drawn at random, in order."""
    return np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))
