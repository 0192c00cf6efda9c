"""Test sets for an image model: read at its size, numbered by its classes, without images it learned from."""

import warnings
from typing import Any

import numpy as np

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
            images = read_known(path, size, classes)
            rows, said = new_rows(taught_images(images, fitted.evidence), WORDS[name])
            tests[name] = images.subset(rows) if said else images
    return tests


def taught_images(images: Images, evidence: dict[str, Any]) -> np.ndarray:
    """(n,) which images the model was taught with a label, pixel for pixel."""
    known = TrainingHistory.from_tensors(evidence).by_size.get(images.image_size[0], {})
    return np.array([known.get(digest) == TAUGHT for digest in pixel_digests(images)], dtype=bool)


def new_rows(taught: np.ndarray, title: str, what: str = "images") -> tuple[np.ndarray, str]:
    """Rows of a test set that the model was not taught with, and a line about the others, which is a warning too."""
    count, of = int(taught.sum()), len(taught)
    if of and count == of:
        raise InputError(f"the model learned from all {of:,} {what} given as {title}; give {what} that fit has not seen")
    said = f"{count:,} of the {of:,} {what} given as {title} are left out: the model learned from them" if count else ""
    if said:
        warnings.warn(said, stacklevel=3)
    return np.flatnonzero(~taught), said


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
