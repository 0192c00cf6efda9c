"""A map-style ``torch.utils.data.Dataset`` (or anything with ``len`` and ``[i]``, such as a Hugging Face data set)."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import IterableDataset, Subset, TensorDataset

from wildspec.data.decode import decode, from_array, from_pil
from wildspec.data.folder import FilesSource
from wildspec.data.images import UNLABELLED
from wildspec.data.source import ImageSource, number_labels
from wildspec.errors import DataError, InputError, one_line


class DatasetSource(ImageSource):
    """Items are (image, label), {"image": ..., "label": ...}, or just an image; the image a Pillow image, array, tensor or
    path. What follows the label, as WILDS' metadata does, is passed over.

    Labels are taken from ``dataset.targets`` or ``.labels`` where there are such, else by going through the data set once.
    Class names from ``dataset.classes`` or the features of a Hugging Face data set. An item that raises is unreadable.
    ``labelled=False``: labels are not asked for, and may be anything.
    """

    def __init__(self, dataset: Any, *, classes: tuple[str, ...] = (), labelled: bool | None = None) -> None:
        if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise InputError(
                f"{type(dataset).__name__} has no length or no numbered items; expected a map-style data set with "
                "len() and [i]"
            )
        self.dataset = _undecoded(dataset)
        if labelled is False:
            self.labels, self.classes = np.full(len(dataset), UNLABELLED, dtype=np.int64), ()
        else:
            self.labels, self.classes = self._number(tuple(classes) or _class_names(dataset))

    def name(self, i: int) -> str:
        return str(i)

    def load(self, i: int) -> np.ndarray:
        return self._load(i, None)

    def reduced(self, i: int, side: int) -> np.ndarray:
        return self._load(i, side)

    def _load(self, i: int, side: int | None) -> np.ndarray:
        image = _parts(self._item(i))[0]
        if isinstance(image, Mapping):  # an image file of a Hugging Face data set
            if image.get("bytes") is not None:
                return decode(image["bytes"], side=side)
            image = image["path"]
        if isinstance(image, (str, PathLike)):
            file = FilesSource([image])
            return file.load(0) if side is None else file.reduced(0, side)
        return from_pil(image) if isinstance(image, Image.Image) else from_array(image)

    def _item(self, i: int) -> Any:
        try:
            return self.dataset[i]
        except Exception as error:  # a user's data set may raise anything
            raise DataError(f"item {i} raised {type(error).__name__}: {one_line(error)}") from error

    def _number(self, classes: tuple[str, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
        values = _known_labels(self.dataset)
        if values is None:
            values = [self._label(i) for i in range(len(self.dataset))]
            if any(isinstance(value, str) for value in values):
                values = np.array([None if value == UNLABELLED else value for value in values], dtype=object)
        if len(values) != len(self.dataset):
            raise InputError(f"the data set has {len(self.dataset)} items but {len(values)} labels")
        return number_labels(values, classes or None)

    def _label(self, i: int) -> Any:
        try:
            label = _parts(self._item(i))[1]
        except DataError:
            return UNLABELLED  # load(i) says why
        return label.tolist() if isinstance(label, torch.Tensor) else label


def _undecoded(dataset: Any) -> Any:
    """A Hugging Face data set that gives image files as they are: its own decoding takes every format Pillow has."""
    features = getattr(dataset, "features", None)
    if not isinstance(features, Mapping) or not hasattr(dataset, "cast_column"):
        return dataset
    for name, feature in features.items():
        if type(feature).__name__ == "Image" and getattr(feature, "decode", False):
            dataset = dataset.cast_column(name, type(feature)(decode=False))
    return dataset


def _parts(item: Any) -> tuple[Any, Any]:
    """(image, label), label -1 where there is none."""
    if isinstance(item, Mapping):
        images = [item[key] for key in ("image", "img") if key in item]
        if not images:
            raise DataError(f"an item must have the key 'image', got {', '.join(map(str, item))}")
        return images[0], item.get("label", UNLABELLED)
    if isinstance(item, (tuple, list)):
        if not item:
            raise DataError("an item must be an image or (image, label), got nothing")
        return item[0], item[1] if len(item) > 1 else UNLABELLED
    return item, UNLABELLED


def _known_labels(dataset: Any) -> Any:
    """All labels without decoding an image, where the data set offers them."""
    if isinstance(dataset, Subset):
        inner = _known_labels(dataset.dataset)
        return None if inner is None else np.asarray(inner)[np.asarray(dataset.indices, dtype=np.int64)]
    if isinstance(dataset, TensorDataset):
        return dataset.tensors[1].cpu().numpy() if len(dataset.tensors) == 2 else None
    if hasattr(dataset, "column_names"):  # Hugging Face
        return dataset["label"][:] if "label" in dataset.column_names else None
    for attribute in ("targets", "labels"):
        values = getattr(dataset, attribute, None)
        if values is not None and hasattr(values, "__len__"):
            return values.cpu().numpy() if isinstance(values, torch.Tensor) else values
    return None


def _class_names(dataset: Any) -> tuple[str, ...]:
    if isinstance(dataset, Subset):
        return _class_names(dataset.dataset)
    features = getattr(dataset, "features", None)
    names = getattr(features.get("label"), "names", None) if isinstance(features, Mapping) else None
    if names is None:
        names = getattr(dataset, "classes", None)
    return tuple(str(name) for name in names) if names is not None else ()
