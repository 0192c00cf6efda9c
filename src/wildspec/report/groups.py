"""Rejected samples in groups: things that are about as alike as samples of one known class are one tile, not five hundred.

Average-link clustering, cut at the distance (mean over pairs) that lies `REACH` of the way from the usual distance between
two labelled samples of one class to that between any two samples of the pool. Only what a page shows hangs on it.
"""

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

REACH = 0.85
MOST_CLUSTERED = 1500  # further samples join the group whose centre is nearest
EACH = 100  # labelled samples of a class that are compared
SOME = 500  # samples of the pool that are


def cut_distance(labelled: np.ndarray, labels: np.ndarray, pool: np.ndarray) -> float:
    """(n, d), (n,) classes, (m, d) -> the distance at which two groups are two; infinite where there is nothing to go by."""
    each = [labelled[labels == label][:EACH].astype(np.float64) for label in np.unique(labels)]
    within = [_mean_distance(one) for one in each if len(one) > 1]
    if not within or len(pool) < 2:
        return np.inf
    some = pool[np.unique(np.linspace(0, len(pool) - 1, min(len(pool), SOME)).astype(np.int64))].astype(np.float64)
    inside = float(np.median(within))
    return inside + REACH * max(0.0, _mean_distance(some) - inside)


def _mean_distance(rows: np.ndarray) -> float:
    """Over pairs of different rows."""
    return float(euclidean_distances(rows).sum() / (len(rows) * (len(rows) - 1)))


def group_rows(features: np.ndarray, cut: float) -> np.ndarray:
    """(n, d) -> (n,) group of each, numbered from 0, the largest first."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    count = len(features)
    if count < 2 or not np.isfinite(cut):
        return np.zeros(count, np.int64)
    some = np.unique(np.linspace(0, count - 1, min(count, MOST_CLUSTERED)).astype(np.int64))
    points = features[some].astype(np.float64)
    apart = squareform(euclidean_distances(points), checks=False)
    mine = fcluster(linkage(apart, "average"), cut, "distance") - 1
    found = np.empty(count, np.int64)
    found[some] = mine
    rest = np.setdiff1d(np.arange(count), some)
    if len(rest):
        centres = np.stack([points[mine == group].mean(axis=0) for group in range(int(mine.max()) + 1)])
        for start in range(0, len(rest), 4096):
            part = rest[start : start + 4096]
            found[part] = euclidean_distances(features[part], centres).argmin(axis=1)
    order = np.argsort(-np.bincount(found), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place[found]


def most_typical(features: np.ndarray, groups: np.ndarray, group: int) -> np.ndarray:
    """Members of a group, the nearest to its centre first."""
    inside = np.flatnonzero(groups == group)
    rows = features[inside].astype(np.float64)
    return inside[np.argsort(np.linalg.norm(rows - rows.mean(axis=0), axis=1), kind="stable")]
