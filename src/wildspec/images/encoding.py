"""Every image once through a frozen network; features that are in the cache are taken from it.

On a CPU batches of a few images run side by side, one on each core: larger ones leave the processor's cache, and threads
that share a batch wait for each other.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wildspec.data.digest import pixel_digest
from wildspec.data.images import ImageSet
from wildspec.images.feature_cache import FeatureCache, feature_folder, halved
from wildspec.models.encoder import Encoder
from wildspec.models.package_weights import tensor_digest

BLOCK = 128  # images handed on at a time, and of a shard
MEASURED = 1.0  # seconds, at least, of a measurement of speed


@dataclass(frozen=True)
class Encoded:
    """Of images ``rows`` (b,): ``features`` (b, d), float32 on the CPU."""

    rows: np.ndarray
    features: Tensor


class ImageEncoder:
    """A frozen network with its cache. ``keep``: folder of the cache; None: nothing is kept."""

    def __init__(self, encoder: Encoder, keep: Path | None = None) -> None:
        self.encoder, self.keep = encoder, keep
        self.network = {"network": network_digest(encoder), "size": encoder.size}

    def encode(self, images: ImageSet, advance: Callable[[int], None] = lambda n: None) -> Iterator[Encoded]:
        """Blocks in order; ``advance`` is told of every image that is done."""
        cache = FeatureCache(self.network, self.keep)
        try:
            with _side_by_side(self.encoder) as pool:
                for first in range(0, len(images), BLOCK):
                    rows = np.arange(first, min(first + BLOCK, len(images)))
                    pixels = images.gather(torch.from_numpy(rows))
                    yield Encoded(rows, self._block(cache, pixels, pool, advance))
        finally:
            cache.prune()

    def _block(
        self, cache: FeatureCache, pixels: Tensor, pool: ThreadPoolExecutor, advance: Callable[[int], None]
    ) -> Tensor:
        """(b, d) from the cache, what is new computed first."""
        digests = [pixel_digest(image) for image in pixels.cpu().numpy()]
        new = [i for i, digest in enumerate(digests) if digest not in cache]
        new = list({digests[i]: i for i in new}.values())  # the same picture twice is one
        advance(len(digests) - len(new))
        if new:
            size = self.encoder.batch
            parts = [new[i : i + size] for i in range(0, len(new), size)]
            futures = [pool.submit(self._pass, pixels[part]) for part in parts]
            _follow(futures, [len(part) for part in parts], advance)
            features = torch.cat([future.result() for future in futures])
            cache.add([digests[i] for i in new], *halved(features))
        return cache.get(digests)

    def images_per_second(self) -> float:
        """As a fit gets features, passes side by side; from one short run after a first one."""
        with _side_by_side(self.encoder) as pool:
            side, size = self.encoder.size, self.encoder.batch
            pixels = torch.randint(0, 256, (size, 3, side, side), dtype=torch.uint8, device=self.encoder.device)
            passes = [pixels] * (2 * _cores() if pixels.device.type == "cpu" else 2)
            list(pool.map(self._pass, passes))
            began, spent, done = time.perf_counter(), 0.0, 0
            while spent < MEASURED:
                done += sum(map(len, pool.map(self._pass, passes)))
                spent = time.perf_counter() - began
        return round(done / spent, 1)

    def _pass(self, pixels: Tensor) -> Tensor:
        """(b, 3, S, S) uint8 -> (b, d)."""
        with torch.inference_mode():
            return self.encoder.encode(pixels).cpu()


def network_digest(encoder: Encoder) -> str:
    """Of everything that features depend on: weights, scaling of pixels, and the layers as they print themselves."""
    state = tensor_digest({name: value.detach().cpu() for name, value in encoder.state_dict().items()})
    return hashlib.sha256(f"{state} {encoder.network!r}".encode()).hexdigest()


def usual_folder(cache: bool) -> Path | None:
    """The user's cache, or none."""
    return feature_folder() if cache else None


@contextmanager
def _side_by_side(encoder: Encoder) -> Iterator[ThreadPoolExecutor]:
    """Threads for passes: on a CPU one for each core, each computing alone; for a GPU one, to read while it computes."""
    if encoder.device.type != "cpu":
        with ThreadPoolExecutor(1) as pool:
            yield pool
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # read by threads that start now
    try:
        with ThreadPoolExecutor(max(1, before if before > 1 else _cores())) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)


def _cores() -> int:
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() and int(given) > 0 else os.cpu_count() or 1


def _follow(futures: Sequence["Future[Tensor]"], counts: Sequence[int], advance: Callable[[int], None]) -> None:
    """Tell of passes as they are done; an error ends the rest."""
    count = dict(zip(futures, counts, strict=True))
    left = set(futures)
    try:
        while left:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
                advance(count[future])
    except BaseException:
        for future in left:
            future.cancel()
        raise

