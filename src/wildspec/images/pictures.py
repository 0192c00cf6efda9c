"""Thumbnails kept with a model, for the report and the web page: of which images, and how many there is time for."""

import time
from collections.abc import Iterable

import numpy as np

from wildspec.bundle.gallery import Gallery, encode
from wildspec.data.source import ImageSource
from wildspec.data.streaming import BLOCK
from wildspec.images.reading import Images
from wildspec.images.sizing import typical_side

MOST = {"labelled": 4000, "wild": 600}
LABELLED_SIDE, WILD_SIDE = 96, 128  # pixels
PROBE = 16  # pictures made first, to see how long one takes
SHARE = 0.1  # of the time left, for pictures of labelled images
SHOWN = 60  # most surely rejected, and borderline, wild images that always keep a picture


def labelled_pictures(source: ImageSource, images: Images, seed: int, until: float | None) -> tuple[Gallery, float]:
    """Pictures of training images, fewer where they are large and the time is short; and seconds that one takes."""
    some = np.random.default_rng(seed).permutation(len(images))[: MOST["labelled"]].tolist()
    before = time.monotonic()
    pictures_of(source, images, some[:PROBE], LABELLED_SIDE)
    each = max(1e-6, time.monotonic() - before) / len(some[:PROBE])
    if until is not None:
        some = some[: max(PROBE, int(SHARE * (until - time.monotonic()) / each))]
    return pictures_of(source, images, some, LABELLED_SIDE), each


def pictures_of(source: ImageSource, images: Images, rows: Iterable[int], side: int) -> Gallery:
    """Of images as they were read, if that was not too small for a picture, nor an enlargement; else from their files."""
    size = images.image_size[0]
    if size < side or typical_side(source) < size:
        return Gallery.make(source, images.kept, rows, side)
    wanted, found = sorted(set(rows)), dict[int, bytes]()
    for first in range(0, len(wanted), BLOCK):
        some = wanted[first : first + BLOCK]
        pixels = images.gather(np.array(some)).cpu().permute(0, 2, 3, 1).numpy()
        found |= {row: encode(one, side) for row, one in zip(some, pixels, strict=True)}
    return Gallery.of(found)


def rows_to_show(scores: np.ndarray, threshold: float, seed: int) -> np.ndarray:
    """Wild samples to keep pictures and features of: the most surely rejected, the borderline ones, and a random rest."""
    n = len(scores)
    chosen = set(np.argsort(-scores, kind="stable")[:SHOWN].tolist())
    chosen |= set(np.argsort(np.abs(scores - threshold), kind="stable")[:SHOWN].tolist())
    for row in np.random.default_rng(seed).permutation(n).tolist():
        if len(chosen) >= min(n, MOST["wild"]):
            break
        chosen.add(row)
    return np.array(sorted(chosen), dtype=np.int64)
