"""A fit on a frozen network: features once, then the one rule. No training; a minute or two on two cores.

    read_sets -> split_sets -> encode -> learn_frozen -> FrozenFitted

The rule learns from the training and the wild part, the threshold rests on the calibration part, accuracy and the
temperature of probabilities on the validation part.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wildspec.bundle.gallery import Gallery
from wildspec.data import Preprocess
from wildspec.data.images import ImageSet
from wildspec.data.source import ImageSource
from wildspec.decision.rule import RuleSettings, fit_rule
from wildspec.decision.temperature import crossed_error, fit_temperature
from wildspec.decision.thresholds import learn_thresholds
from wildspec.decision.verdicts import REJECTED, LabelledBank, Verdicts
from wildspec.images.checks import warn_of_small
from wildspec.images.decided import held_out_metrics, held_out_rates
from wildspec.images.encoding import ImageEncoder, usual_folder
from wildspec.images.frozen_decision import FrozenDecision, Judged, as_rows
from wildspec.images.frozen_network import frozen_encoder
from wildspec.images.options import Options
from wildspec.images.parts import Parts, split_sets
from wildspec.images.pictures import WILD_SIDE, labelled_pictures, rows_to_show
from wildspec.images.reading import read_sets
from wildspec.images.telling import tell
from wildspec.models.backbones import name_of
from wildspec.models.encoder import Encoder
from wildspec.models.initial_weights import check_init
from wildspec.provenance import environment
from wildspec.training import resolve_device
from wildspec.training.counting import counting

Say = Callable[[str], None]


@dataclass(frozen=True)
class Aside:
    """What a person's answers need besides the rule: rows of the ``calibration`` and of the ``validation`` images, (n, d),
    which nothing was learned from, ``labels`` (n,) of the calibration images (None in bundles of earlier versions), and the
    ``pool``: names of the wild images in the order of the rule's graph."""

    calibration: np.ndarray
    validation: np.ndarray
    pool: list[str]
    labels: np.ndarray | None = None


@dataclass
class FrozenFitted:
    """What a fit on a frozen network leaves. ``model``: the encoder; ``weights``: the network's own, as a bundle keeps them;
    ``bank``: the labelled training images as rows of the rule; ``aside``: None in bundles that kept none."""

    model: Encoder
    network: dict[str, Any]
    weights: dict[str, Tensor]
    preprocess: Preprocess
    classes: tuple[str, ...]
    decision: FrozenDecision
    bank: LabelledBank
    record: dict[str, Any]
    evidence: dict[str, Tensor]
    wild_names: list[str]
    pictures: dict[str, Gallery]
    aside: Aside | None = None

    @property
    def device(self) -> torch.device:
        return self.model.device

    def verdicts(self, pixels: Tensor, neighbours: int = 0) -> Verdicts:
        """uint8 (n, 3, S, S) -> everything about them."""
        rows = self.decision.rows(self.model.encode(pixels))
        judged = self.decision.judge(rows)
        near, away = self.bank.nearest(torch.from_numpy(rows), neighbours)
        return Verdicts(
            predicted=np.where(judged.rejected, REJECTED, judged.likely), likely=judged.likely,
            probabilities=judged.probabilities, score=judged.score, threshold=judged.threshold, p_value=judged.p_value,
            neighbours=near, distances=away, features=rows,
        )  # fmt: skip


def fit_frozen(
    labelled_source: ImageSource, wild_source: ImageSource | None, options: Options, say: Say
) -> FrozenFitted:
    """Read, split, encode, decide, measure."""
    began = time.monotonic()
    device = resolve_device(options.device)
    if options.init is not None:
        check_init(options.init)
    classes = len(labelled_source.classes)
    encoder, network, weights = frozen_encoder(
        options.backbone, size=options.size, init=options.init, device=device, classes=classes
    )
    warn_of_small(labelled_source, "labelled")
    pixels = None if options.cache is False else options.cache
    read = read_sets(
        labelled_source, wild_source, encoder.size, max_unreadable=options.max_unreadable, cache=pixels
    )
    parts = split_sets(read, held_out=options.held_out, alpha=options.alpha, seed=options.seed, init=options.init)
    tell(parts, say, options.init)
    until = None if options.minutes is None else began + 60 * options.minutes
    pictures = {"labelled": Gallery.empty(), "wild": Gallery.empty()}
    if options.pictures:
        pictures["labelled"], _ = labelled_pictures(labelled_source, parts.train, options.seed, until)

    started = time.monotonic()
    images = ImageEncoder(encoder, usual_folder(options.cache is not False))
    say(f"features of {name_of(network)}, frozen, at {encoder.size} px")
    seen = encode_parts(images, parts, show=options.progress)
    decision, learned = learn_frozen(seen, parts, alpha=options.alpha, seed=options.seed, per_class=options.per_class)
    evidence, metrics, shown = measure(decision, seen, parts, learned, options.seed)
    if options.pictures and parts.wild is not None and wild_source is not None:
        pictures["wild"] = Gallery.make(wild_source, parts.wild.kept, shown.tolist(), WILD_SIDE)
    training = {
        "method": "frozen", "preset": options.preset, "hparams": {}, "stages": [], "seed": options.seed,
        "minutes": options.minutes,
        "seconds": round(time.monotonic() - started, 2),
    }  # fmt: skip
    record = {
        "training": training, "data": parts.record, "metrics": metrics,
        "provenance": {**environment(), "seconds": round(time.monotonic() - began, 2), "device": device.type},
    }  # fmt: skip
    pool = [] if parts.wild is None else list(parts.wild.names)
    names = [pool[i] for i in shown.tolist()]
    labels = parts.calibration.labels.cpu().numpy()
    aside = Aside(decision.rows(seen.calibration), decision.rows(seen.validation), pool, labels)
    rows = torch.from_numpy(decision.rule.labelled)
    bank = LabelledBank(rows, decision.rule.labels, list(parts.train.names))
    return FrozenFitted(
        encoder, network, weights, _preprocess(encoder), parts.classes, decision, bank, record, evidence, names, pictures,
        aside,
    )  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """(n, d) float32 features of the parts; ``wild`` may have no rows."""

    train: Tensor
    validation: Tensor
    calibration: Tensor
    wild: Tensor


def encode_parts(images: ImageEncoder, parts: Parts, *, show: bool = False) -> Seen:
    """Every image once."""

    def go(what: str, some: ImageSet | None) -> Tensor:
        if some is None:
            return torch.empty(0, images.encoder.feature_dim)
        with counting(what, len(some), show) as advance:
            return torch.cat([block.features for block in images.encode(some, advance)])

    validation, calibration = go("held-out images", parts.validation), go("held-out images", parts.calibration)
    return Seen(go("labelled images", parts.train), validation, calibration, go("wild images", parts.wild))


def learn_frozen(
    seen: Seen, parts: Parts, *, alpha: float, seed: int, per_class: bool = False
) -> tuple[FrozenDecision, Judged]:
    """The decision, and what it says of the validation part."""
    labels, held = parts.train.labels.cpu().numpy(), parts.calibration.labels.cpu().numpy()
    calibration = as_rows(seen.calibration)
    train, wild, settings = as_rows(seen.train), as_rows(seen.wild), RuleSettings(seed=seed)
    rule = fit_rule(train, labels, wild, len(parts.classes), settings, held=(calibration, held))
    thresholds = learn_thresholds(rule, calibration, alpha, held, per_class=per_class)
    plain = FrozenDecision(rule, thresholds, 1.0)
    judged = plain.judge(as_rows(seen.validation))
    truth = parts.validation.labels.cpu().numpy()
    decision = replace(plain, temperature=fit_temperature(judged.probabilities, truth))
    return decision, judged


def measure(
    decision: FrozenDecision, seen: Seen, parts: Parts, learned: Judged, seed: int
) -> tuple[dict[str, Tensor], dict[str, Any], np.ndarray]:
    """Evidence for the report, metrics, wild images to show. ``learned``: of the validation part, at temperature 1."""
    evidence = {"validation.label": parts.validation.labels.cpu(), **as_evidence("validation", learned)}
    shown = np.empty(0, np.int64)
    if parts.wild is not None:
        rows = decision.rows(seen.wild)
        judged = decision.judge(rows)
        shown = rows_to_show(judged.score, decision.threshold, seed)
        evidence |= as_evidence("wild", judged) | {
            "wild.rows": torch.from_numpy(shown), "wild.features": torch.from_numpy(rows[shown]),
            "wild.shifted": torch.from_numpy(judged.shifted),
        }  # fmt: skip
    return {**evidence, **parts.history}, measured(decision, evidence, learned, parts.classes), shown


def measured(
    decision: FrozenDecision, evidence: dict[str, Tensor], learned: Judged, classes: Sequence[str]
) -> dict[str, Any]:
    """Metrics of what the evidence says. ``learned``: of the validation part, at temperature 1."""
    metrics, held = held_out_metrics(evidence, len(classes)), decision.thresholds
    if held.labels is not None:
        metrics["classes"] = held_out_rates(evidence, classes, held.labels, held.alarms)
    error = crossed_error(learned.probabilities, evidence["validation.label"].numpy())
    metrics["validation"] |= {"calibration_error": error, "temperature": decision.temperature}
    if "wild" in metrics:
        low, high = decision.thresholds.interval
        metrics["wild"] |= {"unknown": decision.thresholds.unknown, "unknown_interval": [low, high]}
    return metrics


def as_evidence(name: str, judged: Judged) -> dict[str, Tensor]:
    """What a bundle keeps of the decisions about a part."""
    found = {"score": judged.score, "rejected": judged.rejected, "p_value": judged.p_value, "likely": judged.likely}
    return {f"{name}.{what}": torch.from_numpy(np.ascontiguousarray(value)) for what, value in found.items()}


def _preprocess(encoder: Encoder) -> Preprocess:
    mean, std = encoder.mean.flatten().tolist(), encoder.std.flatten().tolist()
    return Preprocess.from_json({"size": encoder.size, "mean": mean, "std": std})
