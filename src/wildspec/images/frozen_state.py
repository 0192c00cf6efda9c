"""A model on a frozen network to and from the parts of a bundle.

    model.json                  classes, preprocessing, network, "frozen" (rule, thresholds, temperature), training, data,
                                metrics, provenance
    weights.safetensors         the network, ``backbone.NAME``: the bundle needs no package to be loaded
    rule.safetensors            rule and calibration scores; the wild pool and the images held out as rows of the
                                rule; what was learned from answers
    names.json                  as in every image model (`wildspec.images.state`), and ``pool``: all wild images
    evidence.safetensors, pictures.safetensors                  as in every image model
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wildspec.bundle.gallery import Gallery
from wildspec.bundle.store import Stored
from wildspec.data import Preprocess
from wildspec.decision.answers import AnsweredRule
from wildspec.decision.answers_state import answers_state, restore_answers
from wildspec.decision.rule import Rule
from wildspec.decision.rule_state import restore_rule, restore_thresholds, rule_state, thresholds_state
from wildspec.decision.verdicts import LabelledBank
from wildspec.errors import CheckpointError, WildspecError, one_line
from wildspec.images.frozen import Aside, FrozenFitted
from wildspec.images.frozen_decision import FrozenDecision
from wildspec.images.frozen_network import restore_encoder

WEIGHTS, RULE = "weights.safetensors", "rule.safetensors"
NAMES, EVIDENCE, PICTURES = "names.json", "evidence.safetensors", "pictures.safetensors"
HELD, HELD_LABELS, VALIDATION = "held", "held.labels", "validation"


def pack_frozen(fitted: FrozenFitted) -> tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, Any]]:
    """(model.json, tensors by file, further JSON by file)."""
    decision = fitted.decision
    answered = decision.rule if isinstance(decision.rule, AnsweredRule) else None
    rule, rule_record = rule_state(decision.rule.rule if isinstance(decision.rule, AnsweredRule) else decision.rule)
    held, threshold_record = thresholds_state(decision.thresholds)
    model = {
        "classes": list(fitted.classes), "preprocess": fitted.preprocess.to_json(), "network": fitted.network,
        "frozen": {"rule": rule_record, "thresholds": threshold_record, "temperature": decision.temperature},
        **fitted.record,
    }  # fmt: skip
    pictures: dict[str, Tensor] = {}
    for name, gallery in fitted.pictures.items():
        pictures |= gallery.to_tensors(name)
    arrays: dict[str, Any] = {**rule, **held}
    names: dict[str, Any] = {"labelled": fitted.bank.names, "wild": fitted.wild_names}
    if answered is not None:
        more, model["frozen"]["answers"] = answers_state(answered)
        arrays |= more
    if fitted.aside is not None:
        arrays |= {HELD: fitted.aside.calibration, VALIDATION: fitted.aside.validation}
        names["pool"] = fitted.aside.pool
        if fitted.aside.labels is not None:
            arrays[HELD_LABELS] = fitted.aside.labels
    files = {WEIGHTS: fitted.weights, RULE: arrays, EVIDENCE: fitted.evidence, PICTURES: pictures}
    return model, files, {NAMES: names}


def unpack_frozen(stored: Stored, device: torch.device, backbone: nn.Module | None = None) -> FrozenFitted:
    """The fitted parts in a verified bundle; content that does not fit together is a CheckpointError."""
    record = dict(stored.model)
    try:
        classes = tuple(str(name) for name in record.pop("classes"))
        preprocess = Preprocess.from_json(record.pop("preprocess"))
        network, frozen = record.pop("network"), record.pop("frozen")
        weights = stored.tensors(WEIGHTS)
        encoder = restore_encoder(
            network, weights, preprocess.mean, preprocess.std, preprocess.size, device, backbone
        )
        tensors = stored.tensors(RULE)
        arrays: dict[str, np.ndarray] = {name: value.numpy() for name, value in tensors.items()}
        rule: Rule | AnsweredRule = restore_rule(arrays, frozen["rule"])
        if isinstance(rule, Rule) and "answers" in frozen:
            rule = restore_answers(rule, arrays, frozen["answers"])
        thresholds = restore_thresholds(arrays, frozen["thresholds"])
        names = stored.json(NAMES)
        if rule.labelled.shape != (len(names["labelled"]), encoder.feature_dim) or rule.n_classes != len(classes):
            raise ValueError("rule, names and classes are not of one model")
        if thresholds.calibration is None or {"training", "data", "metrics", "provenance"} - set(record):
            raise ValueError("model.json is incomplete")
        aside = None
        if "pool" in names:
            aside = Aside(arrays[HELD], arrays[VALIDATION], list(names["pool"]), arrays.get(HELD_LABELS))
        pictures = stored.tensors(PICTURES)
        galleries = {name: Gallery.from_tensors(pictures, name) for name in ("labelled", "wild")}
        decision = FrozenDecision(rule, thresholds, float(frozen["temperature"]))
    except WildspecError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
        line = one_line(error)
        raise CheckpointError(f"bundle {stored.path} is refused: its parts do not fit together ({line[:200]})") from error
    bank = LabelledBank(torch.from_numpy(rule.labelled), rule.labels, list(names["labelled"]))
    return FrozenFitted(
        encoder, network, weights, preprocess, classes, decision, bank, record, stored.tensors(EVIDENCE),
        list(names["wild"]), galleries, aside,
    )  # fmt: skip
