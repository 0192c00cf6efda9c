"""How well scores tell known from unknown samples. Scores are high = OOD; every metric lies in [0, 1].

Ties are treated exactly, the same everywhere: a decision is a threshold t, "accepted" means score <= t, so equal scores
are always accepted or rejected together and a tie between a known and an unknown sample counts against the detector where
a side must be taken (FPR95) and as one half where it is an average (AUROC). Scores are compared in float64: single and
half precision scores convert without loss, and no ties arise that the scores did not have. Infinite scores are allowed,
NaN is an error.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from wildspec.checks import open_fraction
from wildspec.decision.scores import Array, as_scores


def auroc(scores_known: Any, scores_unknown: Any) -> float:
    """P(unknown > known) + P(unknown = known) / 2 over all pairs: the Mann-Whitney statistic, midranks for ties."""
    known, unknown = np.sort(as_scores("scores_known", scores_known)), np.sort(as_scores("scores_unknown", scores_unknown))
    wins, wins_and_ties = (int(np.searchsorted(known, unknown, side=side).sum()) for side in ("left", "right"))
    return (wins + wins_and_ties) / (2 * len(known) * len(unknown))  # of whole numbers: exact


def aupr_out(scores_known: Any, scores_unknown: Any) -> float:
    """Average precision with the unknown samples as positives, sum_k (R_k - R_{k-1}) P_k over distinct thresholds."""
    return _average_precision(as_scores("scores_unknown", scores_unknown), as_scores("scores_known", scores_known))


def aupr_in(scores_known: Any, scores_unknown: Any) -> float:
    """Average precision with the known samples as positives (low score = positive)."""
    return _average_precision(-as_scores("scores_known", scores_known), -as_scores("scores_unknown", scores_unknown))


def _average_precision(positive: Array, other: Array) -> float:
    """Only thresholds at a positive's score change the recall, so only those are visited."""
    values, gained = np.unique(positive, return_counts=True)
    right = np.cumsum(gained[::-1])[::-1]  # positives that score at least so high
    wrong = len(other) - np.searchsorted(np.sort(other), values, side="left")
    return float(np.dot(gained, right / (right + wrong)) / len(positive))


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


def separation(scores_known: Any, scores_unknown: Any) -> dict[str, float]:
    """All five at once: auroc, aupr_in, aupr_out, fpr95_id, fpr95_ood."""
    metrics = (auroc, aupr_in, aupr_out, fpr95_id, fpr95_ood)
    return {metric.__name__: metric(scores_known, scores_unknown) for metric in metrics}
