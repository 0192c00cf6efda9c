"""Fit any detector and set its threshold, by one rule for benchmarks, trainings and models, from features that are there.

A detector that uses wild samples (`Detector.uses_wild`) is fitted on labelled and wild ones and gets the joint threshold;
every other is fitted on labelled ones and gets the conformal threshold.
"""

import warnings
from dataclasses import replace

import torch
from torch import nn

from wildspec.decision.calibration import Calibration, calibrate
from wildspec.decision.decision import Decision
from wildspec.decision.joint import calibrate_jointly
from wildspec.decision.shares import FEWEST
from wildspec.detectors.base import Detector
from wildspec.detectors.knn import KNN
from wildspec.detectors.wild_knn import WildKNN
from wildspec.errors import InputError
from wildspec.evaluation.features import Outputs, with_pixel_scale


def decide(
    detector: Detector, train: Outputs, wild: Outputs | None, held_out: Outputs, alpha: float = 0.05,
    *, per_class: bool = False,
) -> Decision[Detector]:  # fmt: skip
    """The detector fitted on ``train`` (labelled) and, where it uses them, ``wild`` samples; its threshold from ``held_out``
    ID samples. Neither the network nor the detector may have learned from those: the promise rests on that. A step in
    pixels that was left open (ODIN) is that of ``train.preprocess``, in a copy of the detector."""
    detector = with_pixel_scale(detector, train.preprocess)
    fit(detector, train, wild, model=train.model)
    return Decision(detector, set_threshold(detector, train, wild, held_out, alpha, per_class=per_class))


def fit(detector: Detector, train: Outputs | None, wild: Outputs | None = None, *, model: nn.Module | None = None) -> None:
    """Learn from labelled samples and, where the detector uses them, wild ones (label -1)."""
    if detector.uses_wild and wild is None:
        warnings.warn(f"{detector.name} uses wild samples and got none; it decides by the labelled ones alone", stacklevel=3)
    if train is None:
        if detector.fit_needs:
            raise InputError(f"{detector.name} learns from labelled samples; give train=")
        return
    labels, features, logits = train.labels, train.features, train.logits
    if labels is None:
        if "labels" in detector.fit_needs:
            raise InputError(f"{detector.name} learns from labels, and train has none; give a pair (images, labels)")
        labels = torch.zeros(len(train), dtype=torch.int64)  # not looked at
    labels = labels.to(features.device)
    if detector.uses_wild and wild is not None:
        features, logits = torch.cat([features, wild.features]), torch.cat([logits, wild.logits])
        labels = torch.cat([labels, labels.new_full((len(wild),), -1)])
    detector.fit(features=features, logits=logits, labels=labels, model=model)


def set_threshold(
    detector: Detector, train: Outputs | None, wild: Outputs | None, held_out: Outputs, alpha: float = 0.05,
    *, per_class: bool = False,
) -> Calibration:  # fmt: skip
    """Of a detector just fitted on ``train`` and ``wild``: joint where it was fitted on at least 10 wild samples, conformal
    otherwise. The share of shifted samples is estimated by plain KNN: its bank has no shifted sample. A pool of which none
    was attributed to a class raises nothing, and may be unknown from end to end. ``per_class``: alpha is promised for each
    class (`Calibration`)."""
    scores, labels = held_out.score(detector), held_out.labels if per_class else None
    if not isinstance(detector, WildKNN) or train is None or wild is None or len(wild) < FEWEST:
        return calibrate(scores, alpha, labels)
    assert detector.wild_scores_ is not None
    plain = KNN(int(detector.neighbours_)).fit(features=train.features)
    shift = (plain.score(features=wild.features), plain.score(features=held_out.features))
    found = calibrate_jointly(
        scores, detector.wild_scores_, alpha, shift_scores=shift, labels=labels,
        raised=detector.attributed and not detector.learned,
    )  # fmt: skip
    if detector.attributed:
        return found
    return replace(found, mixture=replace(found.mixture, pi_s_interval=(0.0, 1.0), pi_c=0.0, pi_c_interval=(0.0, 1.0)))
