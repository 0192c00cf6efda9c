"""``StreamingImages``: an image set larger than memory. Same ``gather`` as ``ImageArrays``, decoded when asked for.

With ``cache`` the first pass writes the decoded, resized pixels to one file, and every later ``gather`` (and every later
run) reads them from there through the page cache: random access costs a copy, not a decode.
"""

import copy
import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wildspec.checks import fraction, integer
from wildspec.data.decode import fit
from wildspec.data.digest import pixel_digest
from wildspec.data.images import Unreadable, as_index, check_labels
from wildspec.data.load import decode_all, readable
from wildspec.data.source import ImageSource
from wildspec.errors import DataError
from wildspec.files import read_json, replacing, write_json

BLOCK = 128  # images gathered at a time


class StreamingImages:
    """Images of a source, fitted to ``size`` as in ``load_images``, decoded by ``workers`` threads when gathered.

    ``cache``: a folder for the pixel file (n * 3 * size**2 bytes; made anew when the source's files change).
    ``verify=True`` decodes everything once at the start, so that unreadable items are left out and counted
    (``max_unreadable``) now rather than met in the middle of a run.
    """

    def __init__(
        self,
        source: ImageSource,
        size: int,
        *,
        workers: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        verify: bool = True,
        max_unreadable: float = 0.05,
    ) -> None:
        self.source, self.size = source, integer("size", size, 1)
        workers = integer("workers", workers, 1) if workers is not None else min(16, os.cpu_count() or 1)
        allowed = fraction("max_unreadable", max_unreadable)
        if len(source) == 0:
            raise DataError("the source holds no images")
        self._stored: np.ndarray | None = None
        self.unreadable: list[Unreadable] = []
        self._digests: list[bytes] | None = None
        if cache is not None:
            self.unreadable, self._stored = _cached(source, self.size, Path(cache), workers, allowed)
        elif verify:
            found: dict[int, bytes] = {}

            def note(i: int, pixels: np.ndarray) -> None:
                found[i] = pixel_digest(pixels.transpose(2, 0, 1))

            self.unreadable = decode_all(source, self.size, note, threads=workers)
            self._digests = [found[i] for i in sorted(found)]
        self.kept = readable(len(source), self.unreadable, allowed)
        self.labels = torch.from_numpy(source.labels[self.kept])
        self.classes = check_labels(self.labels, source.classes)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="wildspec-decode")

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def image_size(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def names(self) -> list[str]:
        return [self.source.name(i) for i in self.kept.tolist()]

    @property
    def digests(self) -> list[bytes]:
        """(n,) of the images' pixels; images that were not decoded at the start are read for it, once."""
        if self._digests is None:
            rows = range(0, len(self), BLOCK)
            blocks = (self.gather(range(first, min(first + BLOCK, len(self)))) for first in rows)
            self._digests = [pixel_digest(pixels) for block in blocks for pixels in block.numpy()]
        return self._digests

    def gather(self, indices: Any) -> Tensor:
        """(b,) indices -> (b, 3, size, size) uint8 in host memory."""
        where = as_index(indices, torch.device("cpu"), len(self)).numpy()
        numbers = self.kept[where]
        if self._stored is not None:
            return torch.from_numpy(np.ascontiguousarray(self._stored[numbers]))
        out = np.empty((len(numbers), 3, self.size, self.size), dtype=np.uint8)
        list(self._pool.map(self._decode_into, out, numbers.tolist()))
        return torch.from_numpy(out)

    def subset(self, indices: Any) -> "StreamingImages":
        """The images at ``indices``; shares the cache and the threads with this one."""
        where = as_index(indices, torch.device("cpu"), len(self))
        other = copy.copy(self)
        other.kept, other.labels, other.unreadable = self.kept[where.numpy()], self.labels[where], []
        other._digests = None if self._digests is None else [self._digests[i] for i in where.tolist()]
        return other

    def close(self) -> None:
        """End the decoding threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _decode_into(self, row: np.ndarray, number: int) -> None:
        try:
            row[...] = fit(self.source.reduced(number, self.size), self.size).transpose(2, 0, 1)
        except DataError as error:
            raise DataError(f"{self.source.name(number)}: {error}; check the images first with verify=True") from error


def _cached(
    source: ImageSource, size: int, folder: Path, workers: int, allowed: float
) -> tuple[list[Unreadable], np.ndarray]:
    """What was unreadable, and all decoded images as a read-only map (n, 3, size, size) of the cache file."""
    mark = source.fingerprint()
    key = hashlib.sha256(f"{mark} {len(source)} {size}".encode()).hexdigest()[:16]
    pixels_path, record_path = folder / f"pixels-{key}.u8", folder / f"pixels-{key}.json"
    shape = (len(source), 3, size, size)
    whole = mark is not None and pixels_path.exists() and pixels_path.stat().st_size == int(np.prod(shape))
    unreadable = _read_record(record_path) if whole else None
    if unreadable is None:
        unreadable = _write_pixels(source, size, pixels_path, workers, allowed)
        record = [{"index": item.index, "name": item.name, "reason": item.reason} for item in unreadable]
        write_json(record_path, {"size": size, "images": len(source), "unreadable": record})
    return unreadable, np.memmap(pixels_path, dtype=np.uint8, mode="r", shape=shape)


def _read_record(path: Path) -> list[Unreadable] | None:
    """What was unreadable when the cache was made; None where the record is gone or damaged."""
    try:
        return [Unreadable(**item) for item in read_json(path)["unreadable"]]
    except (DataError, KeyError, TypeError):
        return None


def _write_pixels(source: ImageSource, size: int, path: Path, workers: int, allowed: float) -> list[Unreadable]:
    # Written, not mapped: on a full disk a write raises, where touching a mapped page would kill the process.
    step = 3 * size * size
    lock = threading.Lock()
    with replacing(path) as temporary, open(temporary, "r+b") as stream:

        def store(i: int, pixels: np.ndarray) -> None:
            data = pixels.transpose(2, 0, 1).tobytes()
            with lock:
                stream.seek(i * step)
                stream.write(data)

        unreadable = decode_all(source, size, store, threads=workers)
        readable(len(source), unreadable, allowed)  # refuse before the file takes its place
        stream.truncate(len(source) * step)
    return unreadable
