"""What a `SpectralClassifier` gives to a review of its wild pool, and takes from it (`wildspec.decision.review`)."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.decision.answers import AnsweredRule
from wildspec.decision.review import Learned, Review


def make_review(estimator: Any) -> Review:
    """Samples are named by their row in the wild pool as ``fit`` was given it."""
    learned = Learned(estimator.model_, estimator.thresholds_, estimator.classes_.tolist())
    names = estimator._wild_rows if estimator.n_wild_ else estimator._wild_rows[:0]
    known = estimator._held_labels if (estimator._held_labels >= 0).all() else None  # not in bundles of earlier versions
    return Review(learned, estimator._held_rows, names, pool_id(estimator), known)


def take_review(estimator: Any, review: Review) -> None:
    """The estimator decides as the review's last refit has learned."""
    learned = review.learned
    if learned.classes != estimator.classes_.tolist():  # the old type may hold neither a new number nor a longer name
        estimator.classes_ = np.array(learned.classes)
    estimator._take(learned.model, learned.thresholds)


def pool_id(estimator: Any) -> str:
    """Twelve letters that name the wild pool: the same before and after answers and in another fit, another for others."""
    if estimator._pool:
        return str(estimator._pool)
    model = estimator.model_.rule if isinstance(estimator.model_, AnsweredRule) else estimator.model_  # an earlier bundle
    return rows_id(model.labelled[:0] if model.graph is None else model.graph.rows, estimator._wild_rows)


def rows_id(*parts: NDArray[Any], before: str = "") -> str:
    """Twelve letters that name these rows in this order, after those that ``before`` names."""
    digest = hashlib.sha256(before.encode())
    for rows in parts:
        digest.update(np.ascontiguousarray(rows).tobytes())
    return digest.hexdigest()[:12]
