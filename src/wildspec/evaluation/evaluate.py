"""The one judge: fit a detector, set its threshold, measure it. What fit, train, bench, demo and report say comes from here.

    decide              a detector and labelled, wild and held-out ID samples -> fitted and calibrated (`deciding`)
    evaluate_outputs    that decision on ID, covariate and semantic test samples -> `Evaluation`
    evaluate            both, from images: every set goes through the network once, and all detectors share its features

A model that decides by itself (`WildClassifier`, `SpectralClassifier`) is measured as it is: nothing is fitted.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn

from wildspec.decision.calibration import Calibration
from wildspec.detectors.base import Detector
from wildspec.detectors.choose import choose_detector
from wildspec.errors import InputError, WildspecError, one_line
from wildspec.evaluation.deciding import fit, set_threshold
from wildspec.evaluation.features import (
    Images,
    Outputs,
    Preprocessing,
    collect,
    images_and_labels,
    is_loader,
    with_pixel_scale,
)
from wildspec.evaluation.own_decision import decides_by_itself, evaluate_own
from wildspec.evaluation.report import Evaluation, evaluate_scores

GIVE = "give an image set of wildspec.data or a pair (images, labels)"


@dataclass(frozen=True, eq=False)
class Judgement:
    """One detector, fitted: its calibration (None without held-out samples) and its evaluation; or why there is none."""

    detector: Detector
    calibration: Calibration | None
    evaluation: Evaluation | None
    refused: str | None = None

    def to_json(self) -> dict[str, Any]:
        found = None if self.evaluation is None else self.evaluation.to_json()
        return {"config": self.detector.config(), "refused": self.refused, "evaluation": found}


def evaluate(
    model: Any,
    *,
    id: Images,
    train: Images = None,
    covariate: Images = None,
    semantic: Images = None,
    wild: Images = None,
    calibration: Any = None,
    detector: str | Detector | None = None,
    preprocess: Preprocessing = None,
    alpha: float = 0.05,
    **passing: Any,
) -> Evaluation:
    """What a network with one detector, or a fitted model, is worth on the test sets ``id``, ``covariate``, ``semantic``.

    ``model``: a network with ``.features`` and ``.head``; the detector (a name, "knn:k=20", a `Detector`; default: KNN, the
    paper's) is fitted on ``train``, and on ``wild`` where it uses wild samples. Or a fitted `WildClassifier` or
    `SpectralClassifier`: its own decision is measured, and only test sets are taken, as pairs (samples, labels) or image
    sets.
    Image sets are those of ``wildspec.data``, pairs (images, labels), loaders of batches (x, labels), which go into the
    network as they are when ``preprocess`` is None, or `Outputs` of an earlier pass. Semantic and wild samples need no
    labels, training samples only for detectors that use them.
    ``calibration``: held-out ID images, from which the threshold is calibrated to ``alpha``, or a ready `Calibration`;
    without it the decision is taken at the 95 % quantile of the ID test scores.
    ``passing``: batch_size, device, precision, as `collect` takes them.
    """
    if decides_by_itself(model):
        given = {"train": train, "wild": wild, "calibration": calibration, "detector": detector, "preprocess": preprocess}
        if extra := [*(name for name, value in given.items() if value is not None), *passing]:
            raise InputError(f"a fitted {type(model).__name__} brings its own decision; leave out {', '.join(extra)}")
        return evaluate_own(model, id=id, covariate=covariate, semantic=semantic)
    found = evaluate_detectors(
        model, id=id, train=train, covariate=covariate, semantic=semantic, wild=wild, calibration=calibration,
        detectors={"it": "knn" if detector is None else detector}, preprocess=preprocess, alpha=alpha, careful=False,
        **passing,
    )["it"].evaluation  # fmt: skip
    assert found is not None
    return found


def evaluate_detectors(
    model: nn.Module,
    *,
    id: Images,
    detectors: Mapping[str, str | Detector] | Iterable[str],
    train: Images = None,
    covariate: Images = None,
    semantic: Images = None,
    wild: Images = None,
    calibration: Any = None,
    preprocess: Preprocessing = None,
    alpha: float = 0.05,
    careful: bool = True,
    **passing: Any,
) -> dict[str, Judgement]:
    """`evaluate` for several detectors of one network, from one pass over every set.

    ``detectors``: names, or name -> detector. A detector that cannot be used with this network or these data says why in
    `Judgement.refused` and leaves the others alone; with ``careful=False`` that is an error.
    """
    asked = detectors if isinstance(detectors, Mapping) else {name: name for name in detectors}
    if isinstance(calibration, Calibration) and len(asked) > 1:
        raise InputError("a ready calibration belongs to one detector; give held-out ID images to calibrate several")
    _check_labels(id=id, covariate=covariate)
    passed = {"preprocess": preprocess, **passing}

    chosen = {name: choose_detector(one) for name, one in asked.items()}  # what is no detector is told before the pass
    learned = _pass(model, train, passed) if any(one.fit_needs for one in chosen.values()) else None
    if learned is not None:  # k of KNN follows the labels, and a loader gives them in the pass
        chosen = {name: choose_detector(one, learned.labels) for name, one in asked.items()}
    pixels = id.preprocess if isinstance(id, Outputs) else preprocess
    chosen = {name: with_pixel_scale(one, pixels) for name, one in chosen.items()}
    pool = _pass(model, wild, passed) if wild is not None and any(one.uses_wild for one in chosen.values()) else None
    refused: dict[str, str] = {}
    for name, detector in chosen.items():
        with noted(name, refused, careful):
            fit(detector, learned, pool, model=model)
    fitted = {name: detector for name, detector in chosen.items() if name not in refused}
    held_out = None if calibration is None or isinstance(calibration, Calibration) else calibration
    known = _pass(model, id, passed, fitted.values())
    shifted, unknown, held = (
        None if images is None else _pass(model, images, passed, fitted.values())
        for images in (covariate, semantic, held_out)
    )
    found: dict[str, Judgement] = {}
    for name, detector in fitted.items():
        with noted(name, refused, careful):
            ready = calibration if held is None else set_threshold(detector, learned, pool, held, alpha)
            threshold = None if ready is None else ready.threshold
            measured = evaluate_outputs(detector, threshold, id=known, covariate=shifted, semantic=unknown)
            found[name] = Judgement(detector, ready, measured)
    return {
        name: found.get(name) or Judgement(detector, None, None, refused[name]) for name, detector in chosen.items()
    }


@contextmanager
def noted(name: str, refused: dict[str, str], careful: bool = True) -> Iterator[None]:
    """A detector that cannot be used leaves the others alone: its reason goes into ``refused``, on one line."""
    try:
        yield
    except WildspecError as error:
        if not careful:
            raise
        refused[name] = one_line(error)


def evaluate_outputs(
    detector: Detector, threshold: float | None, *, id: Outputs, covariate: Outputs | None = None,
    semantic: Outputs | None = None,
) -> Evaluation:  # fmt: skip
    """Every metric of a fitted detector; ``threshold`` None: the 95 % quantile of the ID test scores."""
    for name, seen in (("id", id), ("covariate", covariate)):
        if seen is not None and seen.labels is None:
            raise InputError(f"{name} needs labels: {GIVE}; a loader must give (images, labels)")
    return evaluate_scores(
        id_scores=id.score(detector),
        id_pred=id.predictions,
        id_labels=id.labels,
        covariate_scores=None if covariate is None else covariate.score(detector),
        covariate_pred=None if covariate is None else covariate.predictions,
        covariate_labels=None if covariate is None else covariate.labels,
        semantic_scores=None if semantic is None else semantic.score(detector),
        threshold=threshold,
    )


def _pass(model: nn.Module, source: Images, passed: dict[str, Any], detectors: Iterable[Detector] = ()) -> Outputs:
    """Through the network, unless somebody did that before."""
    if source is None:
        raise InputError("the detector learns from labelled samples; give train=")
    return source if isinstance(source, Outputs) else collect(model, source, detectors=detectors, **passed)


def _labels_of(source: Images) -> Any:
    return source.labels if isinstance(source, Outputs) else images_and_labels(source)[1]


def _check_labels(**sets: Images) -> None:
    """Missing labels are told before the pass over all images, as far as that can be known."""
    for name, source in sets.items():
        if source is not None and not is_loader(source) and _labels_of(source) is None:
            raise InputError(f"{name} needs labels: {GIVE}")
