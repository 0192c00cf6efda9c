"""Otsu's cut (1979): the one that splits numbers into two groups, and whether there are two.

eta = (variance between the two sides of the cut) / variance is 3/4 for the uniform distribution (exponential: 0.65, normal:
0.64): a cut that explains no more than that has cut one group in two.
"""

from typing import Any

import numpy as np

from wildspec.errors import InputError

TWO_GROUPS = 0.75  # eta of the uniform distribution


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


def _numbers(values: Any) -> np.ndarray:
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values, dtype=np.float64)
