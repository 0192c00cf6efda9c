"""From two sets of images to a fitted model, step by step; every step leaves a record.

    read_sets -> split_sets -> train_network | frozen_encoder -> decide_images | decide_frozen -> assemble
    ReadSets     Parts         Trained                           DecidedImages                    Fitted

A network is trained and decides by a detector; or it is taken as it is and the one rule decides, in a minute or two on two
cores.
"""

import time
from collections.abc import Callable, Mapping

import torch

from wildspec.bundle.gallery import Gallery
from wildspec.data import Preprocess
from wildspec.data.source import ImageSource
from wildspec.errors import InputError
from wildspec.images.checks import warn_of_small
from wildspec.images.choosing import settle_training
from wildspec.images.decided import DecidedImages, decide_frozen, decide_images
from wildspec.images.encoding import usual_folder
from wildspec.images.fitted import Fitted
from wildspec.images.frozen_network import frozen_encoder
from wildspec.images.options import Options
from wildspec.images.parts import Parts, split_sets
from wildspec.images.pictures import MOST, WILD_SIDE, labelled_pictures, pictures_of
from wildspec.images.reading import ReadSets, read_sets
from wildspec.images.sizing import choose_size, typical_side
from wildspec.images.telling import tell
from wildspec.images.time_limit import features_in_time
from wildspec.images.train import CPU_MINUTES, Trained, TrainingTime, train_network
from wildspec.models.backbones import check_backbone, name_of
from wildspec.models.encoder import Encoder
from wildspec.models.initial_weights import check_init
from wildspec.provenance import environment
from wildspec.training import resolve_device

Say = Callable[[str], None]


def fit_images(labelled: ImageSource, wild: ImageSource | None, options: Options, say: Say) -> Fitted:
    """Read, split, train, decide, measure."""
    began = time.monotonic()
    if options.shift != "auto":
        raise InputError("shift counts only where a network is taken as it is; leave it out, or train none")
    device = resolve_device(options.device)
    training = settle_training(options.training, device, 0 if wild is None else len(wild), len(labelled))
    check_backbone(options.backbone, training.method, weights=options.init is None)
    if options.init is not None:
        check_init(options.init)
    read = _read(labelled, wild, options.size or choose_size(labelled, device), options)
    parts = _split(read, options, say, turns=False)
    until = _until(options.minutes, training.epochs, device, began)
    pictures, each = Gallery.empty(), 0.0
    if options.files.pictures:
        pictures, each = labelled_pictures(labelled, parts.train, options.random_state, until)
    later = each * min(MOST["wild"], 0 if parts.wild is None else len(parts.wild))
    trained = train_network(parts, options, training, TrainingTime(until, later, len(parts)), say)
    found = decide_images(
        parts, trained, detector=training.detector, alpha=options.alpha, seed=options.random_state, device=device,
        per_class=options.per_class,
    )  # fmt: skip
    return _with_pictures(read, parts, trained, found, pictures, options, began, device)


def fit_frozen(labelled: ImageSource, wild: ImageSource | None, options: Options, say: Say) -> Fitted:
    """Read, split, encode, decide, measure."""
    began = time.monotonic()
    device = resolve_device(options.device)
    if options.init is not None:
        check_init(options.init)
    side = typical_side(labelled)
    encoder, network, weights = frozen_encoder(
        options.backbone, size=options.size, init=options.init, device=device, classes=len(labelled.classes), side=side,
    )
    warn_of_small(side, encoder.size, "labelled")
    read = _read(labelled, wild, encoder.size, options)
    parts = _split(read, options, say, turns=True)
    pictures = Gallery.empty()
    if options.files.pictures:
        until = None if options.minutes is None else began + 60 * options.minutes
        pictures, _ = labelled_pictures(labelled, parts.train, options.random_state, until)
    started = time.monotonic()
    say(f"features of {name_of(network)}, frozen, at {encoder.size} px")
    found = decide_frozen(
        parts, encoder, alpha=options.alpha, seed=options.random_state, shift=options.shift, per_class=options.per_class,
        keep=usual_folder(options.files.cache is not False), show=options.verbose,
        in_time=features_in_time(options.minutes, began, len(parts), encoder.size),
    )  # fmt: skip
    training = {
        "method": "frozen", "preset": "fast", "hparams": {}, "stages": [], "seed": options.random_state,
        "minutes": options.minutes, "seconds": round(time.monotonic() - started, 2),
    }  # fmt: skip
    taken = Trained(encoder, network, _preprocess(encoder), training, weights=weights)
    return _with_pictures(read, parts, taken, found, pictures, options, began, device)


def _read(labelled: ImageSource, wild: ImageSource | None, size: int, options: Options) -> ReadSets:
    return read_sets(labelled, wild, size, max_unreadable=options.files.max_unreadable, cache=options.files.cache or None)


def _split(read: ReadSets, options: Options, say: Say, turns: bool) -> Parts:
    parts = split_sets(
        read, held_out=options.held_out, alpha=options.alpha, seed=options.random_state, init=options.init,
        groups=options.groups, turns=turns,
    )  # fmt: skip
    tell(parts, say, options.init)
    return parts


def _with_pictures(
    read: ReadSets, parts: Parts, trained: Trained, found: DecidedImages, labelled: Gallery, options: Options, began: float,
    device: torch.device,
) -> Fitted:  # fmt: skip
    pictures = {"labelled": labelled}
    if options.files.pictures and parts.wild is not None and read.wild_source is not None:
        pictures["wild"] = pictures_of(read.wild_source, parts.wild, found.shown.tolist(), WILD_SIDE)
    return assemble(parts, trained, found, time.monotonic() - began, device, pictures)


def assemble(
    parts: Parts, trained: Trained, found: DecidedImages, seconds: float, device: torch.device,
    pictures: Mapping[str, Gallery] | None = None,
) -> Fitted:
    """The fitted model and its record."""
    record = {
        "training": trained.record, "data": parts.record, "metrics": found.metrics,
        "provenance": {**environment(), "seconds": round(seconds, 2), "device": device.type},
    }  # fmt: skip
    everyone = [] if parts.wild is None else parts.wild.names  # once: images on disk make the list anew each time
    names = [everyone[i] for i in found.shown.tolist()]
    galleries = {"labelled": Gallery.empty(), "wild": Gallery.empty(), **(pictures or {})}
    return Fitted(
        trained.model, trained.network, trained.preprocess, parts.classes, found.decision, found.bank, record,
        found.evidence, names, galleries, trained.log, trained.weights, found.aside,
    )  # fmt: skip


def _preprocess(encoder: Encoder) -> Preprocess:
    mean, std = encoder.mean.flatten().tolist(), encoder.std.flatten().tolist()
    return Preprocess.from_json({"size": encoder.size, "mean": mean, "std": std})


def _until(minutes: float | None, epochs: float | None, device: torch.device, began: float) -> float | None:
    """When all must be done. Minutes that were asked for count from the start; those nobody asked for, on a CPU, from now,
    when the images have been read."""
    if minutes is not None:
        return began + 60 * minutes
    if epochs is None and device.type == "cpu":
        return time.monotonic() + 60 * CPU_MINUTES
    return None
