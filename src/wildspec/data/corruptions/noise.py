"""Gaussian, shot (Poisson) and impulse (salt and pepper) noise: x in [0, 1], every value of every channel on its own."""

import numpy as np

from wildspec.data.corruptions.pixels import Streams, to_bytes, to_floats


def gaussian_noise(images: np.ndarray, sigma: float, streams: Streams) -> np.ndarray:
    """x + sigma e, e ~ N(0, 1)."""
    noise = streams.normal(images.shape[1:])
    noise *= np.float32(sigma)
    noise += to_floats(images)
    return to_bytes(noise)


def shot_noise(images: np.ndarray, photons: float, streams: Streams) -> np.ndarray:
    """Poisson(photons x) / photons: mean x, variance x / photons before clipping."""
    rate = images.astype(np.float64) * (photons / 255)
    out = np.empty(images.shape, dtype=np.float32)
    for row, lam, generator in zip(out, rate, streams, strict=True):
        row[...] = generator.poisson(lam)
    return to_bytes(out / np.float32(photons))


def impulse_noise(images: np.ndarray, share: float, streams: Streams) -> np.ndarray:
    """A share of the values is replaced, half of them by 0, half by 255."""
    draw = streams.uniform(images.shape[1:])
    out = images.copy()
    out[draw < share] = 255
    out[draw < share / 2] = 0
    return out
