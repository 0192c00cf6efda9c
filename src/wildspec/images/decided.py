"""Step 4 of a fit: the decision, what the held-out images say of it, and the evidence for the report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wildspec.data.images import ImageSet
from wildspec.decision.class_rates import ClassRate, class_rates, clopper_pearson
from wildspec.decision.decision import Decision
from wildspec.decision.rule import RuleSettings, fit_rule
from wildspec.decision.temperature import calibration_error
from wildspec.decision.thresholds import learn_temperature, learn_thresholds
from wildspec.decision.verdicts import LabelledBank
from wildspec.detectors import Detector
from wildspec.evaluation import Outputs, collect
from wildspec.graph.nearest import normalize
from wildspec.images.decision import judge, learn_decision
from wildspec.images.encoding import ImageEncoder
from wildspec.images.fitted import Aside
from wildspec.images.frozen_decision import FrozenDecision, Judged, as_rows
from wildspec.images.parts import Parts
from wildspec.images.pictures import rows_to_show
from wildspec.images.train import Trained
from wildspec.models.encoder import Encoder
from wildspec.training.counting import counting


@dataclass(frozen=True)
class DecidedImages:
    """``bank``: the labelled training images in feature space. ``metrics``: on the validation part, and of the pool.
    ``evidence``: scores and decisions of both, features of the wild images at ``shown``."""

    decision: Decision[Detector] | FrozenDecision
    bank: LabelledBank
    metrics: dict[str, Any]
    evidence: dict[str, Tensor]
    shown: np.ndarray
    aside: Aside | None = None


def decide_images(
    parts: Parts, trained: Trained, *, detector: str | Detector = "auto", alpha: float = 0.05, seed: int = 0,
    device: torch.device, per_class: bool = False,
) -> DecidedImages:  # fmt: skip
    """By a detector; every image goes through the trained network once."""

    def see(images: Any) -> Outputs:
        return collect(trained.model, images, trained.preprocess, device=device)

    train, validation, calibration = see(parts.train), see(parts.validation), see(parts.calibration)
    wild = None if parts.wild is None else see(parts.wild)
    decision = learn_decision(
        train, wild, calibration, detector=detector, alpha=alpha, trained=trained.score, per_class=per_class
    )
    return decided(parts, decision, train, validation, wild, seed, calibration)


def decided(
    parts: Parts, decision: Decision[Detector], train: Outputs, validation: Outputs, wild: Outputs | None, seed: int = 0,
    calibration: Outputs | None = None,
) -> DecidedImages:  # fmt: skip
    """What a decision that is made already says about the held-out and the wild images. ``calibration``: the outputs that
    the threshold rests on, where they are at hand."""
    judged, features = (None, None) if wild is None else (judge(decision, wild), wild.features.cpu())
    evidence, shown = _evidence(parts, judge(decision, validation), judged, features, decision.threshold, seed)
    evidence["validation.probability"] = validation.logits.softmax(1).amax(1).double().cpu()
    metrics = held_out_metrics(evidence, len(parts.classes))
    if calibration is not None and calibration.labels is not None:
        order = np.argsort(calibration.score(decision.detector).double().cpu().numpy(), kind="stable")
        alarms = decision.calibration.scores > decision.calibration.thresholds_without()
        metrics["classes"] = held_out_rates(evidence, parts.classes, calibration.labels.cpu().numpy()[order], alarms)
    bank = LabelledBank(normalize(train.features), parts.train.labels.cpu().numpy(), list(parts.train.names))
    return DecidedImages(decision, bank, metrics, evidence, shown)


def decide_frozen(
    parts: Parts, encoder: Encoder, *, alpha: float, seed: int, shift: Any = "auto", per_class: bool = False,
    keep: Path | None = None, show: bool = False, in_time: Callable[[int], None] = lambda more: None,
) -> DecidedImages:  # fmt: skip
    """By the one rule, on features of a network that is taken as it is; every image goes through it once. The rule learns
    from the training and the wild part, threshold and temperature of probabilities rest on the calibration part, and where
    that is small on the training part in turns; what is measured, on the validation part. ``keep``: folder of kept
    features. ``in_time``: told of images that have features, stops what takes too long."""
    images = ImageEncoder(encoder, keep)

    def see(what: str, some: ImageSet | None) -> np.ndarray:
        rows = np.empty((0 if some is None else len(some), encoder.feature_dim), np.float32)
        if some is not None:
            with counting(what, len(some), show) as advance:
                for block in images.encode(some, advance):
                    rows[block.rows] = as_rows(block.features)
                    in_time(len(block.rows))
        return rows

    validation, calibration = see("held-out images", parts.validation), see("held-out images", parts.calibration)
    train, wild = see("labelled images", parts.train), see("wild images", parts.wild)
    labels, held = (part.labels.cpu().numpy() for part in (parts.train, parts.calibration))
    rule = fit_rule(train, labels, wild, len(parts.classes), RuleSettings(shift=shift, seed=seed), held=(calibration, held))
    thresholds = learn_thresholds(rule, calibration, alpha, held, per_class=per_class, apart=parts.grouped)
    decision = FrozenDecision(rule, thresholds, learn_temperature(rule, calibration, held, apart=parts.grouped))
    found = decision.judge(validation)
    judged = None
    if parts.wild is not None:
        judged = decision.judge(wild) if rule.graph is None else decision.judge_pool(rule.shift.posterior(wild))
    evidence, shown = _evidence(parts, found, judged, torch.from_numpy(wild), decision.threshold, seed)
    if judged is not None:
        evidence["wild.shifted"] = torch.from_numpy(judged.shifted)
    aside = Aside(calibration, validation, [] if parts.wild is None else list(parts.wild.names), held)
    bank = LabelledBank(torch.from_numpy(train), labels, list(parts.train.names))
    return DecidedImages(decision, bank, rule_metrics(decision, evidence, found, parts.classes), evidence, shown, aside)


def _evidence(
    parts: Parts, validation: Judged, wild: Judged | None, features: Tensor | None, threshold: float, seed: int
) -> tuple[dict[str, Tensor], np.ndarray]:
    """What the report is made from, and the wild images to show. ``features`` (m, d): of all wild images."""
    evidence = {"validation.label": parts.validation.labels.cpu(), **as_evidence("validation", validation), **parts.history}
    if wild is None or features is None:
        return evidence, np.empty(0, np.int64)
    shown = rows_to_show(wild.score, threshold, seed)
    rows = torch.from_numpy(shown)
    return evidence | as_evidence("wild", wild) | {"wild.rows": rows, "wild.features": features[rows]}, shown


def as_evidence(name: str, judged: Judged) -> dict[str, Tensor]:
    """What a bundle keeps of the decisions about a part."""
    found = {"score": judged.score, "rejected": judged.rejected, "p_value": judged.p_value, "likely": judged.likely}
    return {f"{name}.{what}": torch.from_numpy(np.ascontiguousarray(value)) for what, value in found.items()}


def rule_metrics(
    decision: FrozenDecision, evidence: dict[str, Tensor], validation: Judged, classes: Sequence[str]
) -> dict[str, Any]:
    """Metrics of what the evidence says. ``validation``: of that part, of which nothing was learned."""
    metrics, held = held_out_metrics(evidence, len(classes)), decision.thresholds
    if held.labels is not None:
        metrics["classes"] = held_out_rates(evidence, classes, held.labels, held.alarms)
    error = calibration_error(validation.probabilities, evidence["validation.label"].numpy())
    metrics["validation"] |= {"calibration_error": error, "temperature": decision.temperature}
    if "wild" in metrics:
        metrics["wild"] |= {"unknown": held.unknown, "unknown_interval": list(held.interval)}
    return metrics


def held_out_rates(
    evidence: dict[str, Tensor], classes: Sequence[str], labels: Any, alarms: Any
) -> list[dict[str, Any]]:
    """How often each class is rejected among all images that nothing was learned from: those of the validation part, and
    those of the calibration part (``labels``, ``alarms``), each judged by the threshold that the others give."""
    truth = np.concatenate([evidence["validation.label"].numpy(), labels])
    rejected = np.concatenate([evidence["validation.rejected"].numpy(), alarms])
    return [one.to_json() for one in class_rates(truth, rejected, classes)]


def stored_rates(metrics: dict[str, Any]) -> list[ClassRate]:
    """Those of `held_out_rates` again, from the metrics of a fit; none in bundles of earlier versions."""
    return [
        ClassRate(one["class"], one["count"], one["rejected"], *clopper_pearson(one["rejected"], one["count"]))
        for one in metrics.get("classes", ())
    ]


def held_out_metrics(evidence: dict[str, Tensor], classes: int) -> dict[str, Any]:
    """What the held-out validation part says; and how much of the wild pool is rejected."""
    rejected, likely, label = (evidence[f"validation.{name}"] for name in ("rejected", "likely", "label"))
    kept, right = ~rejected, likely == label
    confusion = torch.zeros(classes, classes, dtype=torch.int64)
    confusion.index_put_((label[kept], likely[kept]), torch.ones(int(kept.sum()), dtype=torch.int64), accumulate=True)
    out: dict[str, Any] = {
        "validation": {
            "count": len(kept), "accuracy": float(right.double().mean()), "kept": float(kept.double().mean()),
            "accuracy_kept": float(right[kept].double().mean()) if kept.any() else None,
            "confusion_kept": confusion.tolist(),
        }
    }  # fmt: skip
    if "wild.rejected" in evidence:
        rejected = evidence["wild.rejected"]
        out["wild"] = {"count": len(rejected), "rejected": int(rejected.sum())}
    return out
