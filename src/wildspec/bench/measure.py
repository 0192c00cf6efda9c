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
    calibrate_detector,
    collect,
    evaluate_scores,
    fit_detector,
    score_all,
)  # fmt: skip
from wildspec.evaluation.report import joint_score

SAMPLES = 2000  # images of each kind whose features are kept for the figures


@dataclass
class Scored:
    """One set: labels, what the network said, the score of each detector."""

    labels: Tensor
    outputs: Outputs
    scores: dict[str, Tensor]


@dataclass
class Measured:
    """One detector: ``headline`` at the protocol's severity, the same at every severity, and on unseen semantic sets.

    ``pool``: of a detector that uses the wild pool, both thresholds, the mixture it sees and what is true; else None.
    """

    headline: Evaluation
    severities: dict[int, Evaluation]
    unseen: dict[str, Evaluation]
    validation_id_acc: float
    pool: dict[str, Any] | None = None


def measure(
    model: nn.Module,
    prepared: Prepared,
    detectors: Mapping[str, Detector],
    preprocess: Preprocess,
    *,
    device: torch.device | str | None = None,
    alpha: float = 0.05,
) -> tuple[dict[str, Measured], dict[str, Tensor]]:
    """Fit on the labelled set (and the wild pool, in the protocol's shares, where a detector uses it), calibrate on the ID
    validation set, measure on the test sets.

    Also returns tensors for the figures: scores of ID, covariate and semantic test images per detector, and normalized
    features and labels of some of them.
    """
    trained = collect(model, prepared.labelled, preprocess, device=device)
    rows = prepared.wild.typical(prepared.protocol.split_seed)
    wild = None
    if any(detector.uses_wild for detector in detectors.values()):
        assert isinstance(prepared.wild.pool, ImageArrays)
        wild = collect(model, prepared.wild.pool.subset(rows), preprocess, device=device)
    for detector in detectors.values():
        fit_detector(detector, trained, prepared.labelled.labels, wild, model=model)

    def score(images: ImageArrays) -> Scored:
        outputs = collect(model, images, preprocess, device=device)
        by_gradient = {name: d for name, d in detectors.items() if "inputs" in d.score_needs}
        scores = {
            name: d.score(features=outputs.features, logits=outputs.logits, model=model)
            for name, d in detectors.items()
            if name not in by_gradient
        }
        if by_gradient:
            scores |= score_all(model, images, by_gradient, preprocess=preprocess, device=device)
        return Scored(images.labels, outputs, scores)

    known, validation = score(prepared.id_test), score(prepared.id_validation)
    covariate = {level: score(images) for level, images in prepared.covariate_test.items()}
    semantic = score(prepared.semantic_test)
    unseen = {name: score(images) for name, images in prepared.unseen.items()}
    right = validation.outputs.predictions.cpu() == validation.labels.cpu()
    results = {}
    for name, detector in detectors.items():
        calibration = calibrate_detector(
            detector, validation.scores[name], alpha, labelled=trained, held_out=validation.outputs, wild=wild
        )
        threshold = calibration.threshold

        def against(shifted: Scored, unknown: Scored, name: str = name, threshold: float = threshold) -> Evaluation:
            made = evaluate_scores(
                id_scores=known.scores[name], id_pred=known.outputs.predictions, id_labels=known.labels,
                covariate_scores=shifted.scores[name], covariate_pred=shifted.outputs.predictions,
                covariate_labels=shifted.labels, semantic_scores=unknown.scores[name], threshold=threshold,
            )  # fmt: skip
            if prepared.protocol.kind != "domains":
                return made
            per_class = mean_class_accuracy(shifted.outputs.predictions, shifted.labels)  # as the paper's table has it
            joint = joint_score(per_class, made.covariate_kept, made.detection_rate)
            return replace(made, ood_acc=per_class, joint=joint)

        levels = {level: against(shifted, semantic) for level, shifted in covariate.items()}
        results[name] = Measured(
            headline=levels[prepared.severity],
            severities=levels,
            unseen={other: against(covariate[prepared.severity], scored) for other, scored in unseen.items()},
            validation_id_acc=float(right.float().mean()),
            pool=_pool(detector, calibration, prepared.wild.component[rows]),
        )
    return results, _samples({"id": known, "covariate": covariate[prepared.severity], "semantic": semantic})


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


def _samples(kinds: dict[str, Scored]) -> dict[str, Tensor]:
    """Flat names: ``id.score.knn``, ``id.features``, ``id.labels``, ...; at most SAMPLES features of each kind."""
    found: dict[str, Tensor] = {}
    for kind, scored in kinds.items():
        for name, values in scored.scores.items():
            found[f"{kind}.score.{name}"] = values.float().cpu().contiguous()
        take = torch.linspace(0, len(scored.labels) - 1, min(SAMPLES, len(scored.labels))).long()
        features = torch.nn.functional.normalize(scored.outputs.features[take.to(scored.outputs.features.device)], dim=1)
        found[f"{kind}.features"] = features.float().cpu().contiguous()
        found[f"{kind}.labels"] = scored.labels[take].cpu().contiguous()
    return found
