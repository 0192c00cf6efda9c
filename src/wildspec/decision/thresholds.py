"""Where to reject: a promise for samples like the labelled ones, an estimate for shifted ones.

Exact: held-out labelled samples give the conformal threshold t_id; at most alpha of in-distribution samples score above it,
in expectation, whatever was learned from the others (`wildspec.decision.calibration`). Where few are held out, the others
join them in turns, and the promise is an estimate, too (`wildspec.decision.turns`).

Estimated: samples of known classes under shift score between those and the unknown ones. With t_shift, the mean score of
the pool's shifted samples, a sample x with posterior r(x) of the shifted group is rejected above

    t(x) = t_id + r(x) max(0, t_shift - t_id)

Nothing is rejected that t_id would keep, so the promise stands, class by class too where it was made so. No promise comes
with t_shift: where known and unknown samples are equally frequent among the shifted ones and score apart, the mean lies
between them. A displaced group may be unknown things alone; then t(x) = t_id (`Rule.shifted_threshold`). A person's answers
about samples that were drawn at random can take the place of t_shift, with a promise
(`wildspec.decision.drawn`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wildspec.decision.calibration import Calibration, calibrate, samples_needed
from wildspec.decision.class_rates import ClassRate, class_rates
from wildspec.decision.drawn import ShiftedPromise
from wildspec.decision.rule import Decided, Rule
from wildspec.decision.shares import FEWEST, estimate_mixture
from wildspec.decision.shift import Shift
from wildspec.decision.temperature import fit_temperature
from wildspec.decision.turns import ENOUGH
from wildspec.errors import InputError
from wildspec.graph.search import Rows

Vector = NDArray[np.float64]
Labels = NDArray[np.int64]

NOTHING_SEEN = (0.0, 1.0)  # what is known of a share of a pool that was not looked at


class Decides(Protocol):
    """A rule, with a person's answers or without: it scores samples, and says what it thinks of its wild pool."""

    @property
    def wild_score(self) -> Vector: ...

    @property
    def wild_shifted(self) -> Vector: ...

    @property
    def labels(self) -> Labels: ...

    @property
    def labelled(self) -> Rows: ...

    @property
    def shift(self) -> Shift: ...

    def decide(self, rows: Rows) -> Decided: ...

    def scores_in_turns(self) -> Vector: ...

    def shifted_threshold(self, calibrated: float) -> float: ...


@dataclass(frozen=True, eq=False)
class Thresholds:
    """``scores``: of the calibration samples, ascending. ``calibration``: None where they are too few to promise alpha.

    ``shifted``: t_shift, minus infinity where no shift was found; ``unknown``: estimated share of unknown samples in the
    wild pool, ``interval`` of it. ``labels``, ``alarms``: (n,) class of each calibration sample, and whether the threshold
    that the others give would reject it; None in bundles of earlier versions. ``apart``: samples came in groups, and only
    those held out calibrate. ``in_turns``: labelled samples scored in turns are among the calibration samples.
    ``promise``: where t_shift is no estimate but rests on samples that were drawn at random and answered.
    """

    scores: Vector
    calibration: Calibration | None
    alpha: float
    shifted: float
    unknown: float
    interval: tuple[float, float]
    labels: Labels | None = None
    alarms: NDArray[np.bool_] | None = None
    apart: bool = False
    in_turns: bool = False
    promise: ShiftedPromise | None = None

    def promising(self, promise: ShiftedPromise) -> "Thresholds":
        """With t_shift of the promise."""
        return replace(self, shifted=promise.threshold, promise=promise)

    def describe(self) -> str:
        """What is promised for samples like the labelled ones, in plain words."""
        if self.calibration is None:
            return "Nothing is rejected: too few labelled samples to promise anything."
        said = self.calibration.describe()
        if self.in_turns:
            said += " Few samples were held out, so labelled ones were scored in turns: this is an estimate."
        return said

    @property
    def per_class(self) -> bool:
        """Is the promise made class by class?"""
        return self.calibration is not None and self.calibration.labels is not None

    def rates(self, classes: Sequence[Any]) -> list[ClassRate] | None:
        """How often each class is rejected among the calibration samples, each judged by a threshold it has no part in."""
        if self.labels is None or self.alarms is None:
            return None
        return class_rates(self.labels, self.alarms, classes)

    @property
    def value(self) -> float:
        """t_id; infinite where nothing can be promised."""
        return float("inf") if self.calibration is None else self.calibration.threshold

    def at(self, decided: Decided) -> Vector:
        """(n,) the threshold of each sample; scores above it are rejected."""
        return self.at_shifted(decided.shifted)

    def at_shifted(self, posterior: Vector) -> Vector:
        """(n,) r(x) -> (n,) t(x)."""
        if self.promise is not None and self.promise.everywhere:
            posterior = np.ones(len(posterior))
        return self._raised(np.full(len(posterior), self.value), posterior)

    def _raised(self, base: Vector, posterior: Vector) -> Vector:
        """(n,) t_id, (n,) r(x) -> (n,) t(x)."""
        room = np.where(np.isfinite(base), np.maximum(self.shifted - base, 0.0), 0.0)
        return np.asarray(base + posterior * room)

    @property
    def held(self) -> int:
        return len(self.scores)

    @property
    def needed(self) -> int:
        return samples_needed(self.alpha)

    def reject(self, decided: Decided) -> NDArray[np.bool_]:
        """(n,) True where a sample is rejected."""
        return np.asarray(decided.score > self.at(decided))

    def reject_pool(self, rule: Decides) -> NDArray[np.bool_]:
        """(m,) the same for the samples of its pool that the rule looks at, those of ``wild_score``."""
        nothing = np.empty((len(rule.wild_score), 0))
        return self.reject(Decided(nothing, rule.wild_score, rule.wild_shifted, nothing))

    def raised(self, rule: Decides) -> int:
        """How many of the pool's samples that the rule looks at seem shifted and have a threshold above t_id for it."""
        return int((rule.wild_shifted > 0.5).sum()) if self.value < self.shifted else 0

    def p_value(self, scores: Vector) -> Vector:
        """(n,) conformal p-values among the calibration samples, for any number of them."""
        if self.calibration is not None:
            return np.asarray(self.calibration.p_value(scores))
        at_least = self.held - np.searchsorted(self.scores, scores, side="left")
        return (1 + at_least) / (self.held + 1)


def learn_thresholds(
    rule: Decides, held: Rows, alpha: float, labels: Labels | None = None, *, per_class: bool = False, apart: bool = False
) -> Thresholds:
    """held: (n, d) prepared labelled rows that nothing was learned from, n may be 0; labels: (n,) their classes.

    Fewer than `ENOUGH` of them are joined by the rule's own labelled samples, scored in turns (`wildspec.decision.turns`);
    not with ``apart``: samples of one group may then stand in several turns. per_class: alpha is promised for each class
    that has calibration samples enough (`wildspec.decision.calibration`).
    """
    if per_class and labels is None:
        raise InputError("a promise for each class needs the classes of the held-out samples; fit the model again")
    decided = rule.decide(held)
    scores, posterior, classes = decided.score, decided.shifted, labels
    in_turns = len(held) < ENOUGH and not apart
    if in_turns:
        mine = rule.scores_in_turns()
        scored = ~np.isnan(mine)
        in_turns = bool(scored.any())
        scores, posterior = np.r_[scores, mine[scored]], np.r_[posterior, rule.shift.posterior(rule.labelled[scored])]
        classes = None if classes is None else np.r_[classes, rule.labels[scored]]
    order = np.argsort(scores, kind="stable")
    scores, posterior = scores[order], posterior[order]
    classes = None if classes is None else np.asarray(classes, np.int64)[order]
    calibration = None
    if len(scores) >= samples_needed(alpha):
        calibration = calibrate(scores, alpha, classes if per_class else None)
    shifted = rule.shifted_threshold(np.inf if calibration is None else calibration.threshold)
    quiet = np.zeros(len(scores), bool)
    made = Thresholds(scores, calibration, alpha, shifted, 0.0, NOTHING_SEEN, classes, quiet, apart, in_turns)
    if calibration is not None:
        others = made._raised(calibration.thresholds_without(), posterior)
        made = replace(made, alarms=scores > others)
    if len(rule.wild_score) < FEWEST:
        return made
    unknown = _unknown_share(made, rule)
    low, high = estimate_mixture(rule.wild_score).pi_s_interval
    return replace(made, unknown=unknown, interval=(min(low, unknown), max(high, unknown)))


def learn_temperature(rule: Rule, held: Rows, labels: Labels, *, apart: bool = False) -> float:
    """T of the probabilities (`wildspec.decision.temperature`), from samples that the classifier has not learned from: those
    held out, (n, d) with classes (n,), and where they are few the labelled ones in turns; ``apart``: as above."""
    said, truth = replace(rule, naming=rule.probe).decide(held).probabilities, labels
    if len(held) < ENOUGH and not apart:
        mine = rule.probabilities_in_turns
        scored = ~np.isnan(mine).any(axis=1)
        said, truth = np.concatenate([said, mine[scored]]), np.r_[labels, rule.labels[scored]]
    return fit_temperature(said, truth)


def _unknown_share(thresholds: Thresholds, rule: Decides) -> float:
    """Share of the pool that is rejected, less the share alpha of known ones that is rejected by mistake."""
    rejected = thresholds.reject_pool(rule).mean()
    return float(max(0.0, (rejected - thresholds.alpha) / (1 - thresholds.alpha)))
