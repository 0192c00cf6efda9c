"""What a user wants to hear of their images before anything is learned from them."""

import os
import warnings
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from wildspec.errors import InputError
from wildspec.images.training_history import Images, pixel_digests

LISTED = 8  # classes that are all named; of more the smallest and the largest
LOOKED_AT = 512  # images
SMALL = 64  # pixels
DARK = 64  # of 255, what 14 bits read as 16 reach; a set of photographs has brighter pixels


def check_apart(labelled: Any, wild: Any) -> None:
    """A wild folder inside the labelled one would be one of its classes."""
    given = [item for item in (labelled, wild) if isinstance(item, str | PathLike) and os.path.isdir(item)]
    both = [Path(item).resolve() for item in given]
    if len(both) == 2 and both[0] in both[1].parents:
        raise InputError(
            f"the wild images {wild} lie inside the labelled folder {labelled}, in which every folder is a class; "
            "put them beside it"
        )


def classes_in_words(classes: Sequence[str], counts: Sequence[int]) -> str:
    """Every class with its images; of many the smallest and the largest."""
    named = [f"{name} ({count:,})" for name, count in zip(classes, counts, strict=True)]
    if len(named) <= LISTED:
        return f"classes: {', '.join(named)}"
    order = np.argsort(counts, kind="stable").tolist()
    return f"classes: {', '.join(named[i] for i in order[:3])}, ... {', '.join(named[i] for i in order[-3:])}"


def without_labelled(labelled: Sequence[bytes], wild: Images) -> tuple[Images, list[str]]:
    """The wild images that are no labelled ones, and the names of those that are, pixel for pixel at the network's size.

    An image with a label is no unlabelled one: the pool would teach that it is unlike itself, and where it is held out the
    threshold would no longer rest on images that nothing was learned from. ``labelled``: digests (`pixel_digests`).
    """
    known = set(labelled)
    again = np.array([digest in known for digest in pixel_digests(wild)], dtype=bool)
    if not again.any():
        return wild, []
    if again.all():
        raise InputError(
            f"all {len(wild):,} wild images are labelled ones too, pixel for pixel; give images from the field, or none"
        )
    rest, names = wild.subset(np.flatnonzero(~again)), wild.names
    rest.unreadable = wild.unreadable
    return rest, [names[i] for i in np.flatnonzero(again).tolist()]


def warn_of_small(side: int, network: int, what: str) -> None:
    """Pictures of a few pixels (``side``: the shorter one, 0 = not known) can be enlarged to the ``network``'s input, but
    not to what a network for photographs was made for. One made for so few pixels takes them as they are."""
    if 0 < side < min(SMALL, network):
        warnings.warn(
            f"the {what} images are small, {side} px on their shorter side: they are enlarged to {network} px, and a "
            f"network for photographs sees less in them. Expect more shifted images to be rejected and more unknown ones to "
            "be kept, the more the smaller they are; give larger ones if there are any",
            stacklevel=4,
        )


def warn_of_darkness(images: Images, what: str) -> None:
    """Cameras write 10 to 14 bits into 16-bit files; read as 16 bits, those are black."""
    some = np.unique(np.linspace(0, len(images) - 1, min(len(images), LOOKED_AT)).astype(np.int64))
    brightest = int(images.gather(some).max())
    if brightest <= DARK:
        warnings.warn(
            f"the {what} images are nearly black, their brightest pixel is {brightest} of 255; 16-bit files are read as 0 "
            "to 65535: where yours hold fewer bits, stretch them to the full range first",
            stacklevel=4,
        )
