"""What the open-set estimators share: reading rows, the answer they give, and how it is told."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from wildspec.decision.verdicts import with_rejected
from wildspec.embeddings.rows import accuracy, check_rows, check_wild, split_labels
from wildspec.graph.search import Rows

Vector = NDArray[np.float64]
Numbers = NDArray[np.int64]
NO_WILD = "no wild samples given: nothing is learned about unknown classes; mark wild samples with y = -1 or pass X_wild"


@dataclass(frozen=True, eq=False)
class OpenSetAnswer:
    """Of n samples: ``known`` (n,) number of the best known class, ``unknown`` (n,) whether it is rejected, ``score``
    (n,), high = unknown."""

    known: Numbers
    unknown: NDArray[np.bool_]
    score: Vector


class OpenSetClassifier(ClassifierMixin, BaseEstimator):
    """A system learns in ``_learn`` and answers in ``_answer``; what it decides of its own wild samples is in
    ``transduction_``, where that differs from what it says of new samples in the same places (OSLPP)."""

    def fit(self, X: Any, y: Any, X_wild: Any = None) -> "OpenSetClassifier":
        """Learn from rows X (n, d) with classes y, -1 = wild; ``X_wild`` (m, d) are further wild samples.

        Labels of wild samples are never looked at.
        """
        self._check()
        rows = check_rows(self, X, reset=True)
        wild, self.classes_, numbers = split_labels(y, len(rows))
        pool = np.concatenate([rows[wild], check_wild([] if X_wild is None else X_wild, self)])
        if not len(pool):
            warnings.warn(NO_WILD, UserWarning, stacklevel=2)
        self.n_wild_ = len(pool)
        told = self._learn(rows[~wild], numbers[~wild], pool)
        self.transduction_ = self._named(told if told is not None else self._answer(pool))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) classes; the reject label where a sample belongs to no known class."""
        return self._named(self._asked(X))

    def predict_known(self, X: Any) -> NDArray[Any]:
        """(n,) the best known class of each sample, rejected or not."""
        return np.asarray(self.classes_[self._asked(X).known])

    def ood_score(self, X: Any) -> Vector:
        """(n,) high = unknown."""
        return self._asked(X).score

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the samples with a class; a rejected one counts as wrong, wild ones (y = -1) do not count."""
        return accuracy(self, X, y, sample_weight)

    # -- what a system writes ------------------------------------------------------------------------------------------
    def _check(self) -> None:
        """Raises where a parameter has a wrong value."""
        raise NotImplementedError

    def _learn(self, source: Rows, labels: Numbers, target: Rows) -> OpenSetAnswer | None:
        """Learn from (n, d), (n,), (m, d); what it decides of the target, or None where ``_answer`` says the same."""
        raise NotImplementedError

    def _answer(self, rows: Rows) -> OpenSetAnswer:
        raise NotImplementedError

    # -- inside --------------------------------------------------------------------------------------------------------
    def _rows(self, X: Any) -> Rows:
        check_is_fitted(self, "classes_")
        return check_rows(self, X, reset=False)

    def _asked(self, X: Any) -> OpenSetAnswer:
        return self._answer(self._rows(X))

    def _named(self, answer: OpenSetAnswer) -> NDArray[Any]:
        return with_rejected(self.classes_[answer.known], answer.unknown)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def unit(rows: NDArray[Any]) -> Vector:
    """(n, d) -> rows of length 1 in double precision; a zero row stays zero."""
    exact = rows.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return np.asarray(exact / np.where(lengths > 0, lengths, 1.0))
