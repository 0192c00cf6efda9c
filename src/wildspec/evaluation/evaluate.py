"""Everything in one call: features of each set once, fit the detectors on the training set, score, measure."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from wildspec.decision.calibration import Calibration, calibrate
from wildspec.detectors.base import Detector
from wildspec.detectors.knn import KNN
from wildspec.errors import InputError
from wildspec.evaluation.features import Images, Outputs, Preprocessing, collect, collect_and_score, fit_all, is_loader
from wildspec.evaluation.report import Evaluation, evaluate_scores


def evaluate(
    model: nn.Module,
    *,
    train: Images,
    id_test: Images,
    covariate_test: Images = None,
    semantic_test: Images = None,
    preprocess: Preprocessing = None,
    detector: Detector | None = None,
    calibration: Any = None,
    alpha: float = 0.05,
    batch_size: int = 512,
    device: torch.device | str | None = None,
    precision: str = "fp32",
) -> Evaluation:
    """One detector (default: KNN with k = 50, the paper's), fitted on ``train``, measured on the test sets.

    Image sets are those of ``wildspec.data``, pairs (images, labels), or loaders of batches (x, labels), which go into the
    network as they are when ``preprocess`` is None; semantic samples need no labels, and training samples only for
    detectors that use them.
    ``calibration``: held-out ID images, from which the threshold is calibrated to ``alpha``, or a ready `Calibration`;
    without it the decision is taken at the 95 % quantile of the ID test scores.
    """
    chosen = KNN(k=50) if detector is None else detector
    return evaluate_detectors(
        model, train=train, id_test=id_test, covariate_test=covariate_test, semantic_test=semantic_test,
        preprocess=preprocess, detectors={"only": chosen}, calibration=calibration, alpha=alpha,
        batch_size=batch_size, device=device, precision=precision,
    )["only"]  # fmt: skip


def evaluate_detectors(
    model: nn.Module,
    *,
    train: Images,
    id_test: Images,
    covariate_test: Images = None,
    semantic_test: Images = None,
    preprocess: Preprocessing = None,
    detectors: Mapping[str, Detector],
    calibration: Any = None,
    alpha: float = 0.05,
    batch_size: int = 512,
    device: torch.device | str | None = None,
    precision: str = "fp32",
) -> dict[str, Evaluation]:
    """The same for several detectors: each set goes through the network once, whatever their number."""
    if isinstance(calibration, Calibration) and len(detectors) > 1:
        raise InputError("a ready calibration belongs to one detector; give held-out ID images to calibrate several")
    settings: dict[str, Any] = {"batch_size": batch_size, "device": device, "precision": precision}
    if any(chosen.fit_needs for chosen in detectors.values()):
        with_labels = any("labels" in chosen.fit_needs for chosen in detectors.values())
        if with_labels and not is_loader(train):
            images_and_labels("train", train)  # missing ones are told before the pass over all images
        outputs = collect(model, _images(train), preprocess, **settings)
        labels = _labels("train", train, outputs) if with_labels else None
        fit_all(detectors, outputs, labels=labels, model=model)
        del outputs

    sets = {"id": id_test, "covariate": covariate_test, "semantic": semantic_test}
    if calibration is not None and not isinstance(calibration, Calibration):
        sets["calibration"] = calibration
    found = {
        name: _outputs_and_scores(model, name, images, detectors, preprocess, settings)
        for name, images in sets.items()
        if images is not None
    }

    results = {}
    for key in detectors:
        scores = {name: values[key] for name, (_, values) in found.items()}
        ready = calibration if isinstance(calibration, Calibration) else None
        if "calibration" in scores:
            ready = calibrate(scores["calibration"], alpha)
        shifted = found["covariate"][0] if "covariate" in found else None
        results[key] = evaluate_scores(
            id_scores=scores["id"],
            id_pred=found["id"][0].predictions,
            id_labels=_labels("id_test", id_test, found["id"][0]),
            covariate_scores=scores.get("covariate"),
            covariate_pred=None if shifted is None else shifted.predictions,
            covariate_labels=None if shifted is None else _labels("covariate_test", covariate_test, shifted),
            semantic_scores=scores.get("semantic"),
            threshold=None if ready is None else ready.threshold,
        )
    return results


def _outputs_and_scores(
    model: nn.Module,
    name: str,
    source: Images,
    detectors: Mapping[str, Detector],
    preprocess: Preprocessing,
    settings: dict[str, Any],
) -> tuple[Outputs, dict[str, Tensor]]:
    """Features, logits and the scores of detectors that need gradients to the input in one pass; the others from those."""
    by_gradient = {key: chosen for key, chosen in detectors.items() if "inputs" in chosen.score_needs}
    outputs, scored = collect_and_score(model, _images(source), by_gradient, preprocess=preprocess, **settings)
    scores = {
        key: chosen.score(features=outputs.features, logits=outputs.logits, model=model)
        for key, chosen in detectors.items()
        if key not in by_gradient
    }
    return outputs, {**scores, **scored}


def _images(source: Images) -> Images:
    return source[0] if isinstance(source, tuple) else source


def _labels(name: str, source: Images, outputs: Outputs) -> Tensor:
    """(n,) labels that came with the batches, or with the set."""
    if not is_loader(source):
        return images_and_labels(name, source)[1]
    if outputs.labels is None:
        raise InputError(f"{name} needs labels: its loader must give (images, labels)")
    return outputs.labels


def images_and_labels(name: str, source: Images) -> tuple[Images, Tensor]:
    """An image set with ``labels``, or a pair (images, labels) -> images, (n,) labels."""
    images = _images(source)
    labels = source[1] if isinstance(source, tuple) else getattr(source, "labels", None)
    if labels is None:
        raise InputError(f"{name} needs labels: give an image set of wildspec.data or a pair (images, labels)")
    labels = torch.as_tensor(labels)
    if labels.shape != (len(images),):
        raise InputError(f"{name} has {len(images)} images but labels of shape {tuple(labels.shape)}")
    return images, labels
