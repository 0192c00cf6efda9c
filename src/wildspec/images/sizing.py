"""What is chosen for a user who names nothing: the size of the network's input, and what pixels are divided by."""

import contextlib
import warnings
from os import PathLike
from typing import Any

import numpy as np
import torch

from wildspec.data.images import ImageSet
from wildspec.data.preprocess import Preprocess
from wildspec.data.source import ImageSource
from wildspec.errors import DataError
from wildspec.models.backbones import scaling_of
from wildspec.models.initial_weights import trained_with
from wildspec.models.scaling import IMAGENET

SMALLEST = 8
SMALL = 16  # px, of which a user is told
_LOOK_AT = 32  # images whose size is looked at
_MEASURE = 2000  # images whose mean and deviation are taken
_LEAST_STD = 0.02  # of pixels in [0, 1]: nearly blank images are not blown up


def typical_side(source: ImageSource) -> int:
    """Pixels of the shorter side, the median of some images; 0 where none of them can be read."""
    sides = []
    for i in np.linspace(0, len(source) - 1, min(_LOOK_AT, len(source))).astype(int).tolist():
        with contextlib.suppress(DataError):
            sides.append(source.shorter_side(i))
    return int(np.median(sides)) if sides else 0


def choose_size(source: ImageSource, device: torch.device) -> int:
    """Side of the network's input: on a CPU 32 px; on a GPU 32, 64 or 128, whichever the images fill. Never upscaled."""
    typical = typical_side(source) or 32
    if typical < SMALL:
        warnings.warn(
            f"the images are small, about {typical} px a side: what cannot be told apart at that size is not learned; give "
            "larger ones where there are any",
            stacklevel=3,
        )
    fits = [side for side in (32, 64, 128) if side <= typical] if device.type == "cuda" else [32]
    return max(SMALLEST, min(typical, max(fits, default=32)))


def preprocess_for(record: dict[str, Any], images: ImageSet, init: str | PathLike[str] | None = None) -> Preprocess:
    """Mean and deviation of the training images; for a network that brings weights those it was trained with, as far as
    they are known: from the record beside the file ``init``, or from the backbone itself; else ImageNet's."""
    size = images.image_size[0]
    theirs = (None if init is None else trained_with(init)) or scaling_of(record) or (None if init is None else IMAGENET)
    if theirs is not None:
        return Preprocess(size, theirs.mean, theirs.std)
    some = np.linspace(0, len(images) - 1, min(len(images), _MEASURE)).astype(np.int64)
    pixels = images.gather(some).float() / 255
    mean, std = pixels.mean(dim=(0, 2, 3)), pixels.std(dim=(0, 2, 3)).clamp_min(_LEAST_STD)
    return Preprocess.from_json({"size": size, "mean": mean.tolist(), "std": std.tolist()})
