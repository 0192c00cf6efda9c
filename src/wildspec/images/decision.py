"""From what the network says about an image to a decision: score, p-value, kept or rejected.

This is the one seam between the image models and the detectors: whatever is learned here travels in the bundle as a record
(JSON) and tensors, and answers for single images with no other data at hand.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from wildspec.decision.shares import FEWEST
from wildspec.detectors import Detector, WildKNN, build_detector
from wildspec.detectors.choose import choose_detector
from wildspec.evaluation import Outputs, calibrate_ratio, decide
from wildspec.evaluation.decision import DetectorDecision
from wildspec.evaluation.evaluate import fit
from wildspec.evaluation.features import with_pixel_scale


@dataclass(frozen=True)
class Judged:
    """(n,) each, float64: ``score`` high = OOD, ``threshold`` above which a sample is rejected, conformal ``p_value``."""

    score: np.ndarray
    threshold: np.ndarray
    p_value: np.ndarray

    @property
    def rejected(self) -> np.ndarray:
        return self.score > self.threshold


@dataclass(frozen=True, eq=False)
class Decision(DetectorDecision):
    """A decision about images that a network has seen."""

    def judge(self, seen: Outputs) -> Judged:
        """Score, threshold and p-value of every sample."""
        score = seen.score(self.detector).double().cpu().numpy()
        return Judged(score, np.full(len(score), self.threshold), self.calibration.p_value(score))


def learn_decision(
    train: Outputs, wild: Outputs | None, held_out: Outputs, *, detector: str | Detector = "auto", alpha: float = 0.05,
    trained: str | None = None,
) -> Decision:  # fmt: skip
    """Fit the detector on the labelled training samples (and the wild ones), calibrate it on held-out labelled ones.

    ``detector="auto"``: with a wild pool the joint decision (`WildKNN`, `JointCalibration`), without one plain KNN with the
    conformal threshold. ``trained``: a score that the network was trained to give wild samples (`wildspec.methods.pu`); it
    then is what "auto" takes, with the conformal threshold: the pool had its say in training. Any detector that is named
    keeps the conformal threshold, unless it uses wild samples itself.
    """
    if detector == "auto" and trained is not None and wild is not None and len(wild) >= FEWEST:
        score = build_detector(trained)
        fit(score, train, wild, model=train.model)
        return Decision(score, calibrate_ratio(held_out.score(score), wild.score(score), alpha))
    assert train.labels is not None
    chosen = with_pixel_scale(usual_detector(detector, train.labels, 0 if wild is None else len(wild)), train.preprocess)
    made = decide(chosen, train, wild, held_out, alpha)
    return Decision(made.detector, made.calibration)


def usual_detector(detector: str | Detector, labels: Tensor, wild: int) -> Detector:
    """What was asked for; "auto" with ``wild`` images, if they are enough to see a shape in, is `WildKNN`, else KNN."""
    if detector != "auto":
        return choose_detector(detector, labels)
    return WildKNN() if wild >= FEWEST else choose_detector("knn", labels)
