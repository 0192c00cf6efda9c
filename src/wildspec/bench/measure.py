"""A trained model against every test set of a protocol: each set goes through the network once, all detectors share it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wildspec.bench.prepare import Prepared
from wildspec.data import ImageArrays, Preprocess
from wildspec.detectors import Detector, WildKNN
from wildspec.evaluation import (
    Calibration,
    Evaluation,
    JointCalibration,
    Outputs,
    collect,
    evaluate_outputs,
    open_set_metrics,
)
from wildspec.evaluation.deciding import fit, set_threshold
from wildspec.evaluation.evaluate import noted
from wildspec.evaluation.report import joint_score

SAMPLES = 2000  # images of each kind whose features are kept for the figures


@dataclass
class Measured:
    """One detector: ``headline`` at the protocol's severity, the same at every severity, and on unseen semantic sets.

    ``open_set``: where the shift is another domain, OS*, UNK, OS and HOS at the system's own decision, or at the calibrated
    threshold where it has none. ``pool``: of a detector that uses the wild pool, both thresholds, the mixture it sees and
    what is true; else None.
    """

    headline: Evaluation
    severities: dict[int, Evaluation]
    unseen: dict[str, Evaluation]
    validation_id_acc: float
    open_set: dict[str, float] | None = None
    pool: dict[str, Any] | None = None


@dataclass
class Measurements:
    """Of one model. ``samples``: for the figures, scores of ID, covariate and semantic test images per detector, and
    normalized features and labels of some of them. ``refused``: detector -> why it cannot be used here."""

    detectors: dict[str, Measured]
    samples: dict[str, Tensor]
    refused: dict[str, str]


def measure(
    model: nn.Module,
    prepared: Prepared,
    detectors: Mapping[str, Detector],
    preprocess: Preprocess,
    *,
    device: torch.device | str | None = None,
    alpha: float = 0.05,
) -> Measurements:
    """Fit on the labelled set (and the wild pool, in the protocol's shares, where a detector uses it), calibrate on the ID
    validation set, measure on the test sets."""
    trained = collect(model, prepared.labelled, preprocess, device=device)
    rows = prepared.wild.typical(prepared.protocol.split_seed)
    wild = None
    if any(detector.uses_wild for detector in detectors.values()):
        assert isinstance(prepared.wild.pool, ImageArrays)
        wild = collect(model, prepared.wild.pool.subset(rows), preprocess, device=device)
    refused: dict[str, str] = {}
    for name, detector in detectors.items():
        with noted(name, refused):
            fit(detector, trained, wild, model=model)
    usable = {name: detector for name, detector in detectors.items() if name not in refused}

    def see(images: ImageArrays) -> Outputs:
        return collect(model, images, preprocess, device=device, detectors=usable.values())

    known, validation = see(prepared.id_test), see(prepared.id_validation)
    covariate = {level: see(images) for level, images in prepared.covariate_test.items()}
    semantic = see(prepared.semantic_test)
    unseen = {name: see(images) for name, images in prepared.unseen.items()}
    shifted = covariate[prepared.severity]
    by_class = prepared.protocol.kind == "domains"
    right = validation.predictions.cpu() == prepared.id_validation.labels.cpu()
    results = {}
    for name, detector in usable.items():
        with noted(name, refused):
            calibration = set_threshold(detector, trained, wild, validation, alpha)
            decision = (detector, calibration.threshold)
            levels = {level: _against(*decision, known, images, semantic, by_class) for level, images in covariate.items()}
            results[name] = Measured(
                headline=levels[prepared.severity],
                severities=levels,
                unseen={
                    other: _against(*decision, known, shifted, images, by_class) for other, images in unseen.items()
                },
                validation_id_acc=float(right.float().mean()),
                open_set=_open_set(*decision, shifted, semantic) if by_class else None,
                pool=_pool(detector, calibration, prepared.wild.component[rows]),
            )
    measured = {name: detectors[name] for name in results}
    samples = _samples({"id": known, "covariate": shifted, "semantic": semantic}, measured)
    return Measurements(results, samples, refused)


def _against(
    detector: Detector, threshold: float, known: Outputs, shifted: Outputs, unknown: Outputs, by_class: bool
) -> Evaluation:
    """``by_class``: accuracy under shift is the mean over classes, as the paper's table of domains has it."""
    found = evaluate_outputs(detector, threshold, id=known, covariate=shifted, semantic=unknown)
    if not by_class:
        return found
    assert shifted.labels is not None
    accuracy = mean_class_accuracy(shifted.predictions, shifted.labels)
    return replace(found, ood_acc=accuracy, joint=joint_score(accuracy, found.covariate_kept, found.detection_rate))


def _open_set(detector: Detector, threshold: float, shifted: Outputs, unknown: Outputs) -> dict[str, float]:
    """``unk_macro`` is over the classes of the unknown images; their numbers start anew, after those of the known."""
    assert shifted.labels is not None
    known = np.unique(shifted.labels.cpu().numpy())
    told = []
    for seen in (shifted, unknown):
        own = detector.own_decision(seen.features, seen.logits)
        rejected = seen.score(detector) > threshold if own is None else own
        told.append(torch.where(rejected.cpu(), -1, seen.predictions.cpu()).numpy())
    strange = np.full(len(unknown), -1) if unknown.labels is None else -1 - unknown.labels.cpu().numpy().clip(0)
    found = open_set_metrics(np.concatenate(told), np.concatenate([shifted.labels.cpu().numpy(), strange]), known)
    return {name: value for name, value in found.to_json().items() if name != "accuracies"}


def _pool(detector: Detector, calibration: Calibration, component: np.ndarray) -> dict[str, Any] | None:
    """What was learned from the wild pool, beside what is true: (in-distribution, covariate, semantic) counts."""
    if not isinstance(detector, WildKNN) or not isinstance(calibration, JointCalibration):
        return None
    assert detector.attribution_ is not None
    inside = detector.attribution_.known.cpu().numpy()
    counts = {"pool": component, "attributed": component[inside]}
    return {
        "threshold_id": calibration.id_threshold, "threshold_shift": calibration.shifted,
        "pool_kept": calibration.pool_kept, "mixture": calibration.mixture.to_json(),
        "true": {name: np.bincount(values, minlength=3).tolist() for name, values in counts.items()},
    }  # fmt: skip


def mean_class_accuracy(predictions: Tensor, labels: Tensor) -> float:
    """Accuracy of each class that occurs, averaged over classes (OS* of the open-set domain adaptation literature)."""
    labels = labels.cpu()
    right = (predictions.cpu() == labels).double()
    return float(torch.stack([right[labels == c].mean() for c in labels.unique()]).mean())


def _samples(kinds: dict[str, Outputs], detectors: Mapping[str, Detector]) -> dict[str, Tensor]:
    """Flat names: ``id.score.knn``, ``id.features``, ``id.labels``, ...; at most SAMPLES features of each kind."""
    found: dict[str, Tensor] = {}
    for kind, seen in kinds.items():
        assert seen.labels is not None
        for name, detector in detectors.items():
            found[f"{kind}.score.{name}"] = seen.score(detector).float().cpu().contiguous()
        take = torch.linspace(0, len(seen) - 1, min(SAMPLES, len(seen))).long()
        features = torch.nn.functional.normalize(seen.features[take.to(seen.features.device)], dim=1)
        found[f"{kind}.features"] = features.float().cpu().contiguous()
        found[f"{kind}.labels"] = seen.labels[take].cpu().contiguous()
    return found
