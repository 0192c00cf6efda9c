"""The joint decision: keep known classes, shifted or not; reject unknown ones. One threshold with two reasons.

    t = max(t_id, t_shift),   a sample is rejected when its score is > t

t_id: the conformal threshold of held-out in-distribution scores (`calibrate`). EXACT promise: at most alpha of
in-distribution samples score above t_id, in expectation, and so above t >= t_id, whatever the wild pool was.

t_shift: the boundary between known and unknown samples of the wild pool itself, Otsu's cut of its scores. There is none,
and t = t_id, for a score that has learned from the pool which samples are known, and where no sample of the pool is
attributed to a class (`wildspec.decision.attribution`): the pool is then like nothing labelled, and no reason to let
anything through. Where the pool has one group only (`Mixture.separated` is False) but some of it is near the labelled
samples, the cut lies inside that group: the threshold may rise to there, and the nearer part of the pool is kept, known or
not. An ESTIMATE: that known samples under the pool's shift are kept, and unknown ones not, is as true as the attribution is
right. `kept_known` says what the pool says about it.

Everything is learned without an OOD label, from labelled and wild samples the network and the detector have seen and from ID
samples neither has; scores of single samples then need the detector's state and these two numbers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.checks import number
from wildspec.decision.calibration import Calibration, calibrate
from wildspec.decision.scores import as_scores
from wildspec.decision.shares import FEWEST, Interval, Mixture, estimate_mixture, excess_mixture
from wildspec.errors import InputError


@dataclass(frozen=True, eq=False)
class JointCalibration(Calibration):
    """``alpha``, ``scores``: of the ID promise (`Calibration`). ``shifted``: t_shift.

    ``mixture``: what the pool seems to hold. ``pool_kept``: share of it with a score of at most the threshold.
    """

    shifted: float
    mixture: Mixture
    pool_kept: float

    @property
    def id_threshold(self) -> float:
        """t_id."""
        return super().threshold

    @property
    def threshold(self) -> float:
        """max(t_id, t_shift): scores above it are rejected."""
        return max(self.id_threshold, self.shifted)

    def thresholds_without(self) -> NDArray[np.float64]:
        """(n,) as `Calibration.thresholds_without`; t_shift does not rest on the calibration samples."""
        return np.maximum(super().thresholds_without(), self.shifted)

    @property
    def kept_known(self) -> Interval:
        """Estimated share of known samples like the pool's that are kept: at least, at most.

        At least: all known samples that the pool may hold, 1 - (lower limit of pi_s), and only pool_kept of it passes.
        """
        known = 1 - self.mixture.pi_s_interval[0]
        return min(1.0, self.pool_kept / known) if known > 0 else 0.0, 1.0

    def describe(self) -> str:
        """Both promises in plain words: which is exact, which an estimate."""
        high = self.interval()[1]
        exact = (
            f"Samples with a score above {self.threshold:.4g} are rejected. Exact: on average over calibration sets at most "
            f"{self.alpha:.1%} of in-distribution samples are (with these n = {self.n} the true rate is at most "
            f"{high:.1%}, with 95 %)."
        )
        if self.labels is not None:
            exact = f"Samples with a score above {self.threshold:.4g} are rejected. Exact: {self.class_promise()}"
        if self.shifted <= self.id_threshold:
            return exact + " The wild pool did not ask for a higher threshold: this is the conformal one."
        return exact + (
            f" Estimated: the threshold was raised from {self.id_threshold:.4g} to keep known classes under the wild pool's "
            f"shift; it keeps {self.pool_kept:.1%} of the pool, about {self.kept_known[0]:.0%} of its known samples or more."
        )

    def to_json(self) -> dict[str, Any]:
        return {
            **super().to_json(), "kind": "joint", "shifted": self.shifted, "pool_kept": self.pool_kept,
            "mixture": self.mixture.to_json(),
        }  # fmt: skip

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "JointCalibration":
        try:
            scores, alpha, threshold = value["scores"], value["alpha"], value["threshold"]
            shifted, kept, mixture = value["shifted"], value["pool_kept"], Mixture.from_json(value["mixture"])
        except KeyError as error:
            raise InputError(f"a joint calibration is incomplete: {error} is missing; calibrate again") from error
        conformal = calibrate(scores, alpha, value.get("labels"))
        found = cls(
            conformal.alpha, conformal.scores, number("shifted", shifted), mixture, number("pool_kept", kept),
            labels=conformal.labels,
        )  # fmt: skip
        if found.threshold != threshold:
            raise InputError(
                f"calibration is inconsistent: its scores give the threshold {found.threshold}, it says {threshold}; "
                "calibrate again"
            )
        return found


def calibrate_jointly(
    id_scores: Any, wild_scores: Any, alpha: float = 0.05, *, shift_scores: tuple[Any, Any] | None = None,
    labels: Any = None, raised: bool = True,
) -> JointCalibration:
    """From scores of held-out ID samples and of the wild pool (of samples in the detector's bank: with themselves left out).

    ``shift_scores``: for the estimate of pi_c, see `estimate_mixture`. ``labels``: of the held-out samples, for a promise
    class by class. ``raised``: False where the pool is like nothing labelled, and for a score that has learned which of it
    are known (`WildKNN.learned`): those under its shift then score like labelled ones, and t = t_id. Between its two groups
    there is room, and unknown things of other kinds lie there; a cut in the middle would let them in.
    """
    conformal = calibrate(id_scores, alpha, labels)
    wild = as_scores("wild_scores", wild_scores, minimum=FEWEST)
    mixture = estimate_mixture(wild, conformal.scores, shift_scores=shift_scores)
    shifted = mixture.cut if raised else conformal.threshold
    kept = float(np.mean(wild <= max(shifted, conformal.threshold)))
    return JointCalibration(conformal.alpha, conformal.scores, shifted, mixture, kept, labels=conformal.labels)


def calibrate_ratio(id_scores: Any, wild_scores: Any, alpha: float = 0.05, labels: Any = None) -> JointCalibration:
    """The conformal threshold for a score that was trained to be high on wild samples (`wildspec.methods.pu`).

    The pool had its say in training: known samples under its shift score like labelled ones as far as that succeeded, and
    nothing raises the threshold. The mixture comes from `excess_mixture`.
    """
    conformal = calibrate(id_scores, alpha, labels)
    wild = as_scores("wild_scores", wild_scores, minimum=FEWEST)
    mixture = excess_mixture(wild, conformal.scores, conformal.alpha)
    return JointCalibration(
        conformal.alpha, conformal.scores, conformal.threshold, mixture, float(np.mean(wild <= conformal.threshold)),
        labels=conformal.labels,
    )  # fmt: skip


def calibration_from_json(value: dict[str, Any]) -> Calibration:
    """A calibration of either kind, as its ``to_json`` wrote it."""
    return JointCalibration.from_json(value) if value.get("kind") == "joint" else Calibration.from_json(value)
