"""How networks see pixels: (x / 255 - mean) / std, mean and std per channel, of pixels in [0, 1]."""

from typing import NamedTuple

Triple = tuple[float, float, float]


class Scaling(NamedTuple):
    """The pixel scaling that weights were trained with."""

    mean: Triple
    std: Triple


IMAGENET = Scaling((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
LITE = Scaling((127 / 255, 127 / 255, 127 / 255), (128 / 255, 128 / 255, 128 / 255))  # (pixel - 127) / 128 of 0 to 255
RAW = Scaling((0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255))  # the pixels themselves, 0 to 255
