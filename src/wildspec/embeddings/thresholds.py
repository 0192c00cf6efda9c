"""Where to reject: a promise for samples like the labelled ones, an estimate for shifted ones.

Exact, where a shift was found: the held-out labelled samples give the conformal threshold t_id; at most alpha of
in-distribution samples score above it, in expectation, whatever was learned from the others
(`wildspec.evaluation.calibrate`).

Exact, without a shift: a score is then a rising function of the distance to the nearest labelled sample, and no sample
needs to be held out. Each labelled sample is scored by its distance to the other ones. Put a new sample among the n
labelled ones: if it is drawn like them, its distance to them and theirs to all others are exchangeable, so its rank is
uniform (full conformal prediction). Its presence can only shorten their distances; leaving it out, as is done here,
raises their scores and makes the p-value larger, never smaller. So P(p <= alpha) <= alpha holds with n samples for
learning and n for calibration.

Estimated: samples of known classes under shift score between those and the unknown ones. A shifted sample's score is
close to its rank u among the shifted wild samples, so if a share q of those belongs to known classes, rejecting above
t_shift = q rejects about as many as are unknown. q is read off the evidence (`joint.known_share`), which assumes that
there are unknown samples; where two views agree on the class of nearly all (kappa above `ALL_KNOWN`, `kinship`) there
are none to speak of, and q is 1 - alpha. No promise comes with it.

"joint" rejects a sample above max(t_id, r(x) t_shift), r(x) being its posterior of the shifted group: nothing is
rejected that t_id would keep, so the promise stands, and shifted samples of known classes are kept.
"id" rejects above t_id: whatever is unlike the labelled samples, shifted or unknown.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wildspec.decision.calibration import samples_needed
from wildspec.decision.shares import FEWEST, id_share
from wildspec.embeddings.joint import Decided, JointModel
from wildspec.evaluation import Calibration, calibrate
from wildspec.graph.search import Rows

Vector = NDArray[np.float64]
ALL_KNOWN = 0.9
MOST = 20_000  # labelled samples that are scored one by one, all others among their neighbours


@dataclass(frozen=True, eq=False)
class Thresholds:
    """``scores``: of the calibration samples, ascending. ``calibration``: None where they are too few to promise alpha.

    ``shifted``: t_shift; ``unknown``: estimated share of unknown samples among the shifted wild ones, or among all wild ones
    where no shift was found.
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
        """(n,) conformal p-values among the calibration samples, for any number of them."""
        at_least = self.held - np.searchsorted(self.scores, scores, side="left")
        return (1 + at_least) / (self.held + 1)


def learn_thresholds(model: JointModel, held: Rows, alpha: float, mode: str, pool: Rows | None = None) -> Thresholds:
    """held: (n, d) prepared labelled rows that nothing was learned from; n may be 0. Not used where there is no shift.

    pool: (m, d) the wild samples, whose share of unknown ones is estimated where there is no shift.
    """
    if model.wild is None:
        scores, shifted = np.sort(left_out_scores(model)), 0.0
        known = 1.0 - unlike_share(model, pool, scores) if pool is not None and len(pool) else 1.0
    else:
        scores = np.sort(model.decide(held).score)
        known = max(model.wild.known, 1 - alpha) if model.wild.shift.kappa > ALL_KNOWN else model.wild.known
        shifted = known
    calibration = calibrate(scores, alpha) if len(scores) >= samples_needed(alpha) else None
    return Thresholds(scores, calibration, alpha, shifted, 1.0 - known, mode)


def left_out_scores(model: JointModel) -> Vector:
    """(n,) the score of each labelled sample (`left_out_rows`) by its distance to the nearest other one."""
    chosen = left_out_rows(model)
    return model.far(model.index.search(model.labelled[chosen], 2)[0][:, 1]) if len(model.labels) > 1 else np.empty(0)


def left_out_rows(model: JointModel) -> NDArray[np.int64]:
    """Labelled samples that are scored against the others: all, or `MOST` of them, drawn."""
    count = len(model.labels)
    if count <= MOST:
        return np.arange(count if count > 1 else 0)
    return np.sort(np.random.default_rng(model.settings.seed).choice(count, MOST, replace=False))


def unlike_share(model: JointModel, pool: Rows, scores: Vector) -> float:
    """Share of the pool that is not drawn like the labelled samples, by their calibration ``scores``; a lower estimate.

    Storey's estimate of the share that is (`wildspec.decision.shares`), on at most `MOST` samples of the pool.
    """
    if len(scores) < FEWEST:
        return 0.0
    keep = np.linspace(0, len(pool) - 1, min(len(pool), MOST)).astype(np.int64)
    return 1.0 - id_share(model.decide(pool[keep]).score, scores)[0]
