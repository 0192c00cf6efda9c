"""``corrupt``: one entrance for all kinds. Same images, seed and image numbers give the same result, bit for bit."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wildspec.checks import choice, integer
from wildspec.data.corruptions.blur import defocus_blur, glass_blur
from wildspec.data.corruptions.constants import CONSTANTS
from wildspec.data.corruptions.noise import gaussian_noise, impulse_noise, shot_noise
from wildspec.data.corruptions.pixels import Streams
from wildspec.data.corruptions.snow import snow
from wildspec.data.corruptions.zoom import zoom_blur
from wildspec.errors import InputError

_FUNCTIONS: dict[str, Callable[[np.ndarray, Any, Streams], np.ndarray]] = {
    "gaussian_noise": gaussian_noise,
    "shot_noise": shot_noise,
    "impulse_noise": impulse_noise,
    "defocus_blur": defocus_blur,
    "glass_blur": glass_blur,
    "zoom_blur": zoom_blur,
    "snow": snow,
}
CORRUPTIONS: tuple[str, ...] = tuple(_FUNCTIONS)
_VALUES_PER_CHUNK = 1 << 20  # pixel values a thread works on at a time: bounds the memory, keeps them in the cache


def corrupt(
    images: Tensor, kind: str, severity: int, seed: int, *, start_index: int = 0, constants: str = "auto"
) -> Tensor:
    """Corrupt uint8 (n, 3, H, W) images; returns uint8 of the same shape, on the same device.

    ``kind``: one of ``CORRUPTIONS``. ``severity``: 1 (mild) to 5. ``constants``: ``"cifar"``, ``"imagenet"``, or
    ``"auto"``: CIFAR-10-C's up to 32 pixels, ImageNet-C's above. Image k of the batch is image number
    ``start_index + k``, and its random draws depend on (seed, kind, severity, image number) alone. Give training and
    test images different seeds, or image k of both gets the same noise.
    """
    if not isinstance(images, Tensor) or images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
        got = f"{images.dtype} {tuple(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
        raise InputError(f"images must be a uint8 tensor of shape (n, 3, H, W), got {got}; open them with load_images")
    choice("kind", kind, CORRUPTIONS)
    severity = integer("severity", severity, 1, 5)
    seed = integer("seed", seed)
    start = integer("start_index", start_index)
    if choice("constants", constants, ("auto", *CONSTANTS)) == "auto":
        constants = "cifar" if max(images.shape[2:]) <= 32 else "imagenet"
    strength = CONSTANTS[constants][kind][severity - 1]
    number = CORRUPTIONS.index(kind)

    clean = images.cpu().numpy()
    out = np.empty_like(clean)
    step = max(1, _VALUES_PER_CHUNK // max(1, clean[:1].size))

    def work(first: int) -> None:
        part = clean[first : first + step]
        streams = Streams(seed, number, severity, start + first, len(part))
        out[first : first + step] = _FUNCTIONS[kind](part, strength, streams)

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        list(pool.map(work, range(0, len(clean), step)))
    return torch.from_numpy(out).to(images.device)
