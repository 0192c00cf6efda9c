"""Images that are arrays already: numpy or torch, grey or colour, channels first or last."""

from typing import Any

import numpy as np
import torch

from wildspec.checks import choice
from wildspec.data.decode import as_numpy, to_rgb, to_uint8
from wildspec.data.images import UNLABELLED, ImageArrays
from wildspec.data.source import ImageSource, number_labels
from wildspec.errors import InputError

_CHANNELS = (1, 3, 4)


class ArraySource(ImageSource):
    """(n, H, W), (n, H, W, 1|3|4) or (n, 1|3|4, H, W); uint8, bool, uint16, or float in [0, 1]; labels as numbers or names.

    ``layout``: ``"nhw"``, ``"nhwc"``, ``"nchw"``, or ``"auto"``, which reads it off the shape and asks where both fit.
    """

    def __init__(
        self,
        images: Any,
        labels: Any = None,
        classes: tuple[str, ...] = (),
        *,
        names: list[str] | None = None,
        layout: str = "auto",
    ) -> None:
        array = as_numpy(images)
        self._images = _channels_last(array, choice("layout", layout, ("auto", "nhw", "nhwc", "nchw")))
        n = len(array)
        if labels is None:
            self.labels, self.classes = np.full(n, UNLABELLED, dtype=np.int64), tuple(classes)
        else:
            values = labels.detach().cpu().numpy() if isinstance(labels, torch.Tensor) else labels
            self.labels, self.classes = number_labels(values, tuple(classes) or None)
        self._names = names
        for what, given in (("labels", self.labels), ("names", names)):
            if given is not None and len(given) != n:
                raise InputError(f"{what} must have one entry per image ({n}), got {len(given)}")

    @classmethod
    def from_images(cls, images: ImageArrays) -> "ArraySource":
        """An image set in memory, seen as a source."""
        return cls(images.images, images.labels, images.classes, names=images.names, layout="nchw")

    def name(self, i: int) -> str:
        return self._names[i] if self._names is not None else str(i)

    def load(self, i: int) -> np.ndarray:
        return to_rgb(to_uint8(self._images[i]))


def _channels_last(array: np.ndarray, layout: str) -> np.ndarray:
    """A view of shape (n, H, W, C)."""
    if layout == "auto":
        first = array.ndim == 4 and array.shape[1] in _CHANNELS
        last = array.ndim == 4 and array.shape[3] in _CHANNELS
        if first and last:
            raise InputError(
                f"images of shape {array.shape} may have their channels first or last; pass layout='nchw' or 'nhwc'"
            )
        if array.ndim == 3 and array.shape[2] in _CHANNELS and array.shape[1] not in _CHANNELS:
            raise InputError(
                f"images of shape {array.shape} may be one of {array.shape[2]} channels, or {len(array)} grey ones: pass "
                "images[None], or layout='nhw'"
            )
        layout = "nhw" if array.ndim == 3 else "nchw" if first else "nhwc"
    view = array[..., None] if layout == "nhw" and array.ndim == 3 else array
    view = view.transpose(0, 2, 3, 1) if layout == "nchw" and array.ndim == 4 else view
    if view.ndim != 4 or view.shape[3] not in _CHANNELS or 0 in view.shape[1:]:
        raise InputError(
            f"images must have shape (n, H, W), (n, H, W, 1|3|4) or (n, 1|3|4, H, W), got {array.shape}"
        )
    return view
