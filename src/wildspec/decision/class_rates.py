"""How often each known class is rejected, with the exact interval of the true rate.

Of n samples of a class, k were rejected; the interval of Clopper and Pearson (1934) holds every rate p that k does not
contradict at 95 %:

    low  = Beta(k, n - k + 1) quantile at 2.5 %, 0 where k = 0
    high = Beta(k + 1, n - k) quantile at 97.5 %, 1 where k = n

One threshold for all classes promises alpha for all of them together; a class that is harder pays for the easier ones. That
the worst of C classes is rejected more often than promised is said where its interval at 1 - 5 % / C says so: among 200
classes of two samples each, one that loses both is nothing unusual.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True)
class ClassRate:
    """``rejected`` of ``count`` samples of a class; ``low``, ``high``: interval of the true rate."""

    name: str
    count: int
    rejected: int
    low: float
    high: float

    @property
    def rate(self) -> float | None:
        """None where there was no sample."""
        return self.rejected / self.count if self.count else None

    def to_json(self) -> dict[str, Any]:
        interval = [self.low, self.high]
        return {
            "class": self.name, "count": self.count, "rejected": self.rejected, "rate": self.rate, "interval": interval
        }


def clopper_pearson(rejected: int, count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact interval of a rate; (0, 1) where there was no sample."""
    from scipy.stats import beta

    tail = (1 - confidence) / 2
    low = 0.0 if rejected == 0 else float(beta.ppf(tail, rejected, count - rejected + 1))
    high = 1.0 if rejected == count else float(beta.ppf(1 - tail, rejected + 1, count - rejected))
    return low, high


def class_rates(labels: Any, rejected: Any, classes: Sequence[Any]) -> list[ClassRate]:
    """(n,) true classes as places in ``classes``, (n,) bool -> one rate for each class, in their order."""
    labels, rejected = np.asarray(labels), np.asarray(rejected, bool)
    counts = np.bincount(labels, minlength=len(classes)).tolist()
    lost = np.bincount(labels[rejected], minlength=len(classes)).tolist()
    return [
        ClassRate(str(name), count, out, *clopper_pearson(out, count))
        for name, count, out in zip(classes, counts, lost, strict=True)
    ]


def worst_class(rates: Sequence[ClassRate]) -> ClassRate | None:
    """The class of which the most is lost for certain: the highest low end, then the highest rate; None without samples."""
    seen = [one for one in rates if one.count]
    return max(seen, key=lambda one: (one.low, one.rejected / one.count, one.count)) if seen else None


def rates_in_words(rates: Sequence[ClassRate], alpha: float, needed: int, what: str = "images", *, own: bool = False) -> str:
    """The worst class, and the classes that nothing is known about. ``needed``: samples for a promise of its own, which
    was made where ``own``. A class with fewer is called the worst only where chance does not explain what it loses."""
    seen = [one for one in rates if one.count]
    if not seen:
        return f"no class is known to be rejected more often than others: no labelled {what} were held out"
    worst = worst_class(seen)
    assert worst is not None
    broken = clopper_pearson(worst.rejected, worst.count, 1 - (1 - CONFIDENCE) / len(seen))[0] > alpha
    if not broken:
        worst = worst_class([one for one in seen if one.count >= needed])
    few = [one.name for one in rates if one.count < needed]
    if worst is None and not own:
        return f"class by class: fewer than {needed} {what} of each to judge by, too few to say which is rejected most often"
    if worst is None:
        said = "class by class"
    elif worst.rejected == 0:
        whose = f" of classes with {needed} or more" if any(one.rejected for one in seen) else ""
        said = f"class by class: none of the {what}{whose} was rejected by mistake"
    else:
        share, low, high = (f"{100 * value:.0f} %" for value in (worst.rejected / worst.count, worst.low, worst.high))
        said = (
            f"worst class: {worst.name}, {worst.rejected:,} of {worst.count:,} {what} rejected by mistake ({share}; "
            f"95 % interval {low} to {high})"
        )
        if broken:
            more = "" if own else "; --per-class promises it for every class"
            said += f", more than the {100 * alpha:.3g} % promised for all together{more}"
    if few:
        named = ", ".join(few[:5]) + (f" and {len(few) - 5:,} more" if len(few) > 5 else "")
        none = "no promise of its own" if len(few) == 1 else "no promise of their own"
        reason = f"{none} (more labelled {what} or a larger --held-out)" if own else "little can be said"
        said += f"; fewer than {needed} to judge by, {reason}: {named}"
    return said
