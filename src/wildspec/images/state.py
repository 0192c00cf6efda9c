"""An image model to and from the parts of a bundle.

    model.json                  classes, preprocessing, network, training, data, metrics, provenance; "decision" (detector,
                                calibration), or of a frozen network "frozen" (rule, thresholds, temperature, answers)
    weights.safetensors         the network; of a frozen one ``backbone.NAME``: the bundle needs no package to be loaded
    detector/bank.safetensors   what the detector learned, and the labelled samples in feature space; or
    rule.safetensors            the rule, its calibration scores, the wild pool and the images held out as rows of it, what
                                was learned from answers
    names.json                  names of the labelled training images (bank rows) and of the wild ones shown; of a frozen
                                network ``pool``: all wild images
    evidence.safetensors        scores of validation and wild images, features of some wild ones: for the report; digests of
                                all images: for a fit that starts from these weights (`training_history`)
    pictures.safetensors        thumbnails
    log.json                    losses and rates during training, a row every few steps
"""

from typing import Any

import torch
from torch import Tensor, nn

from wildspec.bundle.gallery import Gallery
from wildspec.bundle.store import Stored
from wildspec.data import Preprocess
from wildspec.decision.decision import Decision
from wildspec.decision.learned_state import learned_state, restore_learned
from wildspec.decision.verdicts import LabelledBank
from wildspec.detectors import Detector, restore_detector
from wildspec.errors import CheckpointError, WildspecError, kind_and_line
from wildspec.images.fitted import Aside, Fitted
from wildspec.images.frozen_decision import FrozenDecision
from wildspec.images.frozen_network import restore_encoder
from wildspec.models.backbones import rebuild

WEIGHTS, BANK, RULE = "weights.safetensors", "detector/bank.safetensors", "rule.safetensors"
NAMES, EVIDENCE, PICTURES, LOG = "names.json", "evidence.safetensors", "pictures.safetensors", "log.json"
HELD, HELD_LABELS, VALIDATION = "held", "held.labels", "validation"


def pack(fitted: Fitted) -> tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, Any]]:
    """(model.json, tensors by file, further JSON by file)."""
    pictures: dict[str, Tensor] = {}
    for name, gallery in fitted.pictures.items():
        pictures |= gallery.to_tensors(name)
    names: dict[str, Any] = {"labelled": fitted.bank.names, "wild": fitted.wild_names}
    files = {EVIDENCE: fitted.evidence, PICTURES: pictures}
    more: dict[str, Any] = {NAMES: names}
    if isinstance(fitted.decision, FrozenDecision):
        decision, arrays = _pack_rule(fitted.decision)
        if fitted.aside is not None:
            arrays |= {HELD: fitted.aside.calibration, VALIDATION: fitted.aside.validation}
            names["pool"] = fitted.aside.pool
            if fitted.aside.labels is not None:
                arrays[HELD_LABELS] = fitted.aside.labels
        files |= {WEIGHTS: fitted.weights or {}, RULE: arrays}
    else:
        decision, bank = _pack_detector(fitted.decision, fitted.bank)
        files |= {WEIGHTS: dict(fitted.model.state_dict()), BANK: bank}
        more[LOG] = fitted.log
    model = {
        "classes": list(fitted.classes), "preprocess": fitted.preprocess.to_json(), "network": fitted.network,
        **decision, **fitted.record,
    }  # fmt: skip
    return model, files, more


def unpack(stored: Stored, device: torch.device, backbone: nn.Module | None = None) -> Fitted:
    """The fitted parts in a verified bundle; content that does not fit together is a CheckpointError."""
    record = dict(stored.model)
    try:
        return _unpack(stored, record, device, backbone)
    except WildspecError:
        raise
    except Exception as error:  # of torch, of a detector, of a backbone's library: it is the bundle that does not fit
        line = kind_and_line(error)
        raise CheckpointError(f"bundle {stored.path} is refused: its parts do not fit together ({line})") from error


def _unpack(stored: Stored, record: dict[str, Any], device: torch.device, backbone: nn.Module | None) -> Fitted:
    classes = tuple(str(name) for name in record.pop("classes"))
    preprocess = Preprocess.from_json(record.pop("preprocess"))
    network, names, weights = record.pop("network"), stored.json(NAMES), stored.tensors(WEIGHTS)
    pictures = stored.tensors(PICTURES)
    galleries = {name: Gallery.from_tensors(pictures, name) for name in ("labelled", "wild")}
    shared: dict[str, Any] = {
        "network": network, "preprocess": preprocess, "classes": classes, "record": record, "pictures": galleries,
        "evidence": stored.tensors(EVIDENCE), "wild_names": list(names["wild"]),
    }  # fmt: skip
    if "frozen" in record:
        decision, bank, aside = _unpack_rule(record.pop("frozen"), stored.tensors(RULE), names)
        encoder = restore_encoder(network, weights, preprocess.mean, preprocess.std, preprocess.size, device, backbone)
        fitted = Fitted(encoder, decision=decision, bank=bank, weights=weights, aside=aside, **shared)
        fits = (decision.rule.n_classes, bank.features.shape[1]) == (len(classes), encoder.feature_dim)
    else:
        model = rebuild(network, backbone)
        model.load_state_dict(weights)
        found, bank = _unpack_detector(record, stored.tensors(BANK), names, device)
        model.to(device).to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]  # as it was trained
        log = stored.json(LOG) if LOG in stored else []  # none in bundles of 0.1
        fitted, fits = Fitted(model, decision=found, bank=bank, log=log, **shared), len(classes) == model.num_classes
    n = len(names["labelled"])
    if not fits or len(bank.features) != n or bank.labels.shape != (n,):
        raise ValueError(f"classes, or the bank: {len(bank.features)} features, {len(bank.labels)} labels, {n} names")
    if {"training", "data", "metrics", "provenance"} - set(record):
        raise ValueError("model.json is incomplete")
    return fitted


def _pack_rule(decision: FrozenDecision) -> tuple[dict[str, Any], dict[str, Any]]:
    """Entry of model.json, arrays of rule.safetensors."""
    arrays, record = learned_state(decision.rule, decision.thresholds, decision.temperature)
    return {"frozen": record}, dict(arrays)


def _unpack_rule(
    record: dict[str, Any], tensors: dict[str, Tensor], names: dict[str, Any]
) -> tuple[FrozenDecision, LabelledBank, Aside | None]:
    arrays = {name: value.numpy() for name, value in tensors.items()}
    rule, thresholds, temperature = restore_learned(arrays, record)
    if thresholds.calibration is None:
        raise ValueError("too few calibration scores for what is promised")
    aside = None
    if "pool" in names:
        aside = Aside(arrays[HELD], arrays[VALIDATION], list(names["pool"]), arrays.get(HELD_LABELS))
    bank = LabelledBank(torch.from_numpy(rule.labelled), rule.labels, list(names["labelled"]))
    return FrozenDecision(rule, thresholds, temperature), bank, aside


def _pack_detector(decision: Decision[Detector], bank: LabelledBank) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Entries of model.json, tensors of detector/bank.safetensors. The labelled bank is not stored twice: where a tensor of
    the detector begins with it, its name stands in ``bank_in_detector``."""
    record, learned = decision.to_state()
    tensors = {f"detector.{name}": value for name, value in learned.items()}
    tensors["labels"] = torch.from_numpy(bank.labels)
    labelled = bank.features
    same = (n for n, v in learned.items() if v.ndim == 2 and torch.equal(v[: len(labelled)].to(labelled), labelled))
    shared = next(same, None)
    if shared is None:
        tensors["features"] = labelled
    return {"decision": record, "bank_in_detector": shared}, tensors


def _unpack_detector(
    record: dict[str, Any], tensors: dict[str, Tensor], names: dict[str, Any], device: torch.device
) -> tuple[Decision[Detector], LabelledBank]:
    said, shared = record.pop("decision"), record.pop("bank_in_detector")
    learned = {k.removeprefix("detector."): v for k, v in tensors.items() if k.startswith("detector.")}
    detector = restore_detector(said["detector"], learned, device)
    if getattr(detector, "std", ()) is None:  # of 0.1: its step was in units of the network's input
        detector.std = (1.0, 1.0, 1.0)  # type: ignore[attr-defined]
    features = tensors["features"].to(device) if shared is None else getattr(detector, shared)
    bank = LabelledBank(features[: len(names["labelled"])], tensors["labels"].numpy(), list(names["labelled"]))
    return Decision.from_state(said, detector), bank
