"""From stored pixels to network input: one normalization everywhere (training, fine-tuning, test, export).

In memory an image set is one uint8 tensor (n, 3, H, W). The network sees (x / 255 - mean) / std.
"""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from wildspec.checks import integer, number, positive
from wildspec.errors import InputError
from wildspec.models.scaling import IMAGENET

CIFAR_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR_STD = (0.2470, 0.2435, 0.2616)
IMAGENET_MEAN, IMAGENET_STD = IMAGENET


@dataclass(frozen=True)
class Preprocess:
    """What was done to an image before the network saw it; travels with the model.

    ``size``: height and width of the network's input; ``mean`` and ``std``: per channel, of pixels in [0, 1].
    """

    size: int
    mean: tuple[float, float, float] = CIFAR_MEAN
    std: tuple[float, float, float] = CIFAR_STD

    def __post_init__(self) -> None:
        integer("size", self.size, 1)
        for name in ("mean", "std"):
            object.__setattr__(self, name, _triple(name, getattr(self, name)))
        for value in self.std:
            positive("std", value)
        if min(self.mean) < 0 or max(self.mean) > 1 or max(self.std) > 1:
            raise InputError(
                f"mean and std must be those of pixels in [0, 1], got {self.mean} and {self.std}; "
                "divide those of pixels up to 255 by 255"
            )

    def __call__(self, images: Tensor) -> Tensor:
        """(n, 3, H, W) uint8 -> (n, 3, H, W) float32, normalized."""
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
            raise InputError(
                f"images must be uint8 of shape (n, 3, H, W), got {images.dtype} {tuple(images.shape)}; "
                "open them with wildspec.data.load_images"
            )
        return self.normalize(images.float() / 255)

    def normalize(self, pixels: Tensor) -> Tensor:
        """(n, 3, H, W) float in [0, 1] -> normalized, same dtype."""
        mean = pixels.new_tensor(self.mean).view(1, 3, 1, 1)
        std = pixels.new_tensor(self.std).view(1, 3, 1, 1)
        return (pixels - mean) / std

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Preprocess":
        return cls(size=int(value["size"]), mean=value["mean"], std=value["std"])


def _triple(name: str, values: Any) -> tuple[float, float, float]:
    if not isinstance(values, (tuple, list)) or len(values) != 3:
        raise InputError(f"{name} must hold 3 numbers, one for each channel, got {values!r}")
    first, second, third = (number(name, value) for value in values)
    return first, second, third
