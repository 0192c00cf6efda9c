"""From two sets of images to a fitted model: read, split, train, decide, measure. Every step leaves a record."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wildspec.bundle.gallery import Gallery
from wildspec.data import ImageArrays, Preprocess, Split, StreamingImages, WildPool, fraction_split, load_images
from wildspec.data.source import ImageSource
from wildspec.decision.calibration import samples_needed
from wildspec.decision.shares import FEWEST
from wildspec.decision.verdicts import Bank
from wildspec.errors import InputError
from wildspec.evaluation import Outputs, collect
from wildspec.graph.nearest import normalize
from wildspec.images.checks import classes_in_words, warn_of_darkness, without_labelled
from wildspec.images.decision import Decision, learn_decision
from wildspec.images.options import Options
from wildspec.images.sizing import choose_size, preprocess_for
from wildspec.images.train import CPU_MINUTES, Trainer
from wildspec.images.training_history import Schooling, hold_out_others, pixel_digests
from wildspec.methods import build_method
from wildspec.methods.spectral_plus import PHOTOGRAPHS
from wildspec.models import Classifier
from wildspec.models.backbones import check_backbone, make_network
from wildspec.models.initial_weights import check_init
from wildspec.provenance import environment
from wildspec.training import TrainData, resolve_device

IN_MEMORY_BYTES = 2 << 30  # more pixels than this are read from disk as they are needed
MOST_IN_CALIBRATION = 0.5  # of the labelled images
PICTURES = {"labelled": 4000, "wild": 600}
PICTURE_PROBE = 16  # pictures made first, to see how long one takes
PICTURE_SHARE = 0.1  # of the time left, for pictures of labelled images
SCORES = {"pu": "energy"}  # the score a method trains to be high on what is unlike the labelled images
SHOWN = 60  # most surely rejected, and borderline, wild images that always keep a picture
Images = ImageArrays | StreamingImages


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
    options = with_usual_hparams(options, device)
    check_backbone(options.backbone, options.method, weights=options.init is None)
    if options.init is not None:
        check_init(options.init)
    size = options.size or choose_size(labelled_source, device)
    labelled = _read(labelled_source, size, options)
    _check_classes(labelled)
    wild = None if wild_source is None else _read(wild_source, size, options)
    repeated: list[str] = []
    digests = pixel_digests(labelled)
    warn_of_darkness(labelled, "labelled")
    if wild is not None:
        warn_of_darkness(wild, "wild")
        wild, repeated = without_labelled(digests, wild)
    # with a wild pool the held-out images also say how much of it is like them, which takes more than a threshold may
    least = 1 if wild is None else FEWEST
    split = split_labelled(labelled, options.held_out, options.alpha, options.seed, least=least)
    schooling, known = Schooling.of(options.init), None
    if options.init is not None:
        split, known = hold_out_others(split, labelled, digests, labelled_source, options.init, schooling)
    counts = {name: len(split[name]) for name in split.members}
    say(
        f"read {len(labelled):,} labelled images of {len(labelled.classes)} classes ({counts['train']:,} to learn from, "
        f"{counts['validation']:,} for validation, {counts['calibration']:,} for calibration) and "
        f"{len(wild) if wild else 0:,} wild ones at {size} px"
    )
    say(classes_in_words(labelled.classes, _per_class(labelled)))
    if known == 0:
        say(f"none of the images held out taught the network in {options.init}")
    classes = len(labelled.classes)
    model, network = make_network(options.backbone, classes, size, device, options.seed, options.method, options.init)
    learn_from = labelled.subset(split["train"])
    preprocess = preprocess_for(network, learn_from, options.init)
    method = build_method(options.method, classes, **options.hparams)
    # Without a wild pool the labelled images, labels hidden, stand in for it: the graph then knows no unknown class.
    pool = WildPool(wild if wild is not None else learn_from)
    data = TrainData(learn_from, pool, labelled.subset(split["validation"]), preprocess=preprocess)
    until = _until(options, device, began)
    pictures, each = _labelled_pictures(labelled_source, learn_from, options, until)
    wild_count = 0 if wild is None else len(wild)
    trainer = Trainer(
        data, options, device, say, until=until, images=len(labelled) + wild_count,
        later=each * min(PICTURES["wild"], wild_count),
    )  # fmt: skip
    training = trainer.run(model, method)
    trained = SCORES.get(training["method"])
    decision, bank, metrics, evidence, wild_seen = _decide(
        model, preprocess, labelled, split, wild, options, device, trained
    )
    shown = rows_to_show(evidence["wild.score"].numpy(), decision.threshold, options.seed) if wild_seen else np.empty(0, int)
    if options.pictures and wild is not None and wild_source is not None:
        pictures["wild"] = Gallery.make(wild_source, wild.kept, shown.tolist())
    if wild_seen is not None:
        evidence["wild.rows"] = torch.from_numpy(shown)
        evidence["wild.features"] = wild_seen.features.cpu()[torch.from_numpy(shown)]
    if digests is not None:
        pool_digests = None if wild is None else pixel_digests(wild)
        evidence |= schooling.after(size, digests, split["train"], pool_digests or ()).to_tensors()
    record = {
        "training": training,
        "data": {
            "labelled": {**_source_record(labelled), "split": split.to_json(),
                         "per_class": dict(zip(labelled.classes, _per_class(labelled), strict=True)),
                         **({} if known is None else {"held_out_taught": known})},
            "wild": None if wild is None else {**_source_record(wild), "repeated": len(repeated),
                                               "repeated_first": repeated[:10]},
        },
        "metrics": metrics,
        "provenance": {**environment(), "seconds": round(time.monotonic() - began, 2), "device": device.type},
    }  # fmt: skip
    names = [] if wild is None else [wild.names[i] for i in shown.tolist()]
    return Fitted(
        model, network, preprocess, tuple(labelled.classes), decision, bank, record, evidence, names, pictures
    )


def with_usual_hparams(options: Options, device: torch.device) -> Options:
    """Where nobody chose any and a GPU trains spectral+ at full length: those that were measured on photographs."""
    full = options.method == "spectral+" and device.type == "cuda" and not options.hparams
    return replace(options, hparams=dict(PHOTOGRAPHS)) if full else options


def split_labelled(images: Images, held_out: float, alpha: float, seed: int, *, least: int = 1) -> Split:
    """``train``, ``validation`` and ``calibration``, stratified; the last two share ``held_out``.

    Calibration gets as many as alpha needs, and ``least``: out of a small set a larger part.
    """
    labels = images.labels.cpu().numpy()
    n, needed = len(images), max(samples_needed(alpha), least)
    share = max(held_out / 2, (needed + 1) / n)
    while share <= MOST_IN_CALIBRATION:
        parts = {"train": 1 - share - held_out / 2, "validation": held_out / 2, "calibration": share}
        split = fraction_split(n, parts, seed, labels=labels, ids=images.names)
        if len(split["calibration"]) >= needed and len(split["validation"]):
            return split
        share *= 1.1
    raise InputError(
        f"a threshold with alpha = {alpha:g} needs {needed} labelled images held out for calibration, of {n} there are, and "
        "as many to learn from; add labelled images or allow more false alarms (alpha)"
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


def _until(options: Options, device: torch.device, began: float) -> float | None:
    """When all must be done. Minutes that were asked for count from the start; those nobody asked for, on a CPU, from now,
    when the images have been read."""
    if options.minutes is not None:
        return began + 60 * options.minutes
    if options.epochs is None and device.type == "cpu":
        return time.monotonic() + 60 * CPU_MINUTES
    return None


def _labelled_pictures(
    source: ImageSource, images: Images, options: Options, until: float | None
) -> tuple[dict[str, Gallery], float]:
    """Pictures of training images, fewer where they are large and the time is short; and seconds that one takes."""
    if not options.pictures:
        return {"labelled": Gallery.empty(), "wild": Gallery.empty()}, 0.0
    some = np.random.default_rng(options.seed).permutation(len(images))[: PICTURES["labelled"]].tolist()
    before = time.monotonic()
    Gallery.make(source, images.kept, some[:PICTURE_PROBE])
    each = max(1e-6, time.monotonic() - before) / len(some[:PICTURE_PROBE])
    if until is not None:
        some = some[: max(PICTURE_PROBE, int(PICTURE_SHARE * (until - time.monotonic()) / each))]
    return {"labelled": Gallery.make(source, images.kept, some), "wild": Gallery.empty()}, each


def _read(source: ImageSource, size: int, options: Options) -> Images:
    """All images in memory, or from disk when they are too many."""
    if len(source) * 3 * size * size <= IN_MEMORY_BYTES:
        return load_images(source, size, max_unreadable=options.max_unreadable)
    return StreamingImages(source, size, cache=options.cache, max_unreadable=options.max_unreadable)


def _check_classes(images: Images) -> None:
    """Every class has an image: a folder that is empty, or that an archive left behind, is no class."""
    empty = [repr(name) for name, count in zip(images.classes, _per_class(images), strict=True) if not count]
    if len(images.classes) == 1 and not empty:
        raise InputError(
            f"the labelled images show one class only, {images.classes[0]!r}; fit learns to tell classes apart and needs "
            "two or more: give what is unlike it a folder too, or take embeddings, for which one class will do"
        )
    if empty and len(images.classes) - len(empty) > 1:  # fewer have an error of their own
        names = ", ".join(empty[:5]) + (f" and {len(empty) - 5} more" if len(empty) > 5 else "")
        many = "classes" if len(empty) > 1 else "class"
        raise InputError(
            f"no image of the {many} {names} could be read; put images into "
            f"{'their folders or remove them' if len(empty) > 1 else 'its folder or remove it'}"
        )


def _decide(
    model: Classifier, preprocess: Preprocess, labelled: Images, split: Split, wild: Images | None, options: Options,
    device: torch.device, trained: str | None,
) -> tuple[Decision, Bank, dict[str, Any], dict[str, Tensor], Outputs | None]:
    """One pass over every image: decision, bank, metrics on the validation part, evidence for the report."""
    parts = {name: labelled.subset(split[name]) for name in ("train", "validation", "calibration")}
    seen = {name: collect(model, part, preprocess, device=device) for name, part in parts.items()}
    wild_seen = None if wild is None else collect(model, wild, preprocess, device=device)
    decision = learn_decision(
        seen["train"], wild_seen, seen["calibration"], detector=options.detector, alpha=options.alpha, trained=trained
    )
    bank = Bank(
        normalize(seen["train"].features), parts["train"].labels.cpu().numpy(), list(parts["train"].names)
    )
    evidence = {"validation.label": parts["validation"].labels.cpu()}
    for name, part in (("validation", seen["validation"]), ("wild", wild_seen)):
        if part is not None:
            judged = decision.judge(part)
            evidence |= {
                f"{name}.score": torch.from_numpy(judged.score),
                f"{name}.rejected": torch.from_numpy(judged.rejected),
                f"{name}.p_value": torch.from_numpy(judged.p_value),
                f"{name}.likely": part.predictions.cpu(),
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


def _source_record(images: Images) -> dict[str, Any]:
    """What was read: counts and the first unreadable items."""
    first = [{"name": item.name, "reason": item.reason} for item in images.unreadable[:10]]
    return {"count": len(images), "unreadable": len(images.unreadable), "unreadable_first": first}


def _per_class(images: Images) -> list[int]:
    return torch.bincount(images.labels.cpu(), minlength=len(images.classes)).tolist()
