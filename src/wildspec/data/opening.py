"""``open_source``: whatever holds images, as an ``ImageSource``."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from wildspec.data.arrays import ArraySource
from wildspec.data.dataset import DatasetSource
from wildspec.data.folder import FilesSource, FolderSource
from wildspec.data.headers import EXTENSIONS
from wildspec.data.images import ImageArrays
from wildspec.data.numpy_files import read_arrays
from wildspec.data.parquet import ParquetSource, holds_parquet
from wildspec.data.paths import IMAGES, OBJECTS, check_there
from wildspec.data.source import ImageSource, number_labels, unlabelled_view
from wildspec.errors import DataError, InputError, InputTypeError


def open_source(thing: Any, *, labelled: bool | None = None) -> ImageSource:
    """Find out what ``thing`` is and open it.

    ``labelled=True``: labels are required. ``False``: labels are ignored (a folder of folders is one unlabelled set).
    None: labels where there are some.
    """
    source = _open(thing, labelled)
    if labelled and not (source.labels >= 0).any():
        raise DataError(
            f"{_describe(thing)} has no labels; expected one sub-folder per class, a label column or an array of labels"
        )
    if labelled is False and (source.classes or (source.labels >= 0).any()):
        return unlabelled_view(source)
    return source


def _open(thing: Any, labelled: bool | None) -> ImageSource:
    thing = _listed(thing)
    if isinstance(thing, ImageSource):
        return thing
    if _is_path(thing):
        check_there(thing)
        return _open_path(Path(thing), labelled)
    if isinstance(thing, ImageArrays):
        return ArraySource.from_images(thing)
    if _is_array(thing):
        return ArraySource(thing)
    if isinstance(thing, Image.Image):
        return DatasetSource([thing])
    if isinstance(thing, (list, tuple)):
        if _is_pair(thing):
            return _open_pair(thing[0], None if labelled is False else thing[1])
        if thing and all(map(_is_path, thing)):
            return _open_paths([Path(part) for part in thing], labelled)
        if thing and all(map(_is_item, thing)):
            return DatasetSource(thing, labelled=labelled)
    elif hasattr(thing, "__getitem__") and not isinstance(thing, (dict, bytes)):
        return DatasetSource(thing, labelled=labelled)
    raise InputTypeError(f"cannot read images from {_describe(thing)}; expected {OBJECTS}")


def _listed(thing: Any) -> Any:
    """A column of a table, of files or images (an array of objects, a pandas series), as a list; anything else as it is."""
    column = getattr(thing, "ndim", None) == 1 and hasattr(thing, "tolist") and len(thing) > 0
    items = thing.tolist() if column else []
    return items if items and all(map(_is_image, items)) else thing


def _is_path(thing: Any) -> bool:
    return isinstance(thing, (str, PathLike))


def _is_image(thing: Any) -> bool:
    return _is_path(thing) or isinstance(thing, Image.Image) or (_is_array(thing) and thing.ndim in (2, 3))


def _is_array(thing: Any) -> bool:
    return isinstance(thing, (np.ndarray, torch.Tensor))


def _is_item(thing: Any) -> bool:
    """What `DatasetSource` takes as an item: an image, (image, label, ...) or a mapping."""
    first = thing[0] if isinstance(thing, (list, tuple)) and thing else thing
    return isinstance(thing, dict) or _is_image(first)


def _is_pair(thing: list[Any] | tuple[Any, ...]) -> bool:
    """(images, labels), not two items: images are an array of them or a list, labels are no images with a size."""
    if len(thing) != 2 or _is_path(thing[0]) or _is_path(thing[1]):
        return False
    images, labels = _listed(thing[0]), thing[1]
    if isinstance(labels, Image.Image) or (_is_array(labels) and labels.ndim > 1):
        return False
    if _is_array(images):
        return True
    if isinstance(thing, list) and isinstance(images, tuple):  # [(file, label), (file, label)]
        return False
    return isinstance(images, (list, tuple)) and bool(images) and all(map(_is_image, images))


def _open_pair(images: Any, labels: Any) -> ImageSource:
    images = _listed(images)
    if _is_array(images):
        return ArraySource(images, labels)
    source = _open(images, False)
    if labels is not None:
        source.labels, source.classes = number_labels(labels.cpu() if isinstance(labels, torch.Tensor) else labels)
        if len(source.labels) != len(images):
            raise InputError(f"labels must have one entry per image ({len(images)}), got {len(source.labels)}")
    return source


def _open_path(path: Path, labelled: bool | None) -> ImageSource:
    if path.is_dir():
        if holds_parquet(path):
            return ParquetSource(path, labelled=labelled)
        return FolderSource(path, labelled=labelled)
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return ParquetSource(path, labelled=labelled)
    if suffix in (".npz", ".npy"):
        return _open_numpy(path, labelled)
    if suffix in EXTENSIONS:
        return FilesSource([path])
    other = "; of embeddings: --from-embeddings" if suffix == ".csv" else ""
    raise DataError(f"{path} is none of the files wildspec reads; expected {IMAGES}{other}")


def _open_paths(paths: list[Path], labelled: bool | None) -> ImageSource:
    if all(path.suffix.lower() == ".parquet" for path in paths):
        return ParquetSource(paths, labelled=labelled)
    folder = next((path for path in paths if path.is_dir()), None)
    if folder is not None:
        raise InputError(f"a list must name files, but {folder} is a folder; open folders one at a time")
    return FilesSource(paths)


def _open_numpy(path: Path, labelled: bool | None) -> ArraySource:
    """.npy: the images. .npz: ``images`` (or ``x``) and, for labels, ``labels`` (or ``y``). No pickle is read."""
    (images, labels), keys = read_arrays(path, ("images", "x"), ("labels", "y"))
    if images is None:
        raise DataError(f"{path} must hold an array named 'images', it has {keys}; of embeddings: --from-embeddings")
    return ArraySource(images, None if labelled is False else labels)


def _describe(thing: Any) -> str:
    if isinstance(thing, (list, tuple)) and not thing:
        return "an empty list"
    return str(thing) if _is_path(thing) else f"an object of type {type(thing).__name__}"
