"""Confidence intervals by resampling: how much would a metric move with another test set of the same size?

Each group (ID, covariate, unknown) is resampled on its own with replacement. Intervals: ``percentile`` (quantiles of the
resampled metric) or ``bca`` (bias-corrected and accelerated; Efron, 1987), which is better near 0 and 1 and is the default.
The network, the detector and the threshold stay fixed: spread over training seeds is another matter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wildspec.checks import choice, integer, open_fraction
from wildspec.decision.scores import Array, as_scores
from wildspec.errors import InputError

Metric = Callable[..., float | None]


@dataclass(frozen=True)
class Interval:
    """A metric with its interval."""

    value: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        return f"{100 * self.value:.2f} [{100 * self.low:.2f}, {100 * self.high:.2f}]"


def bootstrap(
    metric: Metric,
    *groups: Any,
    resamples: int = 1000,
    confidence: float = 0.95,
    method: str = "bca",
    seed: int = 0,
) -> Interval:
    """Interval of ``metric(*groups)``, e.g. ``bootstrap(auroc, id_scores, semantic_scores)``.

    Each group is an (n,) array of scores, or a tuple of arrays that belong together row by row, e.g.
    (scores, predictions, labels); it is resampled whole and handed on in the same form.
    """
    integer("resamples", resamples, minimum=100)
    open_fraction("confidence", confidence)
    choice("method", method, ("bca", "percentile"))
    rows = [_group(number, group) for number, group in enumerate(groups)]
    value = _value(metric, rows)
    generator = np.random.default_rng(seed)
    draws = np.empty(resamples)
    for i in range(resamples):
        chosen = [generator.integers(0, len(group[0]), len(group[0])) for group in rows]
        draws[i] = _value(metric, [tuple(part[index] for part in group) for group, index in zip(rows, chosen, strict=True)])
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if method == "bca":
        tails = _bca_tails(tails, draws, value, metric, rows)
    low, high = np.quantile(draws, tails)
    return Interval(value, float(low), float(high), confidence)


Rows = Sequence[tuple[npt.NDArray[Any], ...]]


def _bca_tails(tails: Array, draws: Array, value: float, metric: Metric, rows: Rows) -> Array:
    """Shift the tails by the bias of the draws and the skew of the metric's influence values."""
    from scipy.special import ndtr, ndtri

    below = (np.sum(draws < value) + 0.5 * np.sum(draws == value)) / len(draws)
    if not 0 < below < 1:  # the metric never moved to one side (e.g. it is exactly 0): nothing to correct
        return tails
    bias = ndtri(below)
    influence = np.concatenate([_jackknife(metric, rows, number) for number in range(len(rows))])
    spread = np.sum(influence**2) ** 1.5
    skew = 0.0 if spread == 0 else float(np.sum(influence**3) / (6 * spread))
    z = bias + ndtri(tails)
    return np.asarray(ndtr(bias + z / (1 - skew * z)))


JACKKNIFE_GROUPS = 200


def _jackknife(metric: Metric, rows: Rows, number: int) -> Array:
    """Influence of deleting a part of group ``number``: one sample each, or a 200th of a larger group.

    Deleting blocks keeps the cost at 200 evaluations; scaled so that groups of different sizes add up (Davison and Hinkley,
    1997, sec. 5.3: the sum of cubes over that of squares is what enters).
    """
    n = len(rows[number][0])
    if n < 2:
        return np.zeros(1)
    blocks = np.array_split(np.random.default_rng(0).permutation(n), min(n, JACKKNIFE_GROUPS))
    left_out = []
    for block in blocks:
        kept = np.delete(np.arange(n), block)
        changed = [tuple(part[kept] for part in group) if i == number else group for i, group in enumerate(rows)]
        left_out.append(_value(metric, changed))
    values = np.array(left_out)
    # an empirical influence value l_j = (b - 1)(mean - value_j) enters as l_j / b: weights 1/b per group of b blocks
    return (len(blocks) - 1) * (values.mean() - values) / len(blocks)


def _value(metric: Metric, rows: Rows) -> float:
    result = metric(*(group[0] if len(group) == 1 else group for group in rows))
    if result is None or np.isnan(result):
        raise InputError("the metric has no value on a resample (nothing accepted, or a set is missing); choose another")
    return float(result)


def _group(number: int, group: Any) -> tuple[npt.NDArray[Any], ...]:
    if not isinstance(group, tuple):
        return (as_scores(f"group {number}", group),)
    parts = tuple(np.asarray(part.detach().cpu() if hasattr(part, "detach") else part) for part in group)
    if len({len(part) for part in parts}) != 1 or not len(parts[0]):
        raise InputError(f"group {number} must hold arrays of one length, got {[len(part) for part in parts]}")
    return parts
