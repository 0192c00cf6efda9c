"""Test sets for an image model: read at its size, numbered by its classes, without images it learned from."""

import warnings
from typing import Any

import numpy as np

from wildspec.data import ImageArrays
from wildspec.decision.class_rates import ClassRate, class_rates
from wildspec.errors import InputError
from wildspec.evaluation import Evaluation
from wildspec.evaluation.own_decision import Answers, answers, evaluate_answers
from wildspec.images.data_spec import DataSpec, open_data
from wildspec.images.decided import stored_rates
from wildspec.images.reading import Images, open_images, read, read_known
from wildspec.images.training_history import TAUGHT, TrainingHistory, pixel_digests

WORDS = {"id": "test", "covariate": "covariate"}


def open_tests(model: Any, given: dict[str, str | None]) -> dict[str, Images]:
    """``given``: id, covariate and semantic -> path or None; the built-in digits task brings those that are not given."""
    fitted = model.fitted_
    size, classes = fitted.preprocess.size, fitted.classes
    tests: dict[str, Images] = {}
    source = fitted.record["data"].get("source")
    if source is not None and source["kind"] == "digits":
        tests |= open_data(DataSpec.from_json(source)).tests
    for name, path in given.items():
        if path is None:
            continue
        if name == "semantic":
            tests[name] = read(open_images(path, labelled=False), size)
        else:
            tests[name] = without_taught(read_known(path, size, classes), fitted.evidence, WORDS[name])
    return tests


def without_taught(images: Images, evidence: dict[str, Any], title: str) -> Images:
    """The images that the model was not taught with a label; a warning says how many were, pixel for pixel."""
    digests = pixel_digests(images)
    if digests is None or not isinstance(images, ImageArrays):
        return images
    known = TrainingHistory.from_tensors(evidence).by_size.get(images.image_size[0], {})
    taught = np.array([known.get(digest) == TAUGHT for digest in digests], dtype=bool)
    if taught.all():
        raise InputError(f"the model learned from all {len(images):,} images given as {title}; give images it has not seen")
    if taught.any():
        warnings.warn(
            f"{int(taught.sum()):,} of the {len(images):,} images given as {title} are left out: the model learned from "
            "them",
            stacklevel=2,
        )
        return images.subset(np.flatnonzero(~taught))
    return images


def held_out_answers(model: Any, *, covariate: Images | None = None, semantic: Images | None = None) -> Evaluation:
    """The model's own decision, with the labelled images that were held out in its training as the known ones."""
    evidence = model.fitted_.evidence
    score, rejected, likely, labels = (
        evidence[f"validation.{name}"].numpy() for name in ("score", "rejected", "likely", "label")
    )
    shifted = None if covariate is None else answers(model, covariate, "covariate")
    unknown = None if semantic is None else answers(model, semantic)
    return evaluate_answers(Answers(score, rejected, likely, labels), shifted, unknown, float(model.threshold_))


def held_out_class_rates(model: Any) -> list[ClassRate]:
    """How often each class is rejected among the labelled images that were held out."""
    if rates := stored_rates(model.metrics_):
        return rates
    evidence = model.fitted_.evidence  # a bundle of an earlier version knows of the validation part alone
    return class_rates(
        evidence["validation.label"].numpy(), evidence["validation.rejected"].numpy(), model.fitted_.classes
    )
