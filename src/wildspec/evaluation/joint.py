"""The joint decision: keep known classes, shifted or not; reject unknown ones. One threshold with two reasons.

    t = max(t_id, t_shift),   a sample is rejected when its score is > t

t_id: the conformal threshold of held-out in-distribution scores (`calibrate`). EXACT promise: at most alpha of
in-distribution samples score above t_id, in expectation, and so above t >= t_id, whatever the wild pool was.

t_shift: the boundary between known and unknown samples of the wild pool itself, Otsu's cut of its scores. Where the pool has
one group only (`Mixture.separated` is False) the cut lies inside that group, near t_id or below it, and raises the threshold
little or not at all: a pool that does not show where the known classes end is no reason to let more through. An ESTIMATE:
that known samples under the pool's shift are kept is as true as the attribution is right. `kept_known` says what the pool
says about it.

Everything is learned without an OOD label, from labelled and wild samples the network and the detector have seen and from ID
samples neither has; scores of single samples then need the detector's state and these two numbers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wildspec.checks import number
from wildspec.detectors.inputs import as_rows
from wildspec.detectors.knn import KNN
from wildspec.detectors.wild_knn import WildKNN
from wildspec.errors import InputError
from wildspec.evaluation.calibration import Calibration, calibrate
from wildspec.evaluation.decision import DetectorDecision
from wildspec.evaluation.metrics import as_scores
from wildspec.evaluation.mixture import FEWEST, Interval, Mixture, estimate_mixture, excess_mixture

LIKE_ID, SHIFTED, REJECTED = 0, 1, 2


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

    @property
    def kept_known(self) -> Interval:
        """Estimated share of known samples like the pool's that are kept: at least, at most.

        At least: all known samples that the pool may hold, 1 - (lower limit of pi_s), and only pool_kept of it passes.
        """
        known = 1 - self.mixture.pi_s_interval[0]
        return min(1.0, self.pool_kept / known) if known > 0 else 0.0, 1.0

    def verdict(self, scores: Any) -> Any:
        """(n,) 0: like the labelled samples; 1: kept as a known class under shift; 2: rejected."""
        values = as_scores("scores", scores, minimum=0)
        found = np.where(values > self.threshold, REJECTED, np.where(values > self.id_threshold, SHIFTED, LIKE_ID))
        return torch.from_numpy(found).to(scores.device) if isinstance(scores, Tensor) else found

    def describe(self) -> str:
        """Both promises in plain words: which is exact, which an estimate."""
        high = self.interval()[1]
        exact = (
            f"Samples with a score above {self.threshold:.4g} are rejected. Exact: on average over calibration sets at most "
            f"{self.alpha:.1%} of in-distribution samples are (with these n = {self.n} the true rate is at most "
            f"{high:.1%}, with 95 %)."
        )
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
        conformal = calibrate(scores, alpha)
        found = cls(conformal.alpha, conformal.scores, number("shifted", shifted), mixture, number("pool_kept", kept))
        if found.threshold != threshold:
            raise InputError(
                f"calibration is inconsistent: its scores give the threshold {found.threshold}, it says {threshold}; "
                "calibrate again"
            )
        return found


def calibrate_jointly(
    id_scores: Any, wild_scores: Any, alpha: float = 0.05, *, shift_scores: tuple[Any, Any] | None = None,
    cut_scores: tuple[Any, Any] | None = None,
) -> JointCalibration:
    """From scores of held-out ID samples and of the wild pool (of samples in the detector's bank: with themselves left out).

    ``shift_scores``: for the estimate of pi_c, see `estimate_mixture`. ``cut_scores``: scores of both sets in which the
    pool's two groups are told apart, where the detector's own jump between them (`WildContrast`); default its own.
    """  # fmt: skip
    conformal = calibrate(id_scores, alpha)
    wild = as_scores("wild_scores", wild_scores, minimum=FEWEST)
    known, pool = (conformal.scores, wild) if cut_scores is None else cut_scores
    mixture = estimate_mixture(pool, known, shift_scores=shift_scores)
    kept = float(np.mean(wild <= max(mixture.cut, conformal.threshold)))
    return JointCalibration(conformal.alpha, conformal.scores, mixture.cut, mixture, kept)


def calibrate_ratio(id_scores: Any, wild_scores: Any, alpha: float = 0.05) -> JointCalibration:
    """The conformal threshold for a score that was trained to be high on wild samples (`wildspec.methods.pu`).

    The pool had its say in training: known samples under its shift score like labelled ones as far as that succeeded, and
    nothing raises the threshold. The mixture comes from `excess_mixture`.
    """
    conformal = calibrate(id_scores, alpha)
    wild = as_scores("wild_scores", wild_scores, minimum=FEWEST)
    mixture = excess_mixture(wild, conformal.scores, conformal.alpha)
    return JointCalibration(
        conformal.alpha, conformal.scores, conformal.threshold, mixture, float(np.mean(wild <= conformal.threshold))
    )


def calibration_from_json(value: dict[str, Any]) -> Calibration:
    """A calibration of either kind, as its ``to_json`` wrote it."""
    return JointCalibration.from_json(value) if value.get("kind") == "joint" else Calibration.from_json(value)


@dataclass(frozen=True, eq=False)
class JointDecision(DetectorDecision):
    """A decision from features (and logits) alone: scores, p-values, classes or -1."""

    calibration: JointCalibration

    def score(self, features: Tensor) -> Tensor:
        """(n, d) -> (n,), high = OOD."""
        return self.detector.score(features=features)

    def p_value(self, features: Tensor) -> Tensor:
        """(n,) conformal p-values among the held-out ID samples: small = unlike the labelled samples, shifted or unknown."""
        return self.calibration.p_value(self.score(features))

    def reject(self, features: Tensor) -> Tensor:
        """(n,) True where a sample belongs to no known class."""
        return self.calibration.reject(self.score(features))

    def verdict(self, features: Tensor) -> Tensor:
        """(n,) 0 like the labelled samples, 1 known class under shift, 2 rejected."""
        return self.calibration.verdict(self.score(features))

    def predict(self, features: Tensor, logits: Tensor) -> Tensor:
        """(n,) class, -1 = rejected."""
        return torch.where(self.reject(features).to(logits.device), -1, logits.argmax(dim=1))


def decide_jointly(
    labelled: Any,
    labels: Any,
    wild: Any,
    held_out: Any,
    *,
    alpha: float = 0.05,
    k: int | None = None,
    model: nn.Module | None = None,
) -> JointDecision:
    """Features of labelled (n, d), wild (m, d) and held-out ID samples -> a decision. ``labels``: (n,) classes.

    Held-out samples must not have been learned from, by the network or here: the ID promise rests on that. ``model``: not
    needed by the default detector; accepted so that every decision is made by the same call.
    """
    labelled, wild, held_out = (as_rows("features", rows) for rows in (labelled, wild, held_out))
    widths = [rows.shape[1] for rows in (labelled, wild, held_out)]
    if len(set(widths)) > 1:
        raise InputError(f"labelled, wild and held_out must be features of one network, got widths {widths}")
    features = torch.cat([labelled, wild.to(labelled)])
    known = as_rows("labels", labels).to(labelled.device)
    if len(known) != len(labelled):
        raise InputError(f"labels must hold one class for each of the {len(labelled)} labelled samples, got {len(known)}")
    given = torch.cat([known, torch.full((len(wild),), -1, device=labelled.device)])
    detector = WildKNN(k).fit(features=features, labels=given, model=model)
    return JointDecision(detector, calibrate_fitted(detector, labelled, wild, held_out, alpha))


def calibrate_fitted(
    detector: WildKNN, labelled: Tensor, wild: Tensor, held_out: Tensor, alpha: float = 0.05
) -> JointCalibration:
    """The thresholds of a `WildKNN` just fitted on these labelled and wild features."""
    if detector.wild_scores_ is None:
        raise InputError("the joint decision needs a wild pool of at least 2 samples; without one use calibrate")
    plain = KNN(int(detector.neighbours_)).fit(features=labelled)  # tells shifted from clean: its bank has no shifted sample
    shift = (plain.score(features=wild), plain.score(features=held_out))
    return calibrate_jointly(
        detector.score(features=held_out), detector.wild_scores_, alpha, shift_scores=shift,
        cut_scores=detector.cut_scores(held_out),
    )  # fmt: skip
