"""How well scores tell known from unknown samples. Scores are high = OOD; every metric lies in [0, 1].

Ties are treated exactly, the same everywhere: a decision is a threshold t, "accepted" means score <= t, so equal scores
are always accepted or rejected together and a tie between a known and an unknown sample counts against the detector where
a side must be taken (FPR95) and as one half where it is an average (AUROC). Scores are compared in float64: single and
half precision scores convert without loss, and no ties arise that the scores did not have. Infinite scores are allowed,
NaN is an error.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from wildspec.checks import open_fraction
from wildspec.decision.scores import Array, as_scores

Counts = npt.NDArray[np.int64]


def auroc(scores_known: Any, scores_unknown: Any) -> float:
    """P(unknown > known) + P(unknown = known) / 2 over all pairs: the Mann-Whitney statistic, midranks for ties."""
    return _Sorted.of(scores_known, scores_unknown).auroc()


def aupr_out(scores_known: Any, scores_unknown: Any) -> float:
    """Average precision with the unknown samples as positives, sum_k (R_k - R_{k-1}) P_k over distinct thresholds."""
    return _Sorted.of(scores_known, scores_unknown).aupr_out()


def aupr_in(scores_known: Any, scores_unknown: Any) -> float:
    """Average precision with the known samples as positives (low score = positive)."""
    return _Sorted.of(scores_known, scores_unknown).aupr_in()


def fpr95_id(scores_known: Any, scores_unknown: Any, level: float = 0.95) -> float:
    """The paper's FPR95: the threshold keeps at least ``level`` of the known; the share of unknown it accepts.

    The threshold is the smallest known score t with #{known <= t} >= level * n; unknown samples that tie with it are
    accepted. Equal to the first point of the exact ROC curve (known = positive) whose true-positive rate reaches level.
    """
    t = threshold_at(scores_known, level)
    return float(np.mean(as_scores("scores_unknown", scores_unknown) <= t))


def fpr95_ood(scores_known: Any, scores_unknown: Any, level: float = 0.95) -> float:
    """The mirror image some libraries call FPR95: at least ``level`` of the unknown are caught; share of known rejected.

    The threshold is the largest unknown score t with #{unknown >= t} >= level * m; here "caught" means score >= t and
    known samples that tie with it are rejected.
    """
    t = -threshold_at(-as_scores("scores_unknown", scores_unknown), level, name="scores_unknown")
    return float(np.mean(as_scores("scores_known", scores_known) >= t))


def threshold_at(scores_known: Any, level: float = 0.95, *, name: str = "scores_known") -> float:
    """The smallest score t that at least ``level`` of the known samples do not exceed."""
    open_fraction("level", level)
    known = as_scores(name, scores_known)
    count = required_count(level, len(known))
    return float(np.partition(known, count - 1)[count - 1])


def required_count(level: float, n: int) -> int:
    """ceil(level * n), with level taken as the decimal it was written as: 0.95 of 60 is 57, not 58."""
    share = Fraction(repr(float(level))) * n
    return -(-share.numerator // share.denominator)


@dataclass(frozen=True)
class _Sorted:
    """Both score sets in ascending order: sort once, read every metric off the counts."""

    known: Array
    unknown: Array

    @classmethod
    def of(cls, known: Any, unknown: Any) -> "_Sorted":
        return cls(np.sort(as_scores("scores_known", known)), np.sort(as_scores("scores_unknown", unknown)))

    @cached_property
    def below(self) -> Counts:
        """For each unknown sample the number of known ones that score less."""
        return np.searchsorted(self.known, self.unknown, side="left")

    def auroc(self) -> float:
        n, m = len(self.known), len(self.unknown)
        tied = self.known[np.minimum(self.below, n - 1)] == self.unknown
        ties = np.searchsorted(self.known, self.unknown[tied], side="right") - self.below[tied]
        wins_twice = 2 * int(self.below.sum(dtype=np.int64)) + int(ties.sum(dtype=np.int64))  # whole numbers: exact
        return wins_twice / (2 * n * m)

    def aupr_out(self) -> float:
        """Only thresholds at a positive's score change the recall, so only those are visited; so in aupr_in."""
        first, run = _runs(self.unknown)
        return _average_precision(run, len(self.unknown) - first, len(self.known) - self.below[first])

    def aupr_in(self) -> float:
        first, run = _runs(self.known)
        accepted = np.searchsorted(self.unknown, self.known[first], side="right")
        return _average_precision(run, first + run, accepted)

    def fpr95_id(self, level: float = 0.95) -> float:
        t = self.known[required_count(level, len(self.known)) - 1]
        return int(np.searchsorted(self.unknown, t, side="right")) / len(self.unknown)

    def fpr95_ood(self, level: float = 0.95) -> float:
        t = self.unknown[len(self.unknown) - required_count(level, len(self.unknown))]
        return (len(self.known) - int(np.searchsorted(self.known, t, side="left"))) / len(self.known)


def _runs(ascending: Array) -> tuple[Counts, Counts]:
    """Start and length of each run of equal scores."""
    first = np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]])
    return first, np.diff(np.r_[first, len(ascending)])


def _average_precision(gained: Counts, true_positives: Counts, false_positives: Counts) -> float:
    """Sum over thresholds of the positives gained there times the precision, over all positives."""
    precision = true_positives / (true_positives + false_positives)
    return float(np.dot(gained, precision) / gained.sum())


def separation(scores_known: Any, scores_unknown: Any) -> dict[str, float]:
    """All five at once from one sort: auroc, aupr_in, aupr_out, fpr95_id, fpr95_ood."""
    pair = _Sorted.of(scores_known, scores_unknown)
    return {
        "auroc": pair.auroc(),
        "aupr_in": pair.aupr_in(),
        "aupr_out": pair.aupr_out(),
        "fpr95_id": pair.fpr95_id(),
        "fpr95_ood": pair.fpr95_ood(),
    }
