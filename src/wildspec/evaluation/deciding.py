"""Fit any detector and set its threshold, by one rule for benchmarks, runs and models.

A detector that uses wild samples (`Detector.uses_wild`) is fitted on labelled and wild ones and gets the joint threshold;
every other is fitted on labelled ones and gets the conformal threshold.
"""

from typing import Any

import torch
from torch import Tensor, nn

from wildspec.detectors.base import Detector
from wildspec.detectors.wild_knn import WildKNN
from wildspec.evaluation.calibration import Calibration, calibrate
from wildspec.evaluation.features import Outputs
from wildspec.evaluation.joint import calibrate_fitted
from wildspec.evaluation.mixture import FEWEST


def fit_detector(
    detector: Detector, labelled: Outputs, labels: Tensor, wild: Outputs | None = None, *, model: nn.Module | None = None
) -> Detector:
    """Fitted on labelled samples, and on the wild ones (label -1) where the detector uses them and there are any."""
    features, logits, labels = labelled.features, labelled.logits, labels.to(labelled.features.device)
    if detector.uses_wild and wild is not None:
        features, logits = torch.cat([features, wild.features]), torch.cat([logits, wild.logits])
        labels = torch.cat([labels, labels.new_full((len(wild),), -1)])
    return detector.fit(features=features, logits=logits, labels=labels, model=model)


def calibrate_detector(
    detector: Detector, held_out_scores: Any, alpha: float = 0.05, *, labelled: Outputs, held_out: Outputs,
    wild: Outputs | None = None,
) -> Calibration:
    """Joint where the detector was just fitted on at least 10 wild samples, conformal otherwise.

    ``held_out``: ID samples nobody learned from; ``held_out_scores``: (n,) of this detector.
    """  # fmt: skip
    if not isinstance(detector, WildKNN) or wild is None or detector.wild_scores_ is None or len(wild) < FEWEST:
        return calibrate(held_out_scores, alpha)
    return calibrate_fitted(detector, labelled.features, wild.features, held_out.features, alpha)
