"""From what the network says about an image to a decision: score, p-value, kept or rejected.

This is the one seam between the image models and the detectors: whatever is learned here travels in the bundle as a record
(JSON) and tensors, and answers for single images with no other data at hand.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wildspec.data import Preprocess
from wildspec.decision.shares import FEWEST
from wildspec.detectors import Detector, WildKNN, build_detector
from wildspec.detectors.knn import usual_k
from wildspec.errors import InputTypeError
from wildspec.evaluation import Outputs, calibrate_detector, calibrate_ratio, collect, fit_detector
from wildspec.evaluation.decision import DetectorDecision

BLOCK = 512


@dataclass(frozen=True)
class Seen:
    """Images after one pass through the network. ``images``: an image set of wildspec.data or a uint8 tensor."""

    images: Any
    outputs: Outputs
    model: nn.Module
    preprocess: Preprocess

    @classmethod
    def through(cls, model: nn.Module, images: Any, preprocess: Preprocess, device: torch.device) -> "Seen":
        return cls(images, collect(model, images, preprocess, device=device, batch_size=BLOCK), model, preprocess)

    def __len__(self) -> int:
        return len(self.outputs)

    def score(self, detector: Detector) -> Tensor:
        """(n,) scores, high = OOD; a detector that takes a gradient to the input gets the images block by block."""
        features, logits = self.outputs.features, self.outputs.logits
        if "inputs" not in detector.score_needs:
            return detector.score(features=features, logits=logits, model=self.model)
        parts = []
        for start in range(0, len(self), BLOCK):
            rows = torch.arange(start, min(start + BLOCK, len(self)))
            pixels = self.images[rows] if isinstance(self.images, Tensor) else self.images.gather(rows)
            inputs = self.preprocess(pixels.to(features.device))
            here = rows.to(features.device)
            parts.append(detector.score(features=features[here], logits=logits[here], inputs=inputs, model=self.model))
        return torch.cat(parts) if parts else features.new_empty(0)


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

    def judge(self, seen: Seen) -> Judged:
        """Score, threshold and p-value of every sample."""
        score = seen.score(self.detector).double().cpu().numpy()
        return Judged(score, np.full(len(score), self.threshold), self.calibration.p_value(score))


def learn_decision(
    train: Seen, labels: Tensor, wild: Seen | None, held_out: Seen, *, detector: str | Detector = "auto",
    alpha: float = 0.05, trained: str | None = None,
) -> Decision:  # fmt: skip
    """Fit the detector on the labelled training samples (and the wild ones), calibrate it on held-out labelled ones.

    ``detector="auto"``: with a wild pool the joint decision (`WildKNN`, `JointCalibration`), without one plain KNN with the
    conformal threshold. ``trained``: a score that the network was trained to give wild samples (`wildspec.methods.pu`); it
    then is what "auto" takes, with the conformal threshold: the pool had its say in training. Any detector that is named
    keeps the conformal threshold, unless it uses wild samples itself.
    """
    pool = None if wild is None else wild.outputs
    if detector == "auto" and trained is not None and wild is not None and len(wild) >= FEWEST:
        score = fit_detector(build_detector(trained), train.outputs, labels, model=train.model)
        return Decision(score, calibrate_ratio(held_out.score(score), wild.score(score), alpha))
    chosen = _build(detector, labels, 0 if wild is None else len(wild))
    fit_detector(chosen, train.outputs, labels, pool, model=train.model)
    calibration = calibrate_detector(
        chosen, held_out.score(chosen), alpha, labelled=train.outputs, held_out=held_out.outputs, wild=pool
    )
    return Decision(chosen, calibration)


def _build(detector: str | Detector, labels: Tensor, wild: int) -> Detector:
    if isinstance(detector, Detector):
        return detector
    if not isinstance(detector, str):
        raise InputTypeError(f"detector must be a name or a Detector, got {type(detector).__name__}")
    if detector not in ("auto", "knn"):
        return build_detector(detector)
    if detector == "auto" and wild >= FEWEST:
        return WildKNN()
    return build_detector("knn", k=usual_k(labels))
