"""Defocus blur (a soft disk) and glass blur (pixels taken from random neighbours, between two Gaussian blurs)."""

import numpy as np
from scipy.ndimage import correlate1d, gaussian_filter

from wildspec.data.corruptions.pixels import Streams, to_bytes, to_floats


def disk_kernel(radius: float, soft: float) -> np.ndarray:
    """A disk of weight 1, its edge softened by a Gaussian of 3 x 3 taps (5 x 5 above radius 8). Square, odd, float64.

    At radius 8 and 10 the disk touches the edge of its grid, where softening mirrors instead of spreading: as published, the
    weights then sum to a little more than 1.
    """
    reach, taps = (8, 3) if radius <= 8 else (int(radius), 5)
    line = np.arange(-reach, reach + 1)
    disk = (line[:, None] ** 2 + line[None, :] ** 2 <= radius**2).astype(np.float64)
    disk /= disk.sum()
    edge = np.exp(-((np.arange(taps) - taps // 2) ** 2) / (2 * soft**2))
    for axis in (0, 1):
        disk = correlate1d(disk, edge / edge.sum(), axis=axis, mode="mirror")
    return disk


def defocus_blur(images: np.ndarray, strength: tuple[float, float], streams: Streams) -> np.ndarray:
    """Correlation with ``disk_kernel``, the image mirrored at its borders. Nothing random."""
    kernel = disk_kernel(*strength)
    clean = to_floats(images)
    reach = len(kernel) // 2
    padded = np.pad(clean, ((0, 0), (0, 0), (reach, reach), (reach, reach)), mode="reflect")
    height, width = clean.shape[2:]
    total = np.zeros_like(clean)
    # A sum over shifts, not a library convolution: the same order of additions whatever the batch, so the same bits.
    for dy, dx in np.argwhere(kernel > 1e-9):
        total += padded[:, :, dy : dy + height, dx : dx + width] * np.float32(kernel[dy, dx])
    return to_bytes(total)


def glass_blur(images: np.ndarray, strength: tuple[float, int, int], streams: Streams) -> np.ndarray:
    """Blur, let each inner pixel take the colour of a random neighbour (``taken_from``), blur again."""
    sigma, reach, rounds = strength
    n, channels, height, width = images.shape
    soft = to_bytes(_gaussian(to_floats(images), sigma)).reshape(n, channels, height * width)
    inner = (max(0, height - 2 * reach), max(0, width - 2 * reach))
    steps = np.empty((n, rounds, *inner, 2), dtype=np.int8)
    for row, generator in zip(steps, streams, strict=True):
        row[...] = generator.integers(-reach, reach, size=row.shape, dtype=np.int8)
    for turn in range(rounds):
        where = taken_from(steps[:, turn], height, width, reach)
        soft = np.take_along_axis(soft, where[:, None, :], axis=2)
    return to_bytes(_gaussian(to_floats(soft.reshape(images.shape)), sigma))


def taken_from(steps: np.ndarray, height: int, width: int, reach: int) -> np.ndarray:
    """(n, H * W): which original pixel each pixel shows after one round of exchanges.

    The published generator visits the inner pixels from the bottom right to the top left and means to swap each with its
    neighbour at (dy, dx), but as written the pixel takes the neighbour's colour and the neighbour keeps it; the published
    images are made that way, and so are these. So pixel p shows what its neighbour q showed when p was visited: q's original
    colour, unless q was visited before p, and then what q took. ``steps``: (n, h, w, 2) with dx, dy in [-reach, reach), for
    the inner pixels in the order of the visit. These chains are followed by pointer doubling, all pixels at once.
    """
    n, size = len(steps), height * width
    rows, columns = np.arange(height - reach, reach, -1), np.arange(width - reach, reach, -1)
    inner = (rows[:, None] * width + columns).ravel()
    neighbour = ((rows[:, None] + steps[..., 1]) * width + (columns + steps[..., 0])).reshape(n, -1)
    # Node p < size: what p shows. Node size + q: q's original colour, an end.
    follow = np.broadcast_to(np.concatenate([np.arange(size, 2 * size)] * 2), (n, 2 * size)).copy()
    visited = np.zeros(size, dtype=bool)
    visited[inner] = True
    follow[:, inner] = np.where((neighbour > inner) & visited[neighbour], neighbour, neighbour + size)
    while (follow[:, :size] < size).any():
        follow = np.take_along_axis(follow, follow, axis=1)
    return follow[:, :size] - size


def _gaussian(pixels: np.ndarray, sigma: float) -> np.ndarray:
    """Gaussian blur of height and width, border pixels repeated, cut off at 4 sigma."""
    return gaussian_filter(pixels, (0, 0, sigma, sigma), mode="nearest", truncate=4.0)
