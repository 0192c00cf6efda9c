"""Fit any detector and set its threshold, by one rule for benchmarks, runs and models.

A detector that uses wild samples (`Detector.uses_wild`) is fitted on labelled and wild ones and gets the joint threshold;
every other is fitted on labelled ones and gets the conformal threshold.
"""

from typing import Any

import torch
from torch import Tensor, nn

from wildspec.decision.calibration import Calibration, calibrate
from wildspec.decision.decision import Decision
from wildspec.decision.joint import JointCalibration, calibrate_jointly
from wildspec.decision.shares import FEWEST
from wildspec.detectors.base import Detector
from wildspec.detectors.knn import KNN
from wildspec.detectors.wild_knn import WildKNN
from wildspec.errors import InputError
from wildspec.evaluation.features import Outputs
from wildspec.tensors import as_rows


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


def decide_jointly(
    labelled: Any,
    labels: Any,
    wild: Any,
    held_out: Any,
    *,
    alpha: float = 0.05,
    k: int | None = None,
    model: nn.Module | None = None,
) -> Decision[WildKNN]:
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
    return Decision(detector, calibrate_fitted(detector, labelled, wild, held_out, alpha))


def calibrate_fitted(
    detector: WildKNN, labelled: Tensor, wild: Tensor, held_out: Tensor, alpha: float = 0.05
) -> JointCalibration:
    """The thresholds of a `WildKNN` just fitted on these labelled and wild features."""
    if detector.wild_scores_ is None:
        raise InputError("the joint decision needs a wild pool of at least 2 samples; without one use calibrate")
    plain = KNN(int(detector.neighbours_)).fit(features=labelled)  # tells shifted from clean: its bank has no shifted sample
    shift = (plain.score(features=wild), plain.score(features=held_out))
    return calibrate_jointly(detector.score(features=held_out), detector.wild_scores_, alpha, shift_scores=shift)
