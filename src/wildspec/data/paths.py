"""Is there anything where a user says it is? Asked before anything heavy is loaded: a slip is told at once."""

import difflib
import os
import re

from wildspec.data.headers import EXTENSIONS
from wildspec.errors import DataError

IMAGES = "a folder of images (one sub-folder per class, or flat), parquet, .npz or .npy"
OBJECTS = f"{IMAGES}, files or images in a list, an array or tensor, (images, labels), or a map-style torch data set"
EMBEDDINGS = "parquet, CSV, .npz or .npy with embeddings"
NAME_OF_THE_HUB = re.compile(r"[\w.-]+/[\w.-]+(:.*)?")


def check_there(given: str | os.PathLike[str] | None, expected: str = IMAGES, *, files: bool = False) -> None:
    """A path that leads to something, or a data set of the hub; None is nothing given. ``files``: an image file may be
    missing, that is its row."""
    if given is None:
        return
    name = os.fspath(given)
    if not name:  # as a path it would be the current folder
        raise DataError(f"an empty name; is a variable unset? expected {expected}")
    if name.startswith("hf:") or os.path.exists(name) or (files and name.lower().endswith(EXTENSIONS)):
        return
    raise DataError(f"{name} does not exist; {_advice(name, expected)}")


def _advice(name: str, expected: str) -> str:
    """What was meant: a neighbour whose name is nearly the same, a data set of the hub, or what is expected there."""
    folder, last = os.path.split(os.path.normpath(name))
    try:
        near = difflib.get_close_matches(last, os.listdir(folder or "."), n=1, cutoff=0.75)
    except OSError:
        near = []
    if near:
        return f"did you mean {os.path.join(folder, near[0])}?"
    if expected is IMAGES and NAME_OF_THE_HUB.fullmatch(name):
        return f"check the path; a data set of the Hugging Face hub would be hf:{name}"
    return f"expected {expected}"
