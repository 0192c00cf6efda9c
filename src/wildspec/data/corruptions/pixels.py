"""What every corruption shares: one random stream per image, and the way back to uint8."""

from collections.abc import Iterator

import numpy as np

Floats = np.ndarray  # (n, 3, H, W) float32 in [0, 1]


class Streams:
    """Independent generators for images ``start``, ``start + 1``, ...: Philox with the image number as its counter.

    What an image gets depends on (seed, kind, severity, image number) alone: not on the batch, the order or the threads.
    """

    def __init__(self, seed: int, kind: int, severity: int, start: int, count: int) -> None:
        self._key = np.random.SeedSequence([seed, kind, severity]).generate_state(2, np.uint64)
        self._start, self._count = start, count

    def __iter__(self) -> Iterator[np.random.Generator]:
        for number in range(self._start, self._start + self._count):
            counter = np.array([0, 0, number, 0], dtype=np.uint64)  # 2**128 draws before it meets the next image
            yield np.random.Generator(np.random.Philox(key=self._key, counter=counter))

    def normal(self, shape: tuple[int, ...]) -> np.ndarray:
        """(count, *shape) float32 standard normal draws, each image's from its own stream."""
        out = np.empty((self._count, *shape), dtype=np.float32)
        for row, generator in zip(out, self, strict=True):
            generator.standard_normal(out=row, dtype=np.float32)
        return out

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """(count, *shape) float32 draws from [0, 1)."""
        out = np.empty((self._count, *shape), dtype=np.float32)
        for row, generator in zip(out, self, strict=True):
            generator.random(out=row, dtype=np.float32)
        return out


def to_floats(images: np.ndarray) -> Floats:
    """uint8 -> float32 in [0, 1]."""
    return images.astype(np.float32) / np.float32(255)


def to_bytes(pixels: Floats) -> np.ndarray:
    """Float in any range -> uint8: clipped to [0, 1], scaled, and cut off (not rounded), as the published sets were made.

    The slack of 1/10,000 of a grey level keeps 127/255 from becoming 126 by rounding error.
    """
    return np.floor(np.clip(pixels, 0, 1) * np.float32(255) + np.float32(1e-4)).astype(np.uint8)
