"""Which images a network learned from: kept with its weights, so that a fit that starts from them holds out others.

An image is known again by the digest of its pixels at the size they were read at; its name changes when it is copied from
the pool to a class. A bundle keeps, of its own fit and of all whose weights it started from, in evidence.safetensors:

    images.32.held_out    (n, 16) uint8: digests at 32 px of labelled images that were held out by all fits that had them
    images.32.pool        of images that were wild ones to some fit
    images.32.taught      of labelled images that some fit learned from

The pool counts as learned from. A network that was taught to find its images unlike the labelled ones still does so when
they have a label and are held out: a threshold that rests on them is far too high.
"""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from wildspec.data import ImageArrays, Split, StreamingImages
from wildspec.data.digest import BYTES, digest_rows, pixel_digest
from wildspec.data.load import decode_all
from wildspec.data.source import ImageSource, SubsetSource
from wildspec.errors import DataError

NEW, HELD_OUT, POOL, TAUGHT = 0, 1, 2, 3  # how an image stands to a network; it learned from the last two
KINDS = {"held_out": HELD_OUT, "pool": POOL, "taught": TAUGHT}
NAMED = 5  # classes in a sentence
Images = ImageArrays | StreamingImages


@dataclass(frozen=True)
class TrainingHistory:
    """``by_size``: side in pixels -> digest -> HELD_OUT, POOL or TAUGHT."""

    by_size: Mapping[int, Mapping[bytes, int]] = field(default_factory=dict)

    def after(
        self, size: int, labelled: Sequence[bytes], train: np.ndarray, pool: Sequence[bytes] = ()
    ) -> "TrainingHistory":
        """After another fit, on images with these digests, that learned from those at ``train`` and held out the others."""
        found = dict(self.by_size.get(size, {}))
        taught = {labelled[i] for i in train.tolist()}
        for kind, part in ((HELD_OUT, labelled), (POOL, pool), (TAUGHT, taught)):
            for digest in part:
                found[digest] = max(kind, found.get(digest, NEW))  # who was taught once stays taught
        return TrainingHistory({**self.by_size, size: found})

    def status(self, digests_at: Callable[[int], Sequence[bytes]], n: int) -> np.ndarray:
        """(n,) NEW, HELD_OUT, POOL or TAUGHT. ``digests_at``: size -> digests of the n images in question."""
        found = np.full(n, NEW)
        for size, known in self.by_size.items():
            found = np.maximum(found, [known.get(digest, NEW) for digest in digests_at(size)])
        return found

    def to_tensors(self) -> dict[str, Tensor]:
        """As a bundle keeps it; sorted, so that the same images give the same file."""
        return {
            f"images.{size}.{name}": digest_rows(sorted(digest for digest, status in known.items() if status == kind))
            for size, known in self.by_size.items()
            for name, kind in KINDS.items()
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "TrainingHistory":
        """What `to_tensors` made, among other tensors; ValueError or KeyError for what it did not."""
        sizes = sorted({int(name.split(".")[1]) for name in tensors if name.startswith("images.")})
        return cls({
            size: {digest: kind for name, kind in KINDS.items() for digest in _rows(tensors[f"images.{size}.{name}"])}
            for size in sizes
        })  # fmt: skip

    @classmethod
    def of(cls, weights: str | PathLike[str] | None) -> "TrainingHistory":
        """Of the bundle that a file of weights lies in; nothing where there is none, or one that does not say."""
        if weights is None:
            return cls()
        try:
            return cls.from_tensors(load_file(Path(weights).with_name("evidence.safetensors")))
        except (OSError, ValueError, KeyError, IndexError, SafetensorError):
            return cls()


def pixel_digests(images: Images) -> list[bytes]:
    """One for every image; those of images that stay on disk were made when they were first read."""
    if isinstance(images, StreamingImages):
        return images.digests
    return [pixel_digest(pixels) for pixels in images.images.cpu().numpy()]


def hold_out_others(
    split: Split, images: Images, digests: Sequence[bytes], source: ImageSource, init: str | PathLike[str],
    history: TrainingHistory,
) -> tuple[Split, int | None]:  # fmt: skip
    """The split, with other images held out than those the network in ``init`` has learned from, as far as there are others
    of their class; and how many of those held out it has learned from after all (a warning says so too), or None where
    nothing can be said."""
    own = {images.image_size[0]: digests}
    readable = SubsetSource(source, images.kept)
    status = history.status(lambda size: own[size] if size in own else _read_digests(readable, size), len(images))
    if status.max() == NEW:  # weights of another origin, an older bundle, or a decoder that reads otherwise
        apart = _apart(split)
        names = images.names
        known = _taught_by_name(init, [names[i] for i in apart.tolist()])
        if known:
            _warn(
                f"{known:,} of the {len(apart):,} images held out now taught the network in {init}: accuracy will look "
                "better, and false alarms rarer, than they are; start from weights made of other images, or from none"
            )
        return split, known or None
    labels = images.labels.cpu().numpy()
    split = without_taught(split, labels, status)
    apart = _apart(split)
    seen = apart[status[apart] >= POOL]
    if len(seen):
        numbers, counts = np.unique(labels[seen], return_counts=True)
        short = [f"{images.classes[c]} ({count:,})" for c, count in zip(numbers.tolist(), counts.tolist(), strict=True)]
        more = f" and {len(short) - NAMED:,} more" if len(short) > NAMED else ""
        under = int((status[split["calibration"]] >= POOL).sum())
        rests = f", and the threshold rests on {under:,} of them" if under else ""
        _warn(
            f"{len(seen):,} of the {len(apart):,} images held out now taught the network in {init}, with a label or in its "
            f"pool, for want of others of {', '.join(short[:NAMED])}{more}: what is measured on them says little{rests}; "
            "add labelled images that are new to it, or start from no weights"
        )
    return split, len(seen)


def without_taught(split: Split, labels: np.ndarray, status: np.ndarray) -> Split:
    """Images held out that the network learned from change places with others of their class, as far as there are.

    Others come from ``train``, HELD_OUT ones first: where a share h of the old images was held out before, and a share h of
    all is held out now, they fill the places, and of the NEW ones about h is held out, as by chance. Where they are too few,
    ``calibration`` has them before ``validation``, and what stays is of the POOL rather than TAUGHT: without its label it
    says more of accuracy. Every part keeps its number of images of each class. (n,) each.
    """
    names = list(split.members)
    train, validation, calibration = (names.index(name) for name in ("train", "validation", "calibration"))
    place = np.empty(split.n, dtype=np.int64)
    for number, name in enumerate(names):
        place[split[name]] = number
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([split.seed, split.n, 2])))
    for c in np.unique(labels):
        group = generator.permutation(np.flatnonzero(labels == c))
        for part, giver in ((calibration, train), (validation, train), (calibration, validation)):
            learned = status[group] >= POOL
            wrong, others = group[(place[group] == part) & learned], group[(place[group] == giver) & ~learned]
            wrong = wrong[np.argsort(-status[wrong], kind="stable")]
            others = others[np.argsort(status[others] == NEW, kind="stable")]
            count = min(len(wrong), len(others))
            place[others[:count]], place[wrong[:count]] = part, giver
    members = {name: np.flatnonzero(place == number) for number, name in enumerate(names)}
    return Split(members, split.n, split.seed, split.ids)


def _apart(split: Split) -> np.ndarray:
    return np.concatenate([part for name, part in split.members.items() if name != "train"])


def _taught_by_name(init: str | PathLike[str], names: Sequence[str]) -> int | None:
    """How many have the name of a training image of the bundle ``init`` lies in (names.json)."""
    try:
        found = json.loads((Path(init).parent / "names.json").read_text(encoding="utf-8"))["labelled"]
        known = {name for name in found if isinstance(name, str)}
    except (OSError, ValueError, KeyError, TypeError):
        return None  # weights of another origin
    return sum(name in known for name in names)


def _warn(said: str) -> None:
    warnings.warn(said, stacklevel=5)


def _read_digests(source: ImageSource, size: int) -> list[bytes]:
    found = [b""] * len(source)

    def store(i: int, pixels: np.ndarray) -> None:
        found[i] = pixel_digest(np.ascontiguousarray(pixels.transpose(2, 0, 1)))

    for item in decode_all(source, size, store):
        raise DataError(f"{item.name} could be read before and no longer can: {item.reason}")
    return found


def _rows(tensor: Tensor) -> list[bytes]:
    if tensor.dtype != torch.uint8 or tensor.ndim != 2 or tensor.shape[1] != BYTES:
        raise ValueError(f"digests are uint8 (n, {BYTES}), not {tensor.dtype} {tuple(tensor.shape)}")
    return [row.tobytes() for row in tensor.numpy()]
