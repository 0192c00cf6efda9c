"""How DAOD aligns two domains: the matrix M of a round, as factors of rank K + 1, from the labels of the round before.

M = ((1 - mu) K e e^T + mu sum_c e_c e_c^T) / Frobenius norm. e: 1/n on source, -1/m_k on the m_k target samples that have
a known label; e_c: 1/n_c and -1/m_c on those of class c; a side without samples is 0. mu = d_c / (d_c + d_m), d_m the proxy
A-distance of source and known target, d_c the mean of it within each class. A-distance = 2 (1 - 2 err), err the training
error of a linear SVM that tells the two sides apart; 2 where one side is empty. Where one hyperplane tells source and the
whole target apart, it tells all their parts apart: every distance is 2, mu = 1/2, and no other classifier is trained.
"""

import warnings

import numpy as np

from wildspec.embeddings.open_set.base import Numbers, Vector
from wildspec.graph.search import Rows

FARTHEST = 2.0
NO_WEIGHT = 1e-3  # mu up to this is taken as 0


def class_weight(source: Rows, labels: Numbers, target: Rows, told: Numbers, n_classes: int, seed: int) -> float:
    """mu. ``told`` (m,): class numbers of the target, ``n_classes`` = unknown."""
    whole = a_distance(source, target[told < n_classes], seed)
    classes = float(np.mean([a_distance(source[labels == c], target[told == c], seed) for c in range(n_classes)]))
    mu = classes / (classes + whole) if classes + whole > 0 else 0.0
    return 0.0 if mu <= NO_WEIGHT else min(mu, 1.0)


def alignment(labels: Numbers, told: Numbers, n_classes: int, mu: float) -> tuple[Vector, Vector]:
    """M = U diag(c) U^T: U (N, K+1), c (K+1,)."""
    known = told < n_classes
    factors = np.stack(
        [_difference(np.ones(len(labels), dtype=bool), known)]
        + [_difference(labels == c, told == c) for c in range(n_classes)],
        axis=1,
    )
    shares = np.array([(1.0 - mu) * n_classes, *[mu] * n_classes])
    gram = factors.T @ factors
    size = np.sqrt(np.trace((shares[:, None] * gram) @ (shares[:, None] * gram)))  # |U C U^T|_F without making it
    return factors, shares / size


def _difference(source: np.ndarray, target: np.ndarray) -> Vector:
    """Masks (n,), (m,) -> (N,) mean over the first less mean over the second."""
    return np.concatenate([source / max(source.sum(), 1), target / -max(target.sum(), 1)])


def a_distance(one: Rows, other: Rows, seed: int) -> float:
    """2 (1 - 2 err) of a linear SVM with C = 1 on these very samples; in [-2, 2]."""
    if not len(one) or not len(other):
        return FARTHEST
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    rows = np.concatenate([one, other])
    side = np.repeat([0, 1], [len(one), len(other)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearSVC(loss="hinge", random_state=seed).fit(rows, side)
    return float(FARTHEST * (1.0 - 2.0 * np.mean(model.predict(rows) != side)))
