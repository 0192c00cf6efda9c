"""``load_images``: decode a whole source into memory, in parallel, and say what could not be read."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from wildspec.checks import fraction, integer
from wildspec.data.decode import fit
from wildspec.data.images import ImageArrays, Unreadable
from wildspec.data.source import ImageSource
from wildspec.errors import DataError, InputTypeError

_CHUNK = 64  # images a thread takes at a time


def load_images(
    source: ImageSource, size: int | None = None, *, threads: int | None = None, max_unreadable: float = 0.05
) -> ImageArrays:
    """Decode everything into one uint8 (n, 3, S, S) tensor.

    ``size``: shorter side resized to S with antialiasing, then the centre cut out; None: the images must all have one size
    already. Unreadable items are left out and listed in ``.unreadable``; more than ``max_unreadable`` of them, or nothing
    left, is an error. ``threads``: as many as there are cores, up to 16, by default.
    """
    if not isinstance(source, ImageSource):
        raise InputTypeError(f"source must be an ImageSource, got {type(source).__name__}; open it with open_source first")
    allowed = fraction("max_unreadable", max_unreadable)
    if size is not None:
        size = integer("size", size, 1)
    if len(source) == 0:
        raise DataError("the source holds no images")
    shape = (size, size) if size is not None else _first_size(source, allowed)
    images = np.empty((len(source), 3, *shape), dtype=np.uint8)

    def store(i: int, pixels: np.ndarray) -> None:
        if size is None and pixels.shape[:2] != shape:
            raise DataError(
                f"images of different sizes: {source.name(i)} is {_by(pixels.shape)}, others are {_by(shape)}; "
                "pass size= to resize them all"
            )
        images[i] = pixels.transpose(2, 0, 1)

    unreadable = decode_all(source, size, store, threads=threads)
    kept = readable(len(source), unreadable, allowed)
    if unreadable:
        images = images[kept]
    return ImageArrays(
        images=torch.from_numpy(images),
        labels=torch.from_numpy(source.labels[kept]),
        classes=source.classes,
        names=[source.name(i) for i in kept.tolist()],
        unreadable=unreadable,
        kept=kept,
    )


def decode_all(
    source: ImageSource, size: int | None, store: Callable[[int, np.ndarray], None], *, threads: int | None = None
) -> list[Unreadable]:
    """Decode (and fit to ``size``) every item on several threads, hand each to ``store``; returns what was unreadable."""
    threads = integer("threads", threads, 1) if threads is not None else min(16, os.cpu_count() or 1)

    def work(start: int) -> list[Unreadable]:
        failed = []
        for i in range(start, min(start + _CHUNK, len(source))):
            try:
                fitted = source.load(i) if size is None else fit(source.reduced(i, size), size)
            except DataError as error:
                failed.append(Unreadable(i, source.name(i), str(error)))
            except MemoryError:  # of one image: the others may fit
                failed.append(Unreadable(i, source.name(i), "not enough memory to decode it"))
            else:
                store(i, fitted)
        return failed

    starts = range(0, len(source), _CHUNK)
    if threads == 1:
        return [item for start in starts for item in work(start)]
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work, start) for start in starts]
        try:
            return [item for future in futures for item in future.result()]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)  # do not decode the rest of a set that is refused
            raise


def readable(n: int, unreadable: list[Unreadable], allowed: float) -> np.ndarray:
    """Indices of the readable items; DataError when more than ``allowed`` of n could not be read, or none could."""
    if len(unreadable) > allowed * n or len(unreadable) == n:
        raise _too_many(n, unreadable, allowed)
    keep = np.ones(n, dtype=bool)
    keep[[item.index for item in unreadable]] = False
    return np.flatnonzero(keep)


def _first_size(source: ImageSource, allowed: float) -> tuple[int, int]:
    failed: list[Unreadable] = []
    for i in range(len(source)):
        try:
            height, width = source.load(i).shape[:2]
            return height, width
        except DataError as error:
            failed.append(Unreadable(i, source.name(i), str(error)))
            if len(failed) > allowed * len(source):
                break
    raise _too_many(len(source), failed, allowed)


def _too_many(n: int, unreadable: list[Unreadable], allowed: float) -> DataError:
    first = "; ".join(f"{item.name}: {item.reason}" for item in unreadable[:3])
    more = f"; and {len(unreadable) - 3} more" if len(unreadable) > 3 else ""
    limit = f" (allowed: {allowed:.0%})" if allowed else ""  # none: whoever asks about an image wants an answer for it
    instead = ", or raise max_unreadable" if allowed and len(unreadable) < n else ""
    return DataError(
        f"{len(unreadable)} of {n} images could not be read{limit}: {first}{more}; repair or remove them{instead}"
    )


def _by(shape: tuple[int, ...]) -> str:
    return f"{shape[0]}x{shape[1]}"
