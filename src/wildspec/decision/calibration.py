"""A threshold with a promise: at most alpha of in-distribution samples are rejected, in expectation, at any sample size.

Split conformal calibration: n held-out in-distribution scores, s_(1) <= ... <= s_(n), threshold t = s_(r) with
r = ceil((n + 1)(1 - alpha)); a sample is rejected when its score is > t. For exchangeable samples
P(reject) <= (n + 1 - r) / (n + 1) <= alpha, ties included (equal scores are accepted together, which only lowers the rate).
The p-value (1 + #{s_i >= s}) / (n + 1) is <= alpha exactly where the threshold rejects.

Class by class: with the class of every calibration sample, the same for each class k that has samples enough, and

    t = max(s_(r), max_k t_k),   t_k = s_(r_k) among the n_k samples of class k,   r_k = ceil((n_k + 1)(1 - alpha))

that is, a sample is rejected whose p-value is <= alpha in every class. A new sample of class k is rejected only if its score
is > t_k, so P(reject | class k) <= alpha for each of these classes, whatever class the model would name. A quantile for each
*predicted* class would bound something else: the share rejected among samples that the model calls k. A class with too few
calibration samples has no quantile and no promise of its own.

What one calibration set gives varies: without ties the realized rate follows Beta(n + 1 - r, r) exactly, whatever the
distribution of the scores (Vovk, 2012); with ties it is smaller.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.checks import integer, open_fraction
from wildspec.decision.scores import Array, as_scores
from wildspec.errors import InputError


def samples_needed(alpha: float, lost: int = 0) -> int:
    """The smallest calibration set that can promise alpha: ceil((1 - alpha) / alpha), and as much again for each of the
    ``lost`` samples, whose scores are not known: they are taken to lie above any threshold."""
    return math.ceil((lost + 1) / _exact(alpha)) - (lost + 1)


def calibrate(scores_id: Any, alpha: float = 0.05, labels: Any = None) -> "Calibration":
    """Threshold from scores of held-out in-distribution samples (not those the network or the detector learned from).

    ``labels``: (n,) their classes, for a promise class by class.
    """
    alpha = open_fraction("alpha", alpha)
    given = as_scores("scores_id", scores_id, minimum=0)
    order = np.argsort(given, kind="stable")
    scores, classes = given[order], None
    if labels is not None:
        classes = np.asarray(labels.detach().cpu() if hasattr(labels, "detach") else labels)
        if classes.shape != scores.shape or classes.dtype.kind not in "iu":
            raise InputError(
                f"labels must be {len(scores)} class numbers, one for each score, got {classes.dtype} {classes.shape}"
            )
        if unlabelled := int((classes < 0).sum()):
            raise InputError(f"{unlabelled} of {len(scores)} samples have no class (labels below 0); leave them out")
        classes = classes[order].astype(np.int64)
    needed = samples_needed(alpha)
    if len(scores) < needed:
        raise InputError(
            f"calibration to alpha = {alpha:g} needs at least {needed} in-distribution samples, got {len(scores)}; "
            "hold out more or allow more false alarms"
        )
    return Calibration(alpha=alpha, scores=scores, labels=classes)


@dataclass(frozen=True, eq=False)
class Calibration:
    """A calibrated decision. ``scores``: the n calibration scores, ascending; ``alpha``: promised false-alarm rate;
    ``labels``: (n,) classes of the calibration samples where the promise is made class by class."""

    alpha: float
    scores: Array
    labels: NDArray[np.int64] | None = field(default=None, kw_only=True)

    @property
    def n(self) -> int:
        return len(self.scores)

    @property
    def rank(self) -> int:
        """r = ceil((n + 1)(1 - alpha))."""
        return self._rank(self.n)

    def _rank(self, count: int) -> int:
        return math.ceil((count + 1) * (1 - _exact(self.alpha)))

    @property
    def promised(self) -> list[int]:
        """Classes with a promise of their own: those with calibration samples enough."""
        if self.labels is None or not self.n:
            return []
        return np.flatnonzero(np.bincount(self.labels) >= samples_needed(self.alpha)).tolist()

    @cached_property
    def _groups(self) -> list[NDArray[np.int64]]:
        """Places in ``scores`` of all samples, and of each class with a promise."""
        return [np.arange(self.n), *(np.flatnonzero(self.labels == label) for label in self.promised)]

    def members(self) -> NDArray[np.bool_]:
        """(n, 1 + classes with a promise): which calibration samples count for all, and for each of these classes."""
        found = np.zeros((self.n, len(self._groups)), bool)
        for column, group in enumerate(self._groups):
            found[group, column] = True
        return found

    @property
    def threshold(self) -> float:
        """Scores above it are rejected."""
        return max(float(self.scores[group[self._rank(len(group)) - 1]]) for group in self._groups)

    def thresholds_without(self) -> Array:
        """(n,) for each calibration sample the threshold that the others would give. Where the n - 1 others just miss the
        number needed it is their largest score, as that of all n is: above it lies one sample in n on average. An infinite
        one would lie above every sample, and a rate of 0 would say nothing."""
        found = np.full(self.n, -np.inf)
        for group in self._groups:
            count, rank = len(group), min(self._rank(len(group) - 1), len(group) - 1)
            values = self.scores[group]
            full = float(values[self._rank(count) - 1])
            theirs = np.full(self.n, full)
            if not rank:  # there are no others
                theirs[group] = np.inf
            else:  # one less below it: the next one takes the place
                theirs[group] = np.where(np.arange(count) < rank, values[rank], values[rank - 1])
            found = np.maximum(found, theirs)
        return found

    def reject(self, scores: Any) -> Any:
        """(n,) True where a sample is rejected; a torch tensor for a torch tensor."""
        return _like(scores, as_scores("scores", scores, minimum=0) > self.threshold)

    def p_value(self, scores: Any) -> Any:
        """(n,) conformal p-values: small = unlike the calibration samples; P(p <= a) <= a for in-distribution ones. Class by
        class: the largest over the classes."""
        values = as_scores("scores", scores, minimum=0)
        found = np.zeros(len(values))
        for group in self._groups:
            at_least = len(group) - np.searchsorted(self.scores[group], values, side="left")
            found = np.maximum(found, (1 + at_least) / (len(group) + 1))
        return _like(scores, found)

    def interval(self, confidence: float = 0.95, *, test_size: int | None = None) -> tuple[float, float]:
        """Central interval of the realized false-alarm rate of this threshold, over draws of the calibration set.

        Without ``test_size`` the true rate, Beta(n + 1 - r, r); with it the share seen among that many new samples,
        beta-binomial. Exact without ties; with ties, and class by class, both ends are upper bounds.
        """
        from scipy import stats

        tail = (1 - open_fraction("confidence", confidence)) / 2
        a, b = self.n + 1 - self.rank, self.rank
        if test_size is None:
            return float(stats.beta.ppf(tail, a, b)), float(stats.beta.ppf(1 - tail, a, b))
        size = integer("test_size", test_size, minimum=1)
        law = stats.betabinom(size, a, b)
        return float(law.ppf(tail)) / size, float(law.ppf(1 - tail)) / size

    def describe(self) -> str:
        """The promise in plain words."""
        low, high = self.interval()
        if self.labels is not None:
            return f"Samples with a score above {self.threshold:.4g} are rejected. {self.class_promise()}"
        return (
            f"Samples with a score above {self.threshold:.4g} are rejected. On average over calibration sets at most "
            f"{self.alpha:.1%} of in-distribution samples are; with these n = {self.n} the true rate lies in "
            f"[{low:.1%}, {high:.1%}] with 95 %. The promise is for samples drawn like the calibration set, "
            "not for shifted ones."
        )

    def class_promise(self) -> str:
        """What is promised class by class, in plain words."""
        own, needed = len(self.promised), samples_needed(self.alpha)
        return (
            f"On average over calibration sets at most {self.alpha:.1%} of in-distribution samples are, and at most as many "
            f"of each class with {needed} or more of the n = {self.n} calibration samples ({own} such classes); classes "
            "with fewer have no promise of their own. The promise is for samples drawn like the calibration set, not for "
            "shifted ones."
        )

    def to_json(self) -> dict[str, Any]:
        """Everything, the scores included: p-values need them. Floats survive JSON exactly; infinities do not."""
        if not np.isfinite(self.scores).all():
            raise InputError("calibration scores hold infinite values and cannot be written as JSON; check the detector")
        labels = {} if self.labels is None else {"labels": self.labels.tolist()}
        return {"alpha": self.alpha, "n": self.n, "threshold": self.threshold, "scores": self.scores.tolist(), **labels}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Calibration":
        try:
            restored = calibrate(value["scores"], value["alpha"], value.get("labels"))
            same = restored.threshold == value["threshold"]
        except KeyError as error:
            raise InputError(f"a calibration needs alpha, scores and threshold; {error} is missing") from error
        if not same:
            raise InputError(
                f"calibration is inconsistent: its scores give the threshold {restored.threshold}, "
                f"it says {value['threshold']}; calibrate again"
            )
        return restored


def _exact(alpha: float) -> Fraction:
    """alpha as the decimal it was written as, so that (n + 1)(1 - alpha) is not rounded up by a stray bit."""
    return Fraction(repr(float(alpha)))


def _like(scores: Any, result: np.ndarray) -> Any:
    if hasattr(scores, "detach"):
        import torch

        return torch.from_numpy(result).to(scores.device)
    return result
