"""Is there anything where a user says it is? Asked before anything heavy is loaded: a slip is told at once."""

import os
import re

from wildspec.data.headers import EXTENSIONS
from wildspec.errors import DataError

IMAGES = (
    "a folder of images (one sub-folder per class, or flat), a parquet file or a folder of them, an .npz or .npy file, "
    "a list of image files, Pillow images, an array or tensor, (images, labels), or a map-style torch data set"
)
EMBEDDINGS = "parquet, .npz or .npy with embeddings"
NAME_OF_THE_HUB = re.compile(r"[\w.-]+/[\w.-]+(:.*)?")


def check_there(given: str | os.PathLike[str] | None, expected: str = IMAGES, *, files: bool = False) -> None:
    """A path that leads to something, or a data set of the hub. ``files``: an image file may be missing, that is its row."""
    name = "" if given is None else os.fspath(given)
    if not name or name.startswith("hf:") or os.path.exists(name) or (files and name.lower().endswith(EXTENSIONS)):
        return
    of_hub = expected is IMAGES and NAME_OF_THE_HUB.fullmatch(name)
    hint = f"; a data set of the Hugging Face hub: hf:{name}" if of_hub else ""
    raise DataError(f"{name} does not exist; expected {expected}{hint}")
