"""Step 1 of a fit: both sets of images opened, read at the network's size and looked over."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from wildspec.checks import class_names
from wildspec.data import StreamingImages, load_images, open_source
from wildspec.data.inputs import with_plain_names
from wildspec.data.paths import NAME_OF_THE_HUB
from wildspec.data.source import ImageSource, check_tests_labelled
from wildspec.errors import DataError, InputError
from wildspec.images.checks import warn_of_darkness, without_labelled
from wildspec.images.training_history import Images, pixel_digests

IN_MEMORY_BYTES = 2 << 30  # more pixels than this are read from disk as they are needed


@dataclass(frozen=True)
class ReadSets:
    """``wild``: without the images that are labelled ones too, ``repeated``: the names of those. ``digests``: of the
    labelled images' pixels."""

    labelled_source: ImageSource
    wild_source: ImageSource | None
    labelled: Images
    wild: Images | None
    digests: Sequence[bytes]
    repeated: Sequence[str]

    @property
    def size(self) -> int:
        """Side of the images in pixels."""
        return self.labelled.image_size[0]


def read_sets(
    labelled_source: ImageSource, wild_source: ImageSource | None, size: int, *, max_unreadable: float = 0.05,
    cache: str | PathLike[str] | None = None,
) -> ReadSets:  # fmt: skip
    """Read both; a class without images is an error, nearly black images are a warning."""
    labelled = read(labelled_source, size, max_unreadable, cache)
    _check_classes(labelled)
    wild = None if wild_source is None else read(wild_source, size, max_unreadable, cache)
    digests, repeated = pixel_digests(labelled), list[str]()
    warn_of_darkness(labelled, "labelled")
    if wild is not None:
        warn_of_darkness(wild, "wild")
        wild, repeated = without_labelled(digests, wild)
    return ReadSets(labelled_source, wild_source, labelled, wild, digests, repeated)


def open_images(thing: Any, *, labelled: bool) -> ImageSource:
    """`wildspec.data.open_source`, and "hf:NAME:CONFIG:SPLIT" (`wildspec.data.hub`)."""
    if isinstance(thing, str) and thing.startswith("hf:"):
        from wildspec.data.hub import open_hub

        return open_hub(thing, labelled=labelled)
    try:
        return with_plain_names(open_source(thing, labelled=labelled))
    except DataError as error:
        if isinstance(thing, str) and NAME_OF_THE_HUB.fullmatch(thing) and not Path(thing.partition(":")[0]).exists():
            raise DataError(f"{error}; a data set of the Hugging Face hub: hf:{thing}") from error
        raise


def read_known(path: str, size: int, classes: tuple[str, ...]) -> Images:
    """A test set, labelled throughout, whose class names are among the known ones; labels are renumbered to theirs."""
    images = read(open_images(path, labelled=True), size)
    check_tests_labelled(path, int((images.labels < 0).sum()))
    strange = [name for name in images.classes if name not in classes]
    if strange:
        raise InputError(
            f"{path} has the class {', '.join(strange[:3])}, which the model does not know; give unknown classes as "
            "--unknown"
        )
    number = torch.tensor([classes.index(name) for name in images.classes])
    images.labels = number[images.labels]
    images.classes = classes
    return images


def read(
    source: ImageSource, size: int, max_unreadable: float = 0.05, cache: str | PathLike[str] | None = None
) -> Images:
    """All images in memory, or from disk when they are too many."""
    if len(source) * 3 * size * size <= IN_MEMORY_BYTES:
        return load_images(source, size, max_unreadable=max_unreadable)
    return StreamingImages(source, size, cache=cache, max_unreadable=max_unreadable)


def per_class(images: Images) -> list[int]:
    """How many images of each class."""
    return torch.bincount(images.labels.cpu(), minlength=len(images.classes)).tolist()


def check_several(classes: Sequence[str]) -> None:
    """One class is nothing to tell apart."""
    if len(classes) == 1:
        raise InputError(
            f"the labelled images show one class only, {classes[0]!r}; fit learns to tell classes apart and needs "
            "two or more: give what is unlike it a folder too, or take embeddings, for which one class will do"
        )


def _check_classes(images: Images) -> None:
    """Every image has a label, and every class an image: a folder that is empty, or that an archive left behind, is none."""
    missing = int((images.labels < 0).sum())
    if missing:
        raise InputError(f"{missing:,} labelled images have no label; move them to the wild pool")
    class_names(images.classes)
    counts = dict(zip(images.classes, per_class(images), strict=True))
    check_several([name for name, count in counts.items() if count])
    empty = [repr(name) for name, count in counts.items() if not count]
    if empty:
        names = ", ".join(empty[:5]) + (f" and {len(empty) - 5} more" if len(empty) > 5 else "")
        many = "classes" if len(empty) > 1 else "class"
        raise InputError(
            f"no image of the {many} {names} could be read; put images into "
            f"{'their folders or remove them' if len(empty) > 1 else 'its folder or remove it'}"
            f"{', or number the classes from 0 without gaps' if all(name.isdecimal() for name in images.classes) else ''}"
        )
