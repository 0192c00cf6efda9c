"""Step 4 of a fit: the decision, what the held-out images say of it, and the evidence for the report."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wildspec.decision.class_rates import ClassRate, class_rates, clopper_pearson
from wildspec.decision.decision import Decision
from wildspec.decision.verdicts import LabelledBank
from wildspec.detectors import Detector
from wildspec.evaluation import Outputs, collect
from wildspec.graph.nearest import normalize
from wildspec.images.decision import learn_decision
from wildspec.images.parts import Parts
from wildspec.images.pictures import rows_to_show
from wildspec.images.train import Trained


@dataclass(frozen=True)
class DecidedImages:
    """``bank``: the labelled training images in feature space. ``metrics``: on the validation part, and of the pool.
    ``evidence``: scores and decisions of both, features of the wild images at ``shown``."""

    decision: Decision[Detector]
    bank: LabelledBank
    metrics: dict[str, Any]
    evidence: dict[str, Tensor]
    shown: np.ndarray


def decide_images(
    parts: Parts, trained: Trained, *, detector: str | Detector = "auto", alpha: float = 0.05, seed: int = 0,
    device: torch.device, per_class: bool = False,
) -> DecidedImages:  # fmt: skip
    """Every image goes through the trained network once."""

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
    bank = LabelledBank(normalize(train.features), parts.train.labels.cpu().numpy(), list(parts.train.names))
    evidence = {"validation.label": parts.validation.labels.cpu(), **_judged(decision, "validation", validation)}
    evidence["validation.probability"] = validation.logits.softmax(1).amax(1).double().cpu()
    shown = np.empty(0, np.int64)
    if wild is not None:
        evidence |= _judged(decision, "wild", wild)
        shown = rows_to_show(evidence["wild.score"].numpy(), decision.threshold, seed)
        rows = torch.from_numpy(shown)
        evidence |= {"wild.rows": rows, "wild.features": wild.features.cpu()[rows]}
    metrics = held_out_metrics(evidence, len(parts.classes))
    if calibration is not None and calibration.labels is not None:
        order = np.argsort(calibration.score(decision.detector).double().cpu().numpy(), kind="stable")
        alarms = decision.calibration.scores > decision.calibration.thresholds_without()
        metrics["classes"] = held_out_rates(evidence, parts.classes, calibration.labels.cpu().numpy()[order], alarms)
    return DecidedImages(decision, bank, metrics, {**evidence, **parts.history}, shown)


def _judged(decision: Decision[Detector], name: str, seen: Outputs) -> dict[str, Tensor]:
    score = seen.score(decision.detector).double().cpu()
    return {
        f"{name}.score": score,
        f"{name}.rejected": decision.calibration.reject(score),
        f"{name}.p_value": decision.calibration.p_value(score),
        f"{name}.likely": seen.predictions.cpu(),
    }


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
