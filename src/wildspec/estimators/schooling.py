"""Which images a network learned from: kept with its weights, so that a fit that starts from them holds out others.

An image is known again by the digest of its pixels at the size they were read at; its name changes when it is copied from
the pool to a class. A bundle keeps, of its own fit and of all whose weights it started from, in evidence.safetensors:

    images.32.taught      (n, 16) uint8: digests at 32 px of labelled images that some fit learned from
    images.32.held_out    (m, 16) uint8: of those that were held out by all that had them

Sets that stay on disk are not looked through: a model of them keeps no digests, and names are all there is to go by.
"""

import hashlib
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
from wildspec.data.load import decode_all
from wildspec.data.source import ImageSource, SubsetSource
from wildspec.errors import DataError

NEW, HELD_OUT, TAUGHT = 0, 1, 2  # how an image stands to a network
BYTES = 16  # of a digest
NAMED = 5  # classes in a sentence
Images = ImageArrays | StreamingImages
Digests = frozenset[bytes]


@dataclass(frozen=True)
class Schooling:
    """``by_size``: side in pixels -> digests of the images taught, and of those held out."""

    by_size: Mapping[int, tuple[Digests, Digests]] = field(default_factory=dict)

    def after(self, size: int, digests: Sequence[bytes], train: np.ndarray) -> "Schooling":
        """After another fit, on images with these digests, that learned from those at ``train`` and held out the others."""
        taught, held_out = self.by_size.get(size, (frozenset(), frozenset()))
        taught = taught | {digests[i] for i in train.tolist()}
        return Schooling({**self.by_size, size: (taught, (held_out | set(digests)) - taught)})

    def standing(self, digests_at: Callable[[int], Sequence[bytes]], n: int) -> np.ndarray:
        """(n,) NEW, HELD_OUT or TAUGHT. ``digests_at``: size -> digests of the n images in question."""
        found = np.full(n, NEW)
        for size, (taught, held_out) in self.by_size.items():
            here = [TAUGHT if d in taught else HELD_OUT if d in held_out else NEW for d in digests_at(size)]
            found = np.maximum(found, here)
        return found

    def to_tensors(self) -> dict[str, Tensor]:
        """As a bundle keeps it; sorted, so that the same images give the same file."""
        return {
            f"images.{size}.{name}": _tensor(sorted(part))
            for size, parts in self.by_size.items()
            for name, part in zip(("taught", "held_out"), parts, strict=True)
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Schooling":
        """What `to_tensors` made, among other tensors; ValueError or KeyError for what it did not."""
        sizes = sorted({int(name.split(".")[1]) for name in tensors if name.startswith("images.")})
        return cls({
            size: (_rows(tensors[f"images.{size}.taught"]), _rows(tensors[f"images.{size}.held_out"])) for size in sizes
        })  # fmt: skip

    @classmethod
    def of(cls, weights: str | PathLike[str] | None) -> "Schooling":
        """Of the bundle that a file of weights lies in; nothing where there is none, or one that does not say."""
        if weights is None:
            return cls()
        try:
            return cls.from_tensors(load_file(Path(weights).with_name("evidence.safetensors")))
        except (OSError, ValueError, KeyError, IndexError, SafetensorError):
            return cls()


def pixel_digests(images: Images) -> list[bytes] | None:
    """One for every image; None for images that stay on disk."""
    if not isinstance(images, ImageArrays):
        return None
    return [_digest(pixels) for pixels in images.images.cpu().numpy()]


def hold_out_others(
    split: Split, images: Images, digests: Sequence[bytes] | None, source: ImageSource, init: str | PathLike[str],
    schooling: Schooling,
) -> tuple[Split, int | None]:  # fmt: skip
    """The split, with other images held out than those the network in ``init`` has learned from, as far as there are others
    of their class; and how many of those held out it has learned from after all (a warning says so too), or None where
    nothing can be said."""
    standing = np.full(len(images), NEW)
    if digests is not None:
        own = {images.image_size[0]: digests}
        readable = SubsetSource(source, images.kept)
        standing = schooling.standing(lambda size: own[size] if size in own else _read_digests(readable, size), len(images))
    if not (standing == TAUGHT).any():  # weights of another origin, an older bundle, or a decoder that reads otherwise
        apart = _apart(split)
        known = _taught_by_name(init, [images.names[i] for i in apart.tolist()])
        if known:
            _warn(known, len(apart), init, "", "start from weights made of other images, or from none")
        return split, known or None
    labels = images.labels.cpu().numpy()
    split = without_taught(split, labels, standing)
    apart = _apart(split)
    seen = apart[standing[apart] == TAUGHT]
    if len(seen):
        numbers, counts = np.unique(labels[seen], return_counts=True)
        short = [f"{images.classes[c]} ({count:,})" for c, count in zip(numbers.tolist(), counts.tolist(), strict=True)]
        more = f" and {len(short) - NAMED:,} more" if len(short) > NAMED else ""
        why = f", and there is hardly any other image of {', '.join(short[:NAMED])}{more}"
        _warn(len(seen), len(apart), init, why, "add labelled images of these, or start from no weights")
    return split, len(seen)


def without_taught(split: Split, labels: np.ndarray, standing: np.ndarray) -> Split:
    """Images that are held out and TAUGHT change places with others of their class from ``train``, as far as there are.

    HELD_OUT ones come first: where a share h of the old images was held out before, and a share h of all is held out now,
    they fill the places, and of the NEW ones about h is held out, as by chance. Every part keeps its number of images of
    each class. (n,) each.
    """
    names = list(split.members)
    train = names.index("train")
    place = np.empty(split.n, dtype=np.int64)
    for number, name in enumerate(names):
        place[split[name]] = number
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([split.seed, split.n, 2])))
    for c in np.unique(labels):
        group = generator.permutation(np.flatnonzero(labels == c))
        inside, taught = place[group] == train, standing[group] == TAUGHT
        wrong, others = group[~inside & taught], group[inside & ~taught]
        others = others[np.argsort(standing[others] == NEW, kind="stable")]
        count = min(len(wrong), len(others))
        place[others[:count]] = place[wrong[:count]]
        place[wrong[:count]] = train
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


def _warn(seen: int, held_out: int, init: str | PathLike[str], why: str, remedy: str) -> None:
    warnings.warn(
        f"{seen:,} of the {held_out:,} images held out now taught the network in {init}{why}: accuracy will look better, "
        f"and false alarms rarer, than they are; {remedy}",
        stacklevel=5,
    )


def _read_digests(source: ImageSource, size: int) -> list[bytes]:
    found = [b""] * len(source)

    def store(i: int, pixels: np.ndarray) -> None:
        found[i] = _digest(np.ascontiguousarray(pixels.transpose(2, 0, 1)))

    for item in decode_all(source, size, store):
        raise DataError(f"{item.name} could be read before and no longer can: {item.reason}")
    return found


def _digest(pixels: np.ndarray) -> bytes:
    return hashlib.blake2b(pixels.tobytes(), digest_size=BYTES).digest()


def _tensor(digests: Sequence[bytes]) -> Tensor:
    return torch.from_numpy(np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, BYTES).copy())


def _rows(tensor: Tensor) -> Digests:
    if tensor.dtype != torch.uint8 or tensor.ndim != 2 or tensor.shape[1] != BYTES:
        raise ValueError(f"digests are uint8 (n, {BYTES}), not {tensor.dtype} {tuple(tensor.shape)}")
    return frozenset(row.tobytes() for row in tensor.numpy())
