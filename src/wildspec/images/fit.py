"""From two sets of images to a fitted model, step by step; every step leaves a record.

    read_sets -> split_sets -> learn -> decide_images -> assemble
    ReadSets     Parts         Trained  DecidedImages          Fitted

`learn` is the step that can be exchanged: from `Parts` to a network with its normalization, however that is trained.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wildspec.bundle.gallery import Gallery
from wildspec.data import Preprocess
from wildspec.data.source import ImageSource
from wildspec.decision.decision import Decision
from wildspec.decision.verdicts import REJECTED, LabelledBank, Verdicts
from wildspec.detectors import Detector
from wildspec.evaluation import collect
from wildspec.images.decided import DecidedImages, decide_images
from wildspec.images.options import Options
from wildspec.images.parts import Parts, split_sets
from wildspec.images.pictures import MOST, WILD_SIDE, labelled_pictures
from wildspec.images.reading import read_sets
from wildspec.images.sizing import choose_size
from wildspec.images.telling import tell
from wildspec.images.train import CPU_MINUTES, Trained, TrainingTime, train_network
from wildspec.methods.spectral_plus import PHOTOGRAPHS
from wildspec.models import Classifier
from wildspec.models.backbones import check_backbone
from wildspec.models.initial_weights import check_init
from wildspec.provenance import environment
from wildspec.training import resolve_device

Say = Callable[[str], None]
Learn = Callable[[Parts, Options, TrainingTime, Say], Trained]


@dataclass
class Fitted:
    """Everything a fit leaves: what is needed to decide, and the evidence for the report."""

    model: Classifier
    network: dict[str, Any]
    preprocess: Preprocess
    classes: tuple[str, ...]
    decision: Decision[Detector]
    bank: LabelledBank
    record: dict[str, Any]
    evidence: dict[str, Tensor]
    wild_names: list[str]
    pictures: dict[str, Gallery]
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def verdicts(self, pixels: Tensor, neighbours: int = 0) -> Verdicts:
        """uint8 (n, 3, S, S) -> everything about them."""
        seen = collect(self.model, pixels, self.preprocess, device=self.device)
        score = seen.score(self.decision.detector).double().cpu().numpy()
        calibration = self.decision.calibration
        likely = seen.predictions.cpu().numpy()
        rows, away = self.bank.nearest(seen.features, neighbours)
        return Verdicts(
            predicted=np.where(calibration.reject(score), REJECTED, likely),
            likely=likely,
            probabilities=seen.logits.softmax(1).cpu().numpy(),
            score=score,
            threshold=np.full(len(score), calibration.threshold),
            p_value=calibration.p_value(score),
            neighbours=rows,
            distances=away,
            features=seen.features.cpu().numpy(),
        )


def fit_images(
    labelled_source: ImageSource, wild_source: ImageSource | None, options: Options, say: Say, learn: Learn = train_network
) -> Fitted:
    """Read, split, train, decide, measure."""
    began = time.monotonic()
    device = resolve_device(options.device)
    options = with_usual_hparams(options, device)
    check_backbone(options.backbone, options.method, weights=options.init is None)
    if options.init is not None:
        check_init(options.init)
    size = options.size or choose_size(labelled_source, device)
    read = read_sets(labelled_source, wild_source, size, max_unreadable=options.max_unreadable, cache=options.cache or None)
    parts = split_sets(
        read, held_out=options.held_out, alpha=options.alpha, seed=options.seed, init=options.init
    )
    tell(parts, say, options.init)

    until = _until(options, device, began)
    pictures, each = Gallery.empty(), 0.0
    if options.pictures:
        pictures, each = labelled_pictures(labelled_source, parts.train, options.seed, until)
    later = each * min(MOST["wild"], 0 if parts.wild is None else len(parts.wild))
    trained = learn(parts, options, TrainingTime(until, later, len(parts)), say)

    found = decide_images(
        parts, trained, detector=options.detector, alpha=options.alpha, seed=options.seed, device=device,
        per_class=options.per_class,
    )  # fmt: skip
    galleries = {"labelled": pictures, "wild": Gallery.empty()}
    if options.pictures and parts.wild is not None and wild_source is not None:
        galleries["wild"] = Gallery.make(wild_source, parts.wild.kept, found.shown.tolist(), WILD_SIDE)
    return assemble(parts, trained, found, time.monotonic() - began, device, galleries)


def assemble(
    parts: Parts, trained: Trained, found: DecidedImages, seconds: float, device: torch.device,
    pictures: Mapping[str, Gallery] | None = None,
) -> Fitted:
    """The fitted model and its record."""
    record = {
        "training": trained.record, "data": parts.record, "metrics": found.metrics,
        "provenance": {**environment(), "seconds": round(seconds, 2), "device": device.type},
    }  # fmt: skip
    names = [] if parts.wild is None else [parts.wild.names[i] for i in found.shown.tolist()]
    galleries = {"labelled": Gallery.empty(), "wild": Gallery.empty(), **(pictures or {})}
    return Fitted(
        trained.model, trained.network, trained.preprocess, parts.classes, found.decision, found.bank, record,
        found.evidence, names, galleries, trained.log,
    )  # fmt: skip


def with_usual_hparams(options: Options, device: torch.device) -> Options:
    """Where nobody chose any and a GPU trains spectral+ at full length: those that were measured on photographs."""
    full = options.method == "spectral+" and device.type == "cuda" and not options.hparams
    return replace(options, hparams=dict(PHOTOGRAPHS)) if full else options


def _until(options: Options, device: torch.device, began: float) -> float | None:
    """When all must be done. Minutes that were asked for count from the start; those nobody asked for, on a CPU, from now,
    when the images have been read."""
    if options.minutes is not None:
        return began + 60 * options.minutes
    if options.epochs is None and device.type == "cpu":
        return time.monotonic() + 60 * CPU_MINUTES
    return None
