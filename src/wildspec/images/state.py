"""An image model to and from the parts of a bundle.

    model.json                  classes, preprocessing, network, decision (thresholds, calibration), training, data,
                                metrics, provenance
    weights.safetensors         the network
    detector/bank.safetensors   what the detector learned, and the labelled samples in feature space
    names.json                  names of the labelled training images (bank rows) and of the wild ones shown
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
from wildspec.decision.verdicts import LabelledBank
from wildspec.detectors import restore_detector
from wildspec.errors import CheckpointError, WildspecError
from wildspec.images.fit import Fitted
from wildspec.models.backbones import rebuild

WEIGHTS, BANK = "weights.safetensors", "detector/bank.safetensors"
NAMES, EVIDENCE, PICTURES, LOG = "names.json", "evidence.safetensors", "pictures.safetensors", "log.json"


def pack(fitted: Fitted) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]], dict[str, Any]]:
    """(model.json, tensors by file, further JSON by file)."""
    decision, tensors = fitted.decision.to_state()
    bank = {f"detector.{name}": value for name, value in tensors.items()}
    bank["labels"] = torch.from_numpy(fitted.bank.labels)
    shared = _shared_bank(fitted)
    if shared is None:
        bank["features"] = fitted.bank.features
    model = {
        "classes": list(fitted.classes),
        "preprocess": fitted.preprocess.to_json(),
        "network": fitted.network,
        "decision": decision,
        "bank_in_detector": shared,
        **fitted.record,
    }
    pictures: dict[str, Tensor] = {}
    for name, gallery in fitted.pictures.items():
        pictures |= gallery.to_tensors(name)
    files = {WEIGHTS: dict(fitted.model.state_dict()), BANK: bank, EVIDENCE: fitted.evidence, PICTURES: pictures}
    return model, files, {NAMES: {"labelled": fitted.bank.names, "wild": fitted.wild_names}, LOG: fitted.log}


def unpack(stored: Stored, device: torch.device, backbone: nn.Module | None = None) -> Fitted:
    """The fitted parts in a verified bundle; content that does not fit together is a CheckpointError."""
    record = dict(stored.model)
    try:
        classes = tuple(str(name) for name in record.pop("classes"))
        preprocess = Preprocess.from_json(record.pop("preprocess"))
        network, decision_record = record.pop("network"), record.pop("decision")
        shared = record.pop("bank_in_detector")
        model = rebuild(network, backbone)
        model.load_state_dict(stored.tensors(WEIGHTS))
        tensors = stored.tensors(BANK)
        learned = {k.removeprefix("detector."): v for k, v in tensors.items() if k.startswith("detector.")}
        detector = restore_detector(decision_record["detector"], learned, device)
        if getattr(detector, "std", ()) is None:  # of 0.1: its step was in units of the network's input
            detector.std = (1.0, 1.0, 1.0)  # type: ignore[attr-defined]
        decision = Decision.from_state(decision_record, detector)
        names = stored.json(NAMES)
        features = tensors["features"].to(device) if shared is None else getattr(detector, shared)
        n = len(names["labelled"])
        bank = LabelledBank(features[:n], tensors["labels"].numpy(), list(names["labelled"]))
        pictures = stored.tensors(PICTURES)
        galleries = {name: Gallery.from_tensors(pictures, name) for name in ("labelled", "wild")}
        if len(bank.features) != n or bank.labels.shape != (n,):
            raise ValueError(f"the bank has {len(bank.features)} features, {len(bank.labels)} labels, {n} names")
        if len(classes) != model.num_classes or {"training", "data", "metrics", "provenance"} - set(record):
            raise ValueError("model.json is incomplete")
    except WildspecError:
        raise
    except Exception as error:  # of torch, of a detector, of a backbone's library: it is the bundle that does not fit
        line = " ".join(f"{type(error).__name__}: {error}".split())
        raise CheckpointError(f"bundle {stored.path} is refused: its parts do not fit together ({line[:200]})") from error
    model.to(device).to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]  # as it was trained
    evidence, log = stored.tensors(EVIDENCE), stored.json(LOG) if LOG in stored else []  # none in bundles of 0.1
    return Fitted(
        model, network, preprocess, classes, decision, bank, record, evidence, list(names["wild"]), galleries, log
    )


def _shared_bank(fitted: Fitted) -> str | None:
    """The detector's own tensor that begins with the labelled bank, so that it is not stored twice; else None."""
    bank = fitted.bank.features
    for name in fitted.decision.detector.state_names:
        value = getattr(fitted.decision.detector, name)
        if value.ndim == 2 and torch.equal(value[: len(bank)], bank):
            return name
    return None
