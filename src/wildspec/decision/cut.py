"""Otsu's cut (1979): the one that splits numbers into two groups, and the one test whether there are two.

eta = (variance between the two sides of the cut) / variance is 3/4 for the uniform distribution (exponential: 0.65, normal:
0.64): a cut that explains no more than that has cut one group in two. In a draw of n it scatters, for the uniform one with
variance 3 / (40 n): half of all uniform draws lie above 3/4. So numbers are taken for one group unless

    eta > 3/4 + z sqrt(3 / (40 n)),    z: the quantile of the normal distribution at ``confidence``,

which a uniform draw does with probability 1 - confidence (benchmarks/one_group.py: other hills more rarely, from n = 100).
"""

import math
from typing import Any

import numpy as np

from wildspec.errors import InputError

UNIFORM = 0.75  # eta of the uniform distribution
GRID = 256  # candidate places of each of two cuts


def otsu_cut(values: Any, weights: Any = None) -> float:
    """The cut that splits values into two sides of least total squared deviation: halfway between the last value of one
    side and the first of the other (Otsu, 1979). Equal values give the value itself. ``weights``: (n,) positive, how much
    each value counts; default all alike."""
    v, w = _numbers(values), None if weights is None else _numbers(weights)
    if v.ndim != 1 or len(v) < 2 or not np.isfinite(v).all():
        raise InputError(f"a cut needs at least two finite values, got an array of shape {v.shape}")
    if w is None:
        w = np.ones_like(v)
    if w.shape != v.shape or not np.isfinite(w).all() or w.min() <= 0:
        raise InputError(f"a cut needs one positive weight for each of its {len(v)} values, got an array of shape {w.shape}")
    order = np.argsort(v, kind="stable")
    v, w = v[order], w[order] / w.sum()
    left = np.cumsum(w)[:-1]
    below = np.cumsum(w * (v - w @ v))[:-1]  # centred: large common offsets cost no digits
    between = below**2 / np.maximum(left * (1 - left), np.finfo(float).tiny)  # w_1 w_2 (mean_1 - mean_2)^2
    between[v[1:] == v[:-1]] = -1.0  # equal values stay on one side
    best = int(np.argmax(between))
    return float(v[best] + v[best + 1]) / 2


def explained(values: Any, cut: float, weights: Any = None) -> float:
    """eta: the share of the variance that lies between the two sides of the cut; 0 where all values are equal. ``weights``
    as in `otsu_cut`."""
    v = _numbers(values)
    w = np.ones_like(v) if weights is None else _numbers(weights)
    w = w / w.sum()
    above = v > cut
    mean = w @ v
    total = float(w @ (v - mean) ** 2)
    if total == 0 or not above.any() or above.all():
        return 0.0
    share = float(w[above].sum())
    apart = (w[above] @ v[above]) / share - (w[~above] @ v[~above]) / (1 - share)
    return share * (1 - share) * float(apart) ** 2 / total


def two_groups(values: Any, cut: float | None = None, *, weights: Any = None, confidence: float = 0.95) -> bool:
    """Whether the cut (default: Otsu's) explains more than a uniform draw of as many values does. ``weights`` as in
    `otsu_cut`; n is then the number of equally weighted values with the same scatter, (sum w)^2 / sum w^2 (Kish, 1965)."""
    cut = otsu_cut(values, weights) if cut is None else cut
    n = float(len(values))
    if weights is not None:
        w = _numbers(weights)
        n = float(w.sum() ** 2 / (w**2).sum())
    return explained(values, cut, weights) > one_group(n, confidence)


def one_group(n: float, confidence: float = 0.95) -> float:
    """The most that Otsu's cut explains of a draw of n from one group, the uniform distribution, with that confidence.

    eta = 1 - W / V (W: variance within the sides, V: variance). For the uniform distribution on [0, 1] a sample at distance
    u from 1/2 moves it by 12 (u^2 / 4 - (u - 1/4)^2) / n; the mean of that is 0, its variance 3/40 / n^2.
    """
    from scipy.stats import norm

    return UNIFORM + float(norm.ppf(confidence)) * math.sqrt(3 / (40 * n))


def three_groups(values: np.ndarray) -> tuple[float, float]:
    """The two cuts that leave the least variance within three groups (Otsu, 1979); candidates on a grid of the ranks."""
    v = np.sort(values)
    n = len(v)
    sums = np.r_[0.0, np.cumsum(v - v.mean())]
    at = np.unique(np.linspace(1, n - 1, min(n - 1, GRID)).round().astype(int))
    first, second = np.meshgrid(at, at, indexing="ij")
    valid = first < second
    size2 = np.where(valid, second - first, 1)
    middle = (sums[second] - sums[first]) ** 2 / size2
    between = sums[first] ** 2 / first + middle + (sums[n] - sums[second]) ** 2 / (n - second)
    i, j = np.unravel_index(np.argmax(np.where(valid, between, -1.0)), valid.shape)
    return float(v[at[i] - 1] + v[at[i]]) / 2, float(v[at[j] - 1] + v[at[j]]) / 2


def _numbers(values: Any) -> np.ndarray:
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values, dtype=np.float64)
