"""``ImageSource``: where images come from. One contract for folders, parquet, arrays and data sets."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wildspec.data.images import UNLABELLED, check_labels
from wildspec.errors import InputError

LONGEST_LABEL = 1000  # characters


class ImageSource(ABC):
    """A numbered list of images, decoded one at a time. Safe to ``load`` from several threads. Not to be written to:
    ``labels``, (n,) int64 with -1 = unlabelled, and ``classes``, names of the classes 0, 1, ..., empty without labels."""

    labels: np.ndarray
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def name(self, i: int) -> str:
        """A name that tells a person which image this is."""

    @abstractmethod
    def load(self, i: int) -> np.ndarray:
        """uint8 (H, W, 3). Raises DataError with a reason when the item cannot be read."""

    def reduced(self, i: int, side: int) -> np.ndarray:
        """The same image for whoever makes ``side`` pixels of its shorter side: perhaps with fewer than `load` gives, where
        that is faster (`wildspec.data.decode`)."""
        return self.load(i)

    def shorter_side(self, i: int) -> int:
        """Pixels of its shorter side."""
        return min(self.load(i).shape[:2])

    def fingerprint(self) -> str | None:
        """Changes when the images do, so that a cache can be trusted; None where that cannot be told."""
        return None


class SubsetSource(ImageSource):
    """Some items of a source, in the order given; ``labelled=False`` hides their labels."""

    def __init__(self, source: ImageSource, indices: Any, *, labelled: bool = True) -> None:
        self.source = source
        given = np.asarray(indices)
        if given.size and given.dtype.kind not in "iu":
            raise InputError(f"indices must be whole numbers, got {given.dtype}; of a mask: numpy.flatnonzero(mask)")
        self.indices = given.astype(np.int64)
        if self.indices.ndim != 1:
            raise InputError(f"indices must be one-dimensional, got shape {self.indices.shape}")
        if len(self.indices) and (self.indices.min() < 0 or self.indices.max() >= len(source)):
            raise InputError(
                f"indices must lie in [0, {len(source)}), got {self.indices.min()} to {self.indices.max()}"
            )
        self.labels = source.labels[self.indices] if labelled else np.full(len(self.indices), UNLABELLED, np.int64)
        self.classes = source.classes if labelled else ()

    def name(self, i: int) -> str:
        return self.source.name(int(self.indices[i]))

    def load(self, i: int) -> np.ndarray:
        return self.source.load(int(self.indices[i]))

    def reduced(self, i: int, side: int) -> np.ndarray:
        return self.source.reduced(int(self.indices[i]), side)

    def shorter_side(self, i: int) -> int:
        return self.source.shorter_side(int(self.indices[i]))

    def fingerprint(self) -> str | None:
        whole = self.source.fingerprint()
        return None if whole is None else hashlib.sha256(whole.encode() + self.indices.tobytes()).hexdigest()


def unlabelled_view(source: ImageSource) -> ImageSource:
    """The same images with every label hidden."""
    return SubsetSource(source, np.arange(len(source)), labelled=False)


def number_labels(values: Any, classes: tuple[str, ...] | None = None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels as whole numbers or as names -> (int64 labels, class names).

    Names are numbered in sorted order, or by their place in ``classes``; None becomes -1. Numbers stay as they are.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError("labels must be one-dimensional, got lists of several lengths") from error
    if array.ndim != 1:
        raise InputError(f"labels must be one-dimensional, got shape {array.shape}")
    known = [value for value in array.tolist() if value is not None] if array.dtype.kind not in "iu" else []
    if known and all(map(_is_whole, known)):  # beside None
        array = np.array([UNLABELLED if value is None else value for value in array.tolist()], dtype=np.int64)
    if np.issubdtype(array.dtype, np.integer):
        numbers = array.astype(np.int64)
        return numbers, check_labels(torch.from_numpy(numbers), classes or ())
    if not all(isinstance(value, str) for value in known):
        raise InputError(f"labels must be whole numbers or names, got values of type {array.dtype}")
    longest = max(map(len, known), default=0)
    if longest > LONGEST_LABEL:
        raise InputError(f"a label has {longest:,} characters, at most {LONGEST_LABEL:,} are taken; is it the right column?")
    order = classes or tuple(sorted(set(known)))
    place = {name: number for number, name in enumerate(order)}
    other = next((value for value in known if value not in place), None)
    if other is not None:
        raise InputError(f"label {other!r} is none of the {len(order)} classes given")
    return np.array([UNLABELLED if v is None else place[v] for v in array.tolist()], dtype=np.int64), order


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and abs(int(value)) < 1 << 63


def check_tests_labelled(where: object, missing: int) -> None:
    """A test set is measured class by class: each of its samples needs a label. ``missing``: how many have none."""
    if missing:
        have, them = ("s have", "them") if missing > 1 else (" has", "it")
        raise InputError(f"{where}: {missing:,} test sample{have} no label; label {them} or leave {them} out")


def files_fingerprint(paths: Iterable[Path]) -> str:
    """Digest of names, sizes and modification times; a file that cannot be asked counts as missing."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            status = path.stat()
            mark = f"{path.absolute()} {status.st_size} {status.st_mtime_ns}\n"
        except OSError:
            mark = f"{path.absolute()} missing\n"
        digest.update(mark.encode(errors="surrogateescape"))
    return digest.hexdigest()
