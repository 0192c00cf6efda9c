"""From two sets of images to a fitted model: read, split, train, decide, measure. Every step leaves a record."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wildspec.bundle.gallery import Gallery
from wildspec.data import ImageArrays, Preprocess, Split, StreamingImages, WildPool, fraction_split, load_images
from wildspec.data.source import ImageSource
from wildspec.detectors.knn import normalize
from wildspec.errors import InputError
from wildspec.estimators.backbones import choose_size, load_init, make_network, preprocess_for
from wildspec.estimators.decision import Decision, Seen, learn_decision
from wildspec.estimators.recipe import ENOUGH, affordable, cpu_precision, measure, short_runs, steps_of, suit_data, suit_time
from wildspec.estimators.verdicts import Bank
from wildspec.evaluation.calibration import samples_needed
from wildspec.methods import Method, build_method
from wildspec.methods.base import Stage
from wildspec.models import Classifier
from wildspec.provenance import environment
from wildspec.training import Settings, TrainData, resolve_device, train

IN_MEMORY_BYTES = 2 << 30  # more pixels than this are read from disk as they are needed
CPU_MINUTES = 10.0  # without epochs= or minutes=, a CPU is given no more
MOST_IN_CALIBRATION = 0.5  # of the labelled images
PICTURES = {"labelled": 4000, "wild": 600}
SCORES = {"pu": "energy"}  # the score a method trains to be high on what is unlike the labelled images
SHOWN = 60  # most surely rejected, and borderline, wild images that always keep a picture
Images = ImageArrays | StreamingImages


@dataclass(frozen=True)
class Options:
    """How to fit; the constructor arguments of `WildClassifier`, checked there."""

    backbone: Any
    method: str
    hparams: dict[str, Any]
    preset: str
    epochs: float | None
    minutes: float | None
    detector: Any
    alpha: float
    size: int | None
    held_out: float
    init: Any
    flip: bool
    pictures: bool
    cache: Any
    max_unreadable: float
    device: str
    seed: int
    progress: bool
    chosen: bool = False  # the method was not asked for by name: cross-entropy may take its place where time is short


@dataclass
class Fitted:
    """Everything a fit leaves: what is needed to decide, and the evidence for the report."""

    model: Classifier
    network: dict[str, Any]
    preprocess: Preprocess
    classes: tuple[str, ...]
    decision: Decision
    bank: Bank
    record: dict[str, Any]
    evidence: dict[str, Tensor]
    wild_names: list[str]
    pictures: dict[str, Gallery]


def fit_images(
    labelled_source: ImageSource, wild_source: ImageSource | None, options: Options, say: Callable[[str], None]
) -> Fitted:
    """Read, split, train, decide, measure."""
    began = time.monotonic()
    device = resolve_device(options.device)
    size = options.size or choose_size(labelled_source, device)
    labelled = _read(labelled_source, size, options)
    wild = None if wild_source is None else _read(wild_source, size, options)
    split = split_labelled(labelled, options.held_out, options.alpha, options.seed)
    counts = {name: len(split[name]) for name in split.members}
    say(
        f"read {len(labelled):,} labelled images of {len(labelled.classes)} classes ({counts['train']:,} to learn from, "
        f"{counts['validation']:,} for validation, {counts['calibration']:,} for calibration) and "
        f"{len(wild) if wild else 0:,} wild ones at {size} px"
    )
    classes = len(labelled.classes)
    model, network = make_network(options.backbone, classes, size, device, options.seed, options.method)
    if options.init is not None:
        load_init(model, options.init)
    learn_from = labelled.subset(split["train"])
    preprocess = preprocess_for(network, learn_from, pretrained=options.init is not None)
    method = build_method(options.method, classes, **options.hparams)
    # Without a wild pool the labelled images, labels hidden, stand in for it: the graph then knows no unknown class.
    pool = WildPool(wild if wild is not None else learn_from)
    data = TrainData(learn_from, pool, labelled.subset(split["validation"]), preprocess=preprocess)
    model, network, training = _train(model, network, method, data, options, device, began, say, wild is not None)
    trained = SCORES.get(training["method"])
    decision, bank, metrics, evidence, wild_seen = _decide(
        model, preprocess, labelled, split, wild, options, device, trained
    )
    shown = rows_to_show(evidence["wild.score"].numpy(), decision.threshold, options.seed) if wild_seen else np.empty(0, int)
    pictures = {"labelled": Gallery.empty(), "wild": Gallery.empty()}
    if options.pictures:
        some = np.random.default_rng(options.seed).permutation(len(bank.names))[: PICTURES["labelled"]]
        pictures["labelled"] = Gallery.make(labelled_source, learn_from.kept, some.tolist())
    if options.pictures and wild is not None and wild_source is not None:
        pictures["wild"] = Gallery.make(wild_source, wild.kept, shown.tolist())
    if wild_seen is not None:
        evidence["wild.rows"] = torch.from_numpy(shown)
        evidence["wild.features"] = wild_seen.outputs.features.cpu()[torch.from_numpy(shown)]
    record = {
        "training": training,
        "data": {
            "labelled": {**_source_record(labelled), "split": split.to_json(),
                         "per_class": dict(zip(labelled.classes, _per_class(labelled), strict=True))},
            "wild": None if wild is None else _source_record(wild),
        },
        "metrics": metrics,
        "provenance": {**environment(), "seconds": round(time.monotonic() - began, 2), "device": device.type},
    }  # fmt: skip
    names = [] if wild is None else [wild.names[i] for i in shown.tolist()]
    return Fitted(
        model, network, preprocess, tuple(labelled.classes), decision, bank, record, evidence, names, pictures
    )


def split_labelled(images: Images, held_out: float, alpha: float, seed: int) -> Split:
    """``train``, ``validation`` and ``calibration``, stratified; the last two share ``held_out``.

    Calibration gets as many as alpha needs at least: out of a small set a larger part.
    """
    labels = images.labels.cpu().numpy()
    n, needed = len(images), samples_needed(alpha)
    share = max(held_out / 2, (needed + 1) / n)
    while share <= MOST_IN_CALIBRATION:
        parts = {"train": 1 - share - held_out / 2, "validation": held_out / 2, "calibration": share}
        split = fraction_split(n, parts, seed, labels=labels, ids=images.names)
        if len(split["calibration"]) >= needed and len(split["validation"]):
            return split
        share *= 1.1
    raise InputError(
        f"a threshold with alpha = {alpha:g} needs {needed} labelled images held out for calibration, about half of "
        f"the {n} there are; add labelled images or allow more false alarms (alpha)"
    )


def rows_to_show(scores: np.ndarray, threshold: float, seed: int) -> np.ndarray:
    """Wild samples to keep pictures and features of: the most surely rejected, the borderline ones, and a random rest."""
    n = len(scores)
    chosen = set(np.argsort(-scores, kind="stable")[:SHOWN].tolist())
    chosen |= set(np.argsort(np.abs(scores - threshold), kind="stable")[:SHOWN].tolist())
    for row in np.random.default_rng(seed).permutation(n).tolist():
        if len(chosen) >= min(n, PICTURES["wild"]):
            break
        chosen.add(row)
    return np.array(sorted(chosen), dtype=np.int64)


def _read(source: ImageSource, size: int, options: Options) -> Images:
    """All images in memory, or from disk when they are too many."""
    if len(source) * 3 * size * size <= IN_MEMORY_BYTES:
        return load_images(source, size, max_unreadable=options.max_unreadable)
    return StreamingImages(source, size, cache=options.cache, max_unreadable=options.max_unreadable)


def _train(
    model: Classifier, network: dict[str, Any], method: Method, data: TrainData, options: Options, device: torch.device,
    began: float, say: Callable[[str], None], wild: bool,
) -> tuple[Classifier, dict[str, Any], dict[str, Any]]:  # fmt: skip
    """Train within the time; returns the network with its record, and the record of what was done."""
    labelled, size = len(data.labelled), data.labelled.image_size[0]
    assert data.wild is not None
    pool = len(data.wild)
    stages, precision = method.stages(options.preset), "auto"
    if device.type == "cpu" and options.preset == "fast":
        stages, precision = short_runs(stages), cpu_precision()
    settings = Settings(seed=options.seed, device=str(device), precision=precision, progress=options.progress)
    stages = suit_data(stages, labelled, pool, size, device, epochs=options.epochs, flip=options.flip)
    minutes = options.minutes
    on_time = minutes is not None or (options.epochs is None and device.type == "cpu")
    if on_time:
        until = began + (CPU_MINUTES if minutes is None else minutes) * 60
        speed = measure(model, method, data, stages, settings)
        part = affordable(stages, labelled, speed, until - time.monotonic())
        if options.chosen and not options.hparams and part < ENOUGH and device.type == "cpu":
            insisting, method = method.name, build_method("pu" if wild else "erm", data.num_classes)
            say(
                f"the time allows {max(0.0, part):.0%} of the recipe of {insisting}, too little for it to pay: training "
                f"{method.name} instead, {method.summary}; --method {insisting} insists, more --minutes or a GPU allow it"
            )
            if isinstance(options.backbone, str) and options.backbone == "auto" and options.init is None:
                model, network = make_network("auto", data.num_classes, size, device, options.seed, method.name)
            stages = suit_data(method.stages(options.preset), labelled, pool, size, device, flip=options.flip)
            speed = measure(model, method, data, stages, settings)
        limit = until - time.monotonic()
        stages = suit_time(stages, labelled, speed, limit, most=1.0 if minutes is None else None)
    lengths = ", ".join(f"{s.name} {s.epochs:.3g} epochs ({steps_of(s, labelled):,} steps)" for s in stages)
    say(f"training {method.name}: {lengths}")
    result = train(model, method, data, settings, stages=stages)
    return model, network, {
        "method": method.name, "hparams": options.hparams, "preset": options.preset, "minutes": minutes,
        "stages": [_stage_record(stage, labelled) for stage in stages],
        "seconds": round(result.seconds, 2), "views": result.views, "seed": options.seed, "precision": precision,
    }  # fmt: skip


def _decide(
    model: Classifier, preprocess: Preprocess, labelled: Images, split: Split, wild: Images | None, options: Options,
    device: torch.device, trained: str | None,
) -> tuple[Decision, Bank, dict[str, Any], dict[str, Tensor], Seen | None]:
    """One pass over every image: decision, bank, metrics on the validation part, evidence for the report."""
    parts = {name: labelled.subset(split[name]) for name in ("train", "validation", "calibration")}
    seen = {name: Seen.through(model, part, preprocess, device) for name, part in parts.items()}
    wild_seen = None if wild is None else Seen.through(model, wild, preprocess, device)
    decision = learn_decision(
        seen["train"], parts["train"].labels, wild_seen, seen["calibration"],
        detector=options.detector, alpha=options.alpha, trained=trained,
    )  # fmt: skip
    bank = Bank(
        normalize(seen["train"].outputs.features), parts["train"].labels.cpu().numpy(), list(parts["train"].names)
    )
    evidence = {"validation.label": parts["validation"].labels.cpu()}
    for name, part in (("validation", seen["validation"]), ("wild", wild_seen)):
        if part is not None:
            judged = decision.judge(part)
            evidence |= {
                f"{name}.score": torch.from_numpy(judged.score),
                f"{name}.rejected": torch.from_numpy(judged.rejected),
                f"{name}.p_value": torch.from_numpy(judged.p_value),
                f"{name}.likely": part.outputs.predictions.cpu(),
            }
    return decision, bank, _metrics(evidence, len(labelled.classes)), evidence, wild_seen


def _metrics(evidence: dict[str, Tensor], classes: int) -> dict[str, Any]:
    """What the held-out validation part says; and how much of the wild pool is rejected."""
    rejected, likely, label = (evidence[f"validation.{name}"] for name in ("rejected", "likely", "label"))
    kept, right = ~rejected, likely == label
    confusion = torch.zeros(classes, classes, dtype=torch.int64)
    confusion.index_put_((label[kept], likely[kept]), torch.ones(int(kept.sum()), dtype=torch.int64), accumulate=True)
    out: dict[str, Any] = {
        "validation": {
            "count": len(kept), "accuracy": float(right.double().mean()), "kept": float(kept.double().mean()),
            "accuracy_kept": float(right[kept].double().mean()) if kept.any() else None,
            "confusion_kept": confusion.tolist(),
        }
    }  # fmt: skip
    if "wild.rejected" in evidence:
        rejected = evidence["wild.rejected"]
        out["wild"] = {"count": len(rejected), "rejected": int(rejected.sum())}
    return out


def _stage_record(stage: Stage, labelled: int) -> dict[str, Any]:
    return {
        "name": stage.name, "epochs": round(stage.epochs, 3), "steps": steps_of(stage, labelled), "lr": stage.lr,
        "batch_labelled": stage.batch_labelled, "batch_wild": stage.batch_wild,
    }  # fmt: skip


def _source_record(images: Images) -> dict[str, Any]:
    """What was read: counts and the first unreadable items."""
    first = [{"name": item.name, "reason": item.reason} for item in images.unreadable[:10]]
    return {"count": len(images), "unreadable": len(images.unreadable), "unreadable_first": first}


def _per_class(images: Images) -> list[int]:
    return torch.bincount(images.labels.cpu(), minlength=len(images.classes)).tolist()
