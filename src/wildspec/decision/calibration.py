"""A threshold with a promise: at most alpha of in-distribution samples are rejected, in expectation, at any sample size.

Split conformal calibration: n held-out in-distribution scores, s_(1) <= ... <= s_(n), threshold t = s_(r) with
r = ceil((n + 1)(1 - alpha)); a sample is rejected when its score is > t. For exchangeable samples
P(reject) <= (n + 1 - r) / (n + 1) <= alpha, ties included (equal scores are accepted together, which only lowers the rate).
The p-value (1 + #{s_i >= s}) / (n + 1) is <= alpha exactly where the threshold rejects.

What one calibration set gives varies: without ties the realized rate follows Beta(n + 1 - r, r) exactly, whatever the
distribution of the scores (Vovk, 2012); with ties it is smaller.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from wildspec.checks import integer, open_fraction
from wildspec.decision.scores import Array, as_scores
from wildspec.errors import InputError


def samples_needed(alpha: float) -> int:
    """The smallest calibration set that can promise alpha: ceil(1 / alpha) - 1."""
    return math.ceil(1 / _exact(alpha)) - 1


def calibrate(scores_id: Any, alpha: float = 0.05) -> "Calibration":
    """Threshold from scores of held-out in-distribution samples (not those the network or the detector learned from)."""
    alpha = open_fraction("alpha", alpha)
    scores = np.sort(as_scores("scores_id", scores_id, minimum=0))
    needed = samples_needed(alpha)
    if len(scores) < needed:
        raise InputError(
            f"calibration to alpha = {alpha:g} needs at least {needed} in-distribution samples, got {len(scores)}; "
            "hold out more or allow more false alarms"
        )
    return Calibration(alpha=alpha, scores=scores)


@dataclass(frozen=True, eq=False)
class Calibration:
    """A calibrated decision. ``scores``: the n calibration scores, ascending; ``alpha``: promised false-alarm rate."""

    alpha: float
    scores: Array

    @property
    def n(self) -> int:
        return len(self.scores)

    @property
    def rank(self) -> int:
        """r = ceil((n + 1)(1 - alpha))."""
        return math.ceil((self.n + 1) * (1 - _exact(self.alpha)))

    @property
    def threshold(self) -> float:
        """Scores above it are rejected."""
        return float(self.scores[self.rank - 1])

    def reject(self, scores: Any) -> Any:
        """(n,) True where a sample is rejected; a torch tensor for a torch tensor."""
        return _like(scores, as_scores("scores", scores, minimum=0) > self.threshold)

    def p_value(self, scores: Any) -> Any:
        """(n,) conformal p-values: small = unlike the calibration samples; P(p <= a) <= a for in-distribution ones."""
        values = as_scores("scores", scores, minimum=0)
        at_least = self.n - np.searchsorted(self.scores, values, side="left")
        return _like(scores, (1 + at_least) / (self.n + 1))

    @property
    def expected_rate(self) -> float:
        """Mean of the realized false-alarm rate without ties, (n + 1 - r) / (n + 1) <= alpha; an upper bound with ties."""
        return (self.n + 1 - self.rank) / (self.n + 1)

    def interval(self, confidence: float = 0.95, *, test_size: int | None = None) -> tuple[float, float]:
        """Central interval of the realized false-alarm rate of this threshold, over draws of the calibration set.

        Without ``test_size`` the true rate, Beta(n + 1 - r, r); with it the share seen among that many new samples,
        beta-binomial. Exact without ties; with ties both ends are upper bounds.
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
        return (
            f"Samples with a score above {self.threshold:.4g} are rejected. On average over calibration sets at most "
            f"{self.alpha:.1%} of in-distribution samples are; with these n = {self.n} the true rate lies in "
            f"[{low:.1%}, {high:.1%}] with 95 %. The promise is for samples drawn like the calibration set, "
            "not for shifted ones."
        )

    def to_json(self) -> dict[str, Any]:
        """Everything, the scores included: p-values need them. Floats survive JSON exactly; infinities do not."""
        if not np.isfinite(self.scores).all():
            raise InputError("calibration scores hold infinite values and cannot be written as JSON; check the detector")
        return {"alpha": self.alpha, "n": self.n, "threshold": self.threshold, "scores": self.scores.tolist()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Calibration":
        try:
            restored = calibrate(value["scores"], value["alpha"])
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
