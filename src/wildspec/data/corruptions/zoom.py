"""Zooming into the centre, by linear interpolation along each axis; zoom blur is the mean over growing zooms."""

import math

import numpy as np

from wildspec.data.corruptions.pixels import Streams, to_bytes, to_floats


def zoomed(pixels: np.ndarray, factor: float) -> np.ndarray:
    """(..., H, W) -> (..., H, W): the central ceil(H / factor) x ceil(W / factor) part, enlarged to the full size."""
    for axis in (-2, -1):
        below, above, weight = _places(pixels.shape[axis], factor)
        shape = [1] * pixels.ndim
        shape[axis] = -1
        weight = weight.reshape(shape)
        pixels = pixels.take(below, axis) * (1 - weight) + pixels.take(above, axis) * weight
    return pixels


def zoom_blur(images: np.ndarray, strength: tuple[float, float, float], streams: Streams) -> np.ndarray:
    """(x + sum over f of zoom(x, f)) / (1 + number of f), f = 1, 1 + step, ... below stop. Nothing random."""
    clean = to_floats(images)
    factors = zoom_factors(strength)
    total = clean.copy()
    for factor in factors:
        total += zoomed(clean, factor)
    return to_bytes(total / np.float32(len(factors) + 1))


def zoom_factors(strength: tuple[float, float, float]) -> np.ndarray:
    """The published generator's own range; by rounding it includes its end (1, 1.01, ..., 1.06 at CIFAR severity 1)."""
    return np.arange(*strength)


def _places(size: int, factor: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each output pixel the two input pixels it lies between and the weight of the second."""
    part = math.ceil(size / factor)
    full = round(part * factor)  # at least size; what is too much is trimmed evenly
    start, trim = (size - part) // 2, (full - size) // 2
    at = np.arange(trim, trim + size) * ((part - 1) / max(full - 1, 1))
    below = np.minimum(np.floor(at).astype(np.int64), part - 1)
    above = np.minimum(below + 1, part - 1)
    return start + below, start + above, (at - below).astype(np.float32)
