"""Image sets: what the training loop and the detectors see. One uint8 tensor (n, 3, H, W), labels beside it.

``ImageArrays`` holds everything in memory (host or device). ``JoinedImages`` strings several image sets together
without copying them. ``ImageSet`` is what they, and ``StreamingImages``, have in common.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from wildspec.errors import InputError, InputTypeError

UNLABELLED = -1
MOST_CLASSES = 100_000  # that numbers alone may make: a single label of 10**12 would else be as many


@dataclass(frozen=True)
class Unreadable:
    """One item that could not be decoded: its index in the source, its name, and why."""

    index: int
    name: str
    reason: str


@runtime_checkable
class ImageSet(Protocol):
    """What the samplers and the training loop need of an image set."""

    @property
    def labels(self) -> Tensor:
        """(n,) int64, -1 = unlabelled."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes 0, 1, ...; empty when there are no labels."""
        ...

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of every image."""
        ...

    def __len__(self) -> int: ...

    def gather(self, indices: Any) -> Tensor:
        """(b,) indices -> (b, 3, H, W) uint8."""
        ...


@dataclass(eq=False)
class ImageArrays:
    """Images in memory. Only ``images`` is required; the rest is filled in and checked.

    ``images``: (n, 3, H, W) uint8. ``labels``: (n,) int64, -1 = unlabelled, on the images' device.
    ``classes``: names of classes 0, 1, ... ``names``: one name per image, for reports. ``unreadable``: what loading
    left out. ``kept``: (n,) int64, index of each image in the source it came from.
    """

    images: Tensor
    labels: Tensor = field(default=None)  # type: ignore  # filled in by __post_init__
    classes: tuple[str, ...] = ()
    names: list[str] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    kept: np.ndarray = field(default=None)  # type: ignore

    def __post_init__(self) -> None:
        images = self.images
        if not isinstance(images, Tensor):
            raise InputTypeError(
                f"images must be a torch tensor, got {type(images).__name__}; wrap arrays with wildspec.data.open_source"
            )
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
            raise InputError(
                f"images must be uint8 of shape (n, 3, H, W), got {images.dtype} {tuple(images.shape)}; "
                "open them with wildspec.data.load_images"
            )
        n = len(images)
        if self.labels is None:
            self.labels = torch.full((n,), UNLABELLED, dtype=torch.int64, device=images.device)
        self.labels = torch.as_tensor(self.labels).to(device=images.device)
        if self.labels.shape != (n,) or self.labels.dtype.is_floating_point:
            raise InputError(
                f"labels must be {n} whole numbers, one per image, got {self.labels.dtype} {tuple(self.labels.shape)}"
            )
        self.labels = self.labels.to(torch.int64)
        self.classes = check_labels(self.labels, tuple(self.classes))
        self.names = list(self.names) if self.names else [str(i) for i in range(n)]
        self.kept = np.arange(n, dtype=np.int64) if self.kept is None else np.asarray(self.kept, dtype=np.int64)
        for what, length in (("names", len(self.names)), ("kept", len(self.kept))):
            if length != n:
                raise InputError(f"{what} must have one entry per image ({n}), got {length}")

    def __len__(self) -> int:
        return len(self.images)

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of every image."""
        return int(self.images.shape[2]), int(self.images.shape[3])

    @property
    def device(self) -> torch.device:
        return self.images.device

    def gather(self, indices: Any) -> Tensor:
        """(b,) indices -> (b, 3, H, W) uint8 on the images' device."""
        return self.images.index_select(0, as_index(indices, self.images.device))

    def subset(self, indices: Any) -> "ImageArrays":
        """The images at ``indices`` (any order, repeats allowed) as a set of its own."""
        where = as_index(indices, torch.device("cpu"), len(self))
        on_device = where.to(self.images.device)
        return replace(
            self,
            images=self.images.index_select(0, on_device),
            labels=self.labels.index_select(0, on_device),
            names=[self.names[i] for i in where.tolist()],
            unreadable=[],
            kept=self.kept[where.numpy()],
        )

    def to(self, device: torch.device | str) -> "ImageArrays":
        """The same set with images and labels on ``device``."""
        return replace(self, images=self.images.to(device), labels=self.labels.to(device))

    def unlabelled(self) -> "ImageArrays":
        """The same images with labels hidden and classes forgotten; no copy of the pixels."""
        return replace(self, labels=torch.full_like(self.labels, UNLABELLED), classes=())


class JoinedImages:
    """Several image sets one after the other, not copied. Labels: the parts' own, or hidden (``labelled=False``)."""

    def __init__(self, *parts: ImageSet, labelled: bool = True) -> None:
        self.image_size = _one_size(parts)
        self.classes = _one_class_list(parts) if labelled else ()
        self.parts = parts
        self._ends = np.cumsum([len(part) for part in parts])
        joined = torch.cat([part.labels.cpu() for part in parts])
        self.labels = joined if labelled else torch.full_like(joined, UNLABELLED)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def gather(self, indices: Any) -> Tensor:
        """(b,) indices -> (b, 3, H, W) uint8, on the device of the parts; each part is asked once."""
        where = as_index(indices, torch.device("cpu"), len(self)).numpy()
        owner = np.searchsorted(self._ends, where, side="right")
        out: Tensor | None = None
        for number, part in enumerate(self.parts):
            places = np.flatnonzero(owner == number)
            if len(places) == 0 and not (out is None and number == len(self.parts) - 1):
                continue
            start = int(self._ends[number]) - len(part)
            pixels = part.gather(torch.from_numpy(where[places] - start))
            if out is None:
                out = pixels.new_empty((len(where), *pixels.shape[1:]))
            out[torch.from_numpy(places).to(out.device)] = pixels.to(out.device)
        assert out is not None
        return out


def concat(*parts: ImageArrays) -> ImageArrays:
    """One set of all parts, in order (a copy). Same image size; same classes, except that unlabelled parts may have none.

    ``kept`` keeps, for each image, its index in the source of its own part.
    """
    _one_size(parts)
    classes = _one_class_list(parts)
    device = parts[0].device
    return ImageArrays(
        images=torch.cat([part.images.to(device) for part in parts]),
        labels=torch.cat([part.labels.to(device) for part in parts]),
        classes=classes,
        names=[name for part in parts for name in part.names],
        unreadable=[item for part in parts for item in part.unreadable],
        kept=np.concatenate([part.kept for part in parts]),
    )


def check_labels(labels: Tensor, classes: tuple[str, ...]) -> tuple[str, ...]:
    """Class names that fit the labels (-1 or 0..C-1); made up as '0', '1', ... where none are given."""
    if len(labels) == 0:
        return classes
    low, high = int(labels.min()), int(labels.max())
    if low < UNLABELLED:
        raise InputError(f"labels must be -1 (unlabelled) or a class number from 0, got {low}; number classes from 0")
    if not classes:
        if high >= MOST_CLASSES:
            raise InputError(f"labels must be class numbers below {MOST_CLASSES:,}, got {high}; number classes from 0")
        return tuple(str(c) for c in range(high + 1))
    if high >= len(classes):
        raise InputError(
            f"labels must lie in [0, {len(classes) - 1}] for {len(classes)} classes, got {high}; "
            "renumber the labels or name all classes"
        )
    return classes


def as_index(indices: Any, device: torch.device, count: int | None = None) -> Tensor:
    """Indices given as list, numpy array or tensor -> (b,) int64 tensor on ``device``; no host synchronization, unless they
    are to be checked: of ``count`` samples."""
    if isinstance(indices, np.ndarray):
        indices = torch.from_numpy(np.ascontiguousarray(indices))
    elif not isinstance(indices, Tensor):
        indices = torch.as_tensor(list(indices), dtype=torch.int64)
    if indices.ndim != 1 or indices.dtype.is_floating_point or indices.dtype == torch.bool:
        raise InputTypeError(
            f"indices must be a one-dimensional list of whole numbers, got {indices.dtype} {tuple(indices.shape)}"
        )
    if count is not None and len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= count):
        raise InputError(f"indices must lie in [0, {count}), got {int(indices.min())} to {int(indices.max())}")
    return indices.to(device=device, dtype=torch.int64, non_blocking=True)


def _one_size(parts: Sequence[ImageSet]) -> tuple[int, int]:
    if not parts:
        raise InputError("nothing to join: give at least one image set")
    sizes = sorted({part.image_size for part in parts})
    if len(sizes) > 1:
        listed = ", ".join(f"{h}x{w}" for h, w in sizes)
        raise InputError(f"image sets of different sizes ({listed}) cannot be joined; load them with the same size=")
    return sizes[0]


def _one_class_list(parts: Sequence[ImageSet]) -> tuple[str, ...]:
    named = [part.classes for part in parts if part.classes]
    if any(classes != named[0] for classes in named):
        raise InputError(
            f"image sets with different classes cannot be joined: {_short(named[0])} against "
            f"{_short(next(classes for classes in named if classes != named[0]))}; hide labels with .unlabelled()"
        )
    return named[0] if named else ()


def _short(classes: tuple[str, ...]) -> str:
    return ", ".join(classes[:4]) + (f", ... ({len(classes)} classes)" if len(classes) > 4 else "")
