"""Wild samples in groups, so that many of one kind are looked at, and named, at once: k-means on the features of the rule.

    k = sqrt(n / 2) groups of n samples, 1 to 12: as many as fit on a page, fewer where groups would be small
"""

import numpy as np

from wildspec.blas import one_blas_thread
from wildspec.decision.questions import MOST_GROUPED, Chosen
from wildspec.graph.search import Rows

MOST_GROUPS = 12


def pool_groups(features: Rows, rows: Chosen, generator: np.random.Generator) -> list[Chosen]:
    """(m,) ``rows`` of the (n, d) features in groups, the largest first; members nearest to their group's centre first."""
    from sklearn.cluster import KMeans

    if not len(rows):
        return []
    points = features[rows]
    some = points if len(rows) <= MOST_GROUPED else points[generator.choice(len(rows), MOST_GROUPED, replace=False)]
    count = int(np.clip(np.sqrt(len(rows) / 2), 1, MOST_GROUPS))
    count = min(count, len(np.unique(some, axis=0)))
    with one_blas_thread():
        found = KMeans(count, n_init=1, random_state=int(generator.integers(1 << 31))).fit(some)
        labels = found.predict(points)
    away = np.linalg.norm(points - found.cluster_centers_[labels], axis=1)
    groups = []
    for group in np.argsort(-np.bincount(labels, minlength=count), kind="stable"):
        inside = np.flatnonzero(labels == group)
        if len(inside):
            groups.append(rows[inside[np.argsort(away[inside], kind="stable")]])
    return groups
