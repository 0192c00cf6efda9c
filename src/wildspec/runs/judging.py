"""One trained network, several detectors: each set goes through the network once, each detector is fitted, calibrated and
measured on its own; one that cannot be used with this network and data says why and leaves the others alone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wildspec.detectors import Detector, build_detector
from wildspec.detectors.knn import usual_k
from wildspec.errors import InputError, WildspecError
from wildspec.evaluation import (
    Evaluation,
    Outputs,
    calibrate_detector,
    collect,
    evaluate_scores,
    fit_detector,
    score_all,
)  # fmt: skip
from wildspec.methods import METHODS
from wildspec.runs.folder import Run
from wildspec.runs.task import Images, Task


@dataclass(frozen=True)
class Judgement:
    """One detector: its parameters and its evaluation, or why there is none."""

    detector: str
    config: dict[str, Any]
    evaluation: Evaluation | None
    refused: str | None = None

    def to_json(self) -> dict[str, Any]:
        found = None if self.evaluation is None else self.evaluation.to_json()
        return {"detector": self.detector, "config": self.config, "refused": self.refused, "evaluation": found}


def parse_detector(text: str) -> tuple[str, dict[str, Any]]:
    """"knn" or "knn:k=20" or "ash:variant=b:percentile=90" -> name and arguments."""
    name, *given = text.split(":")
    arguments: dict[str, Any] = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise InputError(f"--detector takes NAME or NAME:KEY=VALUE, e.g. knn:k=20; got {text!r}")
        try:
            arguments[key] = json.loads(value)
        except json.JSONDecodeError:
            arguments[key] = value
    return name, arguments


def make_detector(text: str, labels: Tensor) -> Detector:
    """A detector as asked for; KNN without k takes `usual_k`."""
    name, arguments = parse_detector(text)
    if name == "knn" and "k" not in arguments:
        arguments["k"] = usual_k(labels)
    return build_detector(name, **arguments)


def judge(
    run: Run, task: Task, detectors: Sequence[str] = (), *, alpha: float = 0.05, device: torch.device | str | None = None
) -> list[Judgement]:
    """Measure; the first of the answers is the method's own detector where none is named.

    The threshold is calibrated on the task's calibration images. Where there is no ID test set they stand in for it, and the
    threshold is the 95 % quantile of their own scores.
    """
    names = detectors or (METHODS[run.method].default_detector,)
    chosen = {text: make_detector(text, task.labelled.labels) for text in names}
    wild = task.wild.pool if task.wild is not None and any(one.uses_wild for one in chosen.values()) else None
    sets: dict[str, Any] = {
        "train": task.labelled, "wild": wild, "calibration": task.calibration if task.id_test is not None else None,
        "id": task.calibration if task.id_test is None else task.id_test,
        "covariate": task.covariate_test, "semantic": task.semantic_test,
    }  # fmt: skip
    seen = {
        name: (images, collect(run.model, images, run.preprocess, device=device))
        for name, images in sets.items()
        if images is not None
    }
    return [_judge(text, detector, run, seen, alpha, device) for text, detector in chosen.items()]


def _judge(
    text: str, detector: Detector, run: Run, seen: Mapping[str, tuple[Images, Outputs]], alpha: float, device: Any
) -> Judgement:
    try:
        images, outputs = seen["train"]
        wild = seen["wild"][1] if "wild" in seen else None
        fit_detector(detector, outputs, images.labels, wild, model=run.model)
        test = {name: pair for name, pair in seen.items() if name not in ("train", "wild")}
        scores = {name: _scores(detector, run, *pair, device) for name, pair in test.items()}
        threshold = None
        if "calibration" in scores:
            held_out = seen["calibration"][1]
            threshold = calibrate_detector(
                detector, scores["calibration"], alpha, labelled=outputs, held_out=held_out, wild=wild
            ).threshold
        covariate = seen.get("covariate")
        found = evaluate_scores(
            id_scores=scores["id"], id_pred=seen["id"][1].predictions, id_labels=seen["id"][0].labels,
            covariate_scores=scores.get("covariate"),
            covariate_pred=None if covariate is None else covariate[1].predictions,
            covariate_labels=None if covariate is None else covariate[0].labels,
            semantic_scores=scores.get("semantic"), threshold=threshold,
        )  # fmt: skip
    except WildspecError as error:
        return Judgement(text, detector.config(), None, " ".join(str(error).split()))
    return Judgement(text, detector.config(), found)


def _scores(detector: Detector, run: Run, images: Images, outputs: Outputs, device: Any) -> Tensor:
    if "inputs" in detector.score_needs:  # a gradient to the input: its own pass
        return score_all(run.model, images, {"one": detector}, preprocess=run.preprocess, device=device)["one"]
    return detector.score(features=outputs.features, logits=outputs.logits, model=run.model)
