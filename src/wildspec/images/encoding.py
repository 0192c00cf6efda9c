"""Every image once through a frozen network; features that are in the cache are taken from it."""

import hashlib
import time
from collections.abc import Callable, Iterator
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
            for first in range(0, len(images), BLOCK):
                rows = np.arange(first, min(first + BLOCK, len(images)))
                yield Encoded(rows, self._block(cache, images.gather(torch.from_numpy(rows)), advance))
        finally:
            cache.prune()

    def _block(self, cache: FeatureCache, pixels: Tensor, advance: Callable[[int], None]) -> Tensor:
        """(b, d) from the cache, what is new computed first."""
        digests = [pixel_digest(image) for image in pixels.cpu().numpy()]
        new = [i for i, digest in enumerate(digests) if digest not in cache]
        new = list({digests[i]: i for i in new}.values())  # the same picture twice is one
        advance(len(digests) - len(new))
        if new:
            cache.add([digests[i] for i in new], *halved(self.encoder.encode(pixels[new], advance)))
        return cache.get(digests)

    def images_per_second(self) -> float:
        """As a fit gets features; from one short run after a first one."""
        side, passes = self.encoder.size, 2 * torch.get_num_threads() if self.encoder.device.type == "cpu" else 2
        shape = (passes * self.encoder.batch, 3, side, side)
        pixels = torch.randint(0, 256, shape, dtype=torch.uint8, device=self.encoder.device)
        self.encoder.encode(pixels).cpu()
        began, spent, done = time.perf_counter(), 0.0, 0
        while spent < MEASURED:
            done += len(self.encoder.encode(pixels).cpu())
            spent = time.perf_counter() - began
        return round(done / spent, 1)


def network_digest(encoder: Encoder) -> str:
    """Of everything that features depend on: weights, scaling of pixels, and the layers as they print themselves."""
    state = tensor_digest({name: value.detach().cpu() for name, value in encoder.state_dict().items()})
    return hashlib.sha256(f"{state} {encoder.network!r}".encode()).hexdigest()


def usual_folder(cache: bool) -> Path | None:
    """The user's cache, or none."""
    return feature_folder() if cache else None
