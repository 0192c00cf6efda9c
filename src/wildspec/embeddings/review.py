"""What a `SpectralClassifier` gives to a review of its wild pool, and takes from it (`wildspec.decision.review`)."""

import hashlib
from typing import Any

import numpy as np

from wildspec.decision.answers import AnsweredRule
from wildspec.decision.review import Learned, Review


def make_review(estimator: Any) -> Review:
    """Samples are named by their row in the wild pool as ``fit`` was given it."""
    estimator._current("questions")
    learned = Learned(estimator.model_, estimator.thresholds_, estimator.classes_.tolist())
    names = estimator._wild_rows if estimator.n_wild_ else estimator._wild_rows[:0]
    return Review(learned, estimator._held_rows, names, pool_id(estimator))


def take_review(estimator: Any, review: Review) -> None:
    """The estimator decides as the review's last refit has learned."""
    learned = review.learned
    kind = estimator.classes_.dtype
    estimator.classes_ = np.array(learned.classes, dtype=None if kind.kind == "U" else kind)
    estimator._take(learned.model, learned.thresholds)


def pool_id(estimator: Any) -> str:
    """Twelve letters that name the wild pool: the same before and after answers, another one for another model."""
    model = estimator.model_.rule if isinstance(estimator.model_, AnsweredRule) else estimator.model_
    digest = hashlib.sha256(b"" if model.graph is None else np.ascontiguousarray(model.graph.rows).tobytes())
    digest.update(np.ascontiguousarray(estimator._wild_rows, np.int64).tobytes())
    return digest.hexdigest()[:12]
