"""A model that decides by itself, `WildClassifier` or `SpectralClassifier`, measured as it is: nothing is fitted."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from wildspec.errors import InputError
from wildspec.evaluation.report import Evaluation, evaluate_scores

BLOCK = 512  # images decided together


@dataclass(frozen=True)
class Answers:
    """(n,) each: ``score`` high = OOD, ``rejected`` by the model's own threshold, ``likely`` the place of the most likely
    class in ``classes_``, ``labels`` the place of the true one (None: not known)."""

    score: np.ndarray
    rejected: np.ndarray
    likely: np.ndarray
    labels: np.ndarray | None


def decides_by_itself(model: Any) -> bool:
    """A fitted model, or one that could be: not a network."""
    return hasattr(model, "ood_score") and hasattr(model, "predict_proba")


def evaluate_own(model: Any, *, id: Any, covariate: Any = None, semantic: Any = None) -> Evaluation:
    """Every metric of the model's own decision. Known sets are image sets with labels, or pairs (samples, labels): names of
    ``classes_`` or their places in it."""
    if not hasattr(model, "classes_"):
        raise InputError(f"this {type(model).__name__} is not fitted; call fit first")
    known = answers(model, id, "id")
    shifted = None if covariate is None else answers(model, covariate, "covariate")
    unknown = None if semantic is None else answers(model, semantic)
    return evaluate_answers(known, shifted, unknown, finite(model.threshold_))


def finite(threshold: float) -> float:
    """The threshold, or, where nothing is rejected and it is infinite, the largest number: JSON has no infinity."""
    return min(float(threshold), sys.float_info.max)


def evaluate_answers(
    known: Answers, shifted: Answers | None, unknown: Answers | None, threshold: float
) -> Evaluation:
    """The same from answers; ``threshold`` is what the model says, its decisions are taken as they are."""
    return evaluate_scores(
        id_scores=known.score, id_pred=known.likely, id_labels=known.labels, id_rejected=known.rejected,
        covariate_scores=None if shifted is None else shifted.score,
        covariate_pred=None if shifted is None else shifted.likely,
        covariate_labels=None if shifted is None else shifted.labels,
        covariate_rejected=None if shifted is None else shifted.rejected,
        semantic_scores=None if unknown is None else unknown.score,
        semantic_rejected=None if unknown is None else unknown.rejected,
        threshold=threshold,
    )  # fmt: skip


def answers(model: Any, source: Any, name: str | None = None) -> Answers:
    """What the model says about a set. ``name``: of a set whose labels must be known; None: they are not looked at."""
    samples = source[0] if isinstance(source, tuple) else source
    labels = None if name is None else _places(model, source, name)
    if hasattr(model, "decide"):  # images: everything from one pass
        blocks = [model.decide(_pixels(samples, i)) for i in range(0, len(samples), BLOCK)]
        score, rejected, likely = (
            np.concatenate([getattr(block, what) for block in blocks]) for what in ("score", "rejected", "likely")
        )
    else:
        known = set(model.classes_.tolist())
        score, likely = np.asarray(model.ood_score(samples)), np.asarray(model.predict_proba(samples)).argmax(axis=1)
        rejected = np.array([value not in known for value in np.asarray(model.predict(samples)).tolist()], dtype=bool)
    if labels is not None and len(labels) != len(score):
        raise InputError(f"{name} has {len(score)} samples and {len(labels)} labels; give one for each")
    return Answers(score, rejected, likely, labels)


def _pixels(images: Any, first: int) -> torch.Tensor:
    rows = slice(first, min(first + BLOCK, len(images)))
    if hasattr(images, "gather") and not isinstance(images, torch.Tensor):
        return images.gather(torch.arange(rows.start, rows.stop))
    return torch.as_tensor(images[rows])


def _places(model: Any, source: Any, name: str) -> np.ndarray:
    """(n,) true classes as places in ``classes_``."""
    labels = source[1] if isinstance(source, tuple) else getattr(source, "labels", None)
    if labels is None:
        raise InputError(f"{name} needs labels: give an image set of wildspec.data or a pair (samples, labels)")
    values = np.asarray(labels.cpu() if isinstance(labels, torch.Tensor) else labels)
    if values.ndim != 1:
        raise InputError(f"the labels of {name} must be one for each sample, got shape {values.shape}")
    classes = model.classes_.tolist()
    if not isinstance(source, tuple):  # an image set numbers its own classes
        values = np.array([source.classes[i] for i in _class_numbers(values, len(source.classes), name).tolist()])
    elif values.dtype.kind in "iu" and isinstance(classes[0], str):
        return _class_numbers(values, len(classes), name)
    place = {value: number for number, value in enumerate(classes)}
    strange = [value for value in values.tolist() if value not in place]
    if strange:
        raise InputError(f"{name} has the class {strange[0]!r}, which the model does not know{_known(classes)}")
    return np.array([place[value] for value in values.tolist()], dtype=np.int64)


def _class_numbers(values: np.ndarray, count: int, name: str) -> np.ndarray:
    """(n,) whole numbers, each the place of one of ``count`` classes: -1 would stand for the last of them."""
    if (values < 0).any():
        raise InputError(f"{name}_labels hold {int((values < 0).sum())} unlabelled samples (-1); accuracy needs every label")
    if len(values) and values.max() >= count:
        raise InputError(
            f"{name} has the class number {values.max()}, but there are {count} classes, numbered from 0; check the labels"
        )
    return values.astype(np.int64)


def _known(classes: Sequence[Any]) -> str:
    return f"; it knows {', '.join(map(str, classes[:5]))}{' and more' if len(classes) > 5 else ''}; give others as semantic"
