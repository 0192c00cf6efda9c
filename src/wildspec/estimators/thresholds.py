"""Where to reject: a promise for samples like the labelled ones, an estimate for shifted ones.

Exact: the held-out labelled samples give the conformal threshold t_id; at most alpha of in-distribution samples score above
it, in expectation, whatever was learned from the others (`wildspec.evaluation.calibrate`).

Estimated: samples of known classes under shift score between those and the unknown ones. A shifted sample's score is close
to its rank u among the shifted wild samples, so if a share q of those belongs to known classes, rejecting above t_shift = q
rejects about as many as are unknown. q is read off the evidence (`joint.two_groups`). No promise comes with it.

"joint" rejects a sample above max(t_id, r(x) t_shift), r(x) being its posterior of the shifted group: nothing is rejected
that t_id would keep, so the promise stands, and shifted samples of known classes are kept.
"id" rejects above t_id: whatever is unlike the labelled samples, shifted or unknown.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wildspec.estimators.joint import Decided, JointModel
from wildspec.evaluation import Calibration, calibrate
from wildspec.evaluation.calibration import samples_needed
from wildspec.graph.search import Rows

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Thresholds:
    """``scores``: of the held-out samples, ascending. ``calibration``: None where they are too few to promise alpha.

    ``shifted``: t_shift; ``unknown``: estimated share of unknown samples among the shifted wild ones.
    """

    scores: Vector
    calibration: Calibration | None
    alpha: float
    shifted: float
    unknown: float
    mode: str

    @property
    def value(self) -> float:
        """t_id; infinite where nothing can be promised."""
        return float("inf") if self.calibration is None else self.calibration.threshold

    def at(self, decided: Decided) -> Vector:
        """(n,) the threshold of each sample; scores above it are rejected."""
        if self.mode == "id":
            return np.full(len(decided.score), self.value)
        return np.maximum(self.value, decided.shifted * self.shifted)

    @property
    def held(self) -> int:
        return len(self.scores)

    @property
    def needed(self) -> int:
        return samples_needed(self.alpha)

    def reject(self, decided: Decided) -> NDArray[np.bool_]:
        """(n,) True where a sample is rejected."""
        return np.asarray(decided.score > self.at(decided))

    def p_value(self, scores: Vector) -> Vector:
        """(n,) conformal p-values among the held-out samples, for any number of them."""
        at_least = self.held - np.searchsorted(self.scores, scores, side="left")
        return (1 + at_least) / (self.held + 1)


def learn_thresholds(model: JointModel, held: Rows, alpha: float, mode: str) -> Thresholds:
    """held: (n, d) prepared labelled rows that nothing was learned from; n may be 0."""
    scores = np.sort(model.decide(held).score)
    calibration = calibrate(scores, alpha) if len(scores) >= samples_needed(alpha) else None
    known = 1.0 if model.wild is None else model.wild.known
    shifted = 0.0 if model.wild is None else known
    return Thresholds(scores, calibration, alpha, shifted, 1.0 - known, mode)
