"""Snow: a thresholded, zoomed noise layer, blurred along a random slope, laid over a whitened image from both sides."""

import math

import numpy as np

from wildspec.data.corruptions.pixels import Streams, to_bytes, to_floats
from wildspec.data.corruptions.zoom import zoomed

_GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)
_Strength = tuple[float, float, float, float, float, float, float]


def snow(images: np.ndarray, strength: _Strength, streams: Streams) -> np.ndarray:
    """w x + (1 - w) max(x, 1.5 grey(x) + 0.5) + flakes + flakes turned by 180 degrees."""
    mean, deviation, zoom, threshold, radius, sigma, weight = strength
    height, width = images.shape[2:]
    noise = np.empty((len(images), height, width), dtype=np.float32)
    angles = np.empty(len(images))
    for row, generator in enumerate(streams):
        noise[row] = generator.standard_normal((height, width), dtype=np.float32)
        angles[row] = generator.uniform(-135, -45)
    flakes = zoomed(np.float32(mean) + np.float32(deviation) * noise, zoom)
    flakes[flakes < threshold] = 0
    flakes = to_floats(np.rint(motion_blur(to_bytes(flakes), radius, sigma, angles)).astype(np.uint8))[:, None]

    clean = to_floats(images)
    grey = (clean * _GREY[:, None, None]).sum(axis=1, keepdims=True)
    white = np.maximum(clean, grey * np.float32(1.5) + np.float32(0.5))
    pale = np.float32(weight) * clean + np.float32(1 - weight) * white
    return to_bytes(pale + flakes + flakes[:, :, ::-1, ::-1])


def motion_blur(layers: np.ndarray, radius: float, sigma: float, angles: np.ndarray) -> np.ndarray:
    """(n, H, W) and (n,) degrees -> (n, H, W) float32: sum_j k_j layer(y + dy_j, x + dx_j), border pixels repeated.

    One-sided, as ImageMagick does it: j = 0 .. 2 ceil(radius), k_j ~ exp(-j^2 / 2 sigma^2) with sum 1, and the j-th point is
    j steps along the angle, rounded half down: dx_j = ceil(j cos(angle) - 1/2), dy_j = ceil(j sin(angle) - 1/2).
    """
    n, height, width = layers.shape
    taps = np.arange(2 * math.ceil(radius) + 1)
    kernel = np.exp(-(taps**2) / (2 * sigma**2))
    kernel = (kernel / kernel.sum()).astype(np.float32)
    turn = np.deg2rad(angles)[:, None]
    across = np.ceil(taps * np.cos(turn) - 0.5).astype(np.int64)  # (n, taps)
    down = np.ceil(taps * np.sin(turn) - 0.5).astype(np.int64)
    flat = layers.reshape(n, height * width).astype(np.float32)
    out = np.zeros_like(flat)
    for tap in taps:
        rows = np.clip(np.arange(height) + down[:, tap, None], 0, height - 1)  # (n, H)
        columns = np.clip(np.arange(width) + across[:, tap, None], 0, width - 1)  # (n, W)
        where = rows[:, :, None] * width + columns[:, None, :]
        out += kernel[tap] * np.take_along_axis(flat, where.reshape(n, -1), axis=1)
    return out.reshape(n, height, width)
