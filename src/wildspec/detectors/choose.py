"""A detector as people ask for it: by name, by name with arguments, or as it is."""

import json
from typing import Any

from torch import Tensor

from wildspec.detectors.base import Detector, build_detector
from wildspec.detectors.knn import usual_k
from wildspec.errors import InputError, InputTypeError

PAPERS_K = 50


def choose_detector(asked: str | Detector, labels: Tensor | None = None) -> Detector:
    """A `Detector` stays itself; "energy", "knn:k=20" or "ash:variant=b:percent=90" builds one.

    KNN without k takes `usual_k` of the training samples' ``labels``; without labels, or where all are -1, the paper's 50.
    """
    if isinstance(asked, Detector):
        return asked
    if not isinstance(asked, str):
        raise InputTypeError(f"detector must be a name or a Detector, got {type(asked).__name__}")
    name, arguments = parse_detector(asked)
    if name == "knn" and "k" not in arguments:
        arguments["k"] = PAPERS_K if labels is None else usual_k(labels)
    return build_detector(name, **arguments)


def parse_detector(text: str) -> tuple[str, dict[str, Any]]:
    """"knn:k=20" -> ("knn", {"k": 20}); values are JSON where they can be, else text."""
    name, *given = text.split(":")
    arguments: dict[str, Any] = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise InputError(f"a detector is NAME or NAME:KEY=VALUE, e.g. knn:k=20; got {text!r}")
        try:
            arguments[key] = json.loads(value)
        except json.JSONDecodeError:
            arguments[key] = value
    return name, arguments
