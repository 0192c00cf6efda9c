"""Every image once through a frozen network: clean features, and those of V views, from the cache where they are in it.

On a CPU batches of a few images run side by side, one on each core: larger ones leave the processor's cache, and threads
that share a batch wait for each other. A view's random numbers come from its image's digest: the same on every run, in
whatever order and beside whatever other images.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wildspec.data.augment import Augmentation, AugmentParams
from wildspec.data.images import ImageSet
from wildspec.images.feature_cache import BYTES, FeatureCache, feature_folder, halved
from wildspec.models.encoder import Encoder
from wildspec.models.package_weights import tensor_digest

CPU_VIEWS, GPU_VIEWS = 4, 8  # of an image
BLOCK = 128  # images handed on at a time, and of a shard
LIGHT_AND_PLACE = Augmentation(
    scale=(0.4, 1.0), jitter=(0.5, 0.5, 0.4, 0.05), jitter_p=0.8, grey=0.1, blur=0.3, blur_sigma=(0.1, 2.0), noise=0.15,
    noise_p=0.3,
)  # fmt: skip


@dataclass(frozen=True)
class Encoded:
    """Of images ``rows`` (b,): ``clean`` (b, d) and ``views`` (b, V, d), float32 on the CPU."""

    rows: np.ndarray
    clean: Tensor
    views: Tensor


class ImageEncoder:
    """A frozen network with its views and its cache. ``keep``: folder of the cache; None: nothing is kept."""

    def __init__(
        self, encoder: Encoder, augmentation: Augmentation = LIGHT_AND_PLACE, keep: Path | None = None
    ) -> None:
        self.encoder, self.augmentation, self.keep = encoder, augmentation, keep
        self.network = {"network": network_digest(encoder), "size": encoder.size}

    def encode(self, images: ImageSet, views: int = 0, advance: Callable[[int], None] = lambda n: None) -> Iterator[Encoded]:
        """Blocks in order; ``advance`` is told of every pass that is done, 1 + views an image."""
        clean = FeatureCache({**self.network, "views": 0}, self.keep)
        drawn = FeatureCache({**self.network, "views": views, "augmentation": self.augmentation.to_json()}, self.keep)
        try:
            with _side_by_side(self.encoder) as pool:
                for first in range(0, len(images), BLOCK):
                    rows = np.arange(first, min(first + BLOCK, len(images)))
                    pixels = images.gather(torch.from_numpy(rows))
                    digests = [pixel_digest(image) for image in pixels.cpu().numpy()]
                    plain = self._block(clean, pixels, digests, 0, pool, advance)[:, 0]
                    moved = self._block(drawn, pixels, digests, views, pool, advance) if views else plain[:, None][:, :0]
                    yield Encoded(rows, plain, moved)
        finally:
            clean.prune()

    def _block(
        self, cache: FeatureCache, pixels: Tensor, digests: Sequence[bytes], views: int, pool: ThreadPoolExecutor,
        advance: Callable[[int], None],
    ) -> Tensor:  # fmt: skip
        """(b, max(1, views), d) from the cache, what is new computed first."""
        passes = max(1, views)
        new = [i for i, digest in enumerate(digests) if digest not in cache]
        new = list({digests[i]: i for i in new}.values())  # the same picture twice is one
        advance(passes * (len(digests) - len(new)))
        if new:
            size = max(1, self.encoder.batch // passes) if views else self.encoder.batch
            parts = [new[i : i + size] for i in range(0, len(new), size)]
            futures = [pool.submit(self._pass, pixels[part], [digests[i] for i in part], views) for part in parts]
            _follow(futures, [passes * len(part) for part in parts], advance)
            features = torch.cat([future.result() for future in futures])
            cache.add([digests[i] for i in new], *halved(features))
        return cache.get(digests)

    def _pass(self, pixels: Tensor, digests: Sequence[bytes], views: int) -> Tensor:
        """(b, 3, S, S) uint8 -> (b, max(1, views), d)."""
        with torch.inference_mode():
            if not views:
                return self.encoder.encode(pixels).unsqueeze(1)
            each = [self._draw(digest, view) for digest in digests for view in range(views)]
            where = self.encoder.device
            params = AugmentParams(*(torch.cat(parts).to(where) for parts in zip(*each, strict=True)))
            made = self.augmentation.apply(pixels.to(where).repeat_interleave(views, dim=0), params)
            seen = self.encoder.encode((made * 255).round().to(torch.uint8))
            return seen.view(len(pixels), views, -1).cpu()

    def _draw(self, digest: bytes, view: int) -> AugmentParams:
        seed = hashlib.blake2b(digest + view.to_bytes(4, "little"), digest_size=7).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(seed, "little"))
        return self.augmentation.draw(1, self.encoder.size, generator)


def network_digest(encoder: Encoder) -> str:
    """Of everything that features depend on: weights, scaling of pixels, and the layers as they print themselves."""
    state = tensor_digest({name: value.detach().cpu() for name, value in encoder.state_dict().items()})
    return hashlib.sha256(f"{state} {encoder.network!r}".encode()).hexdigest()


def pixel_digest(pixels: np.ndarray) -> bytes:
    """(3, S, S) uint8 -> 16 bytes."""
    return hashlib.blake2b(pixels.tobytes(), digest_size=BYTES).digest()


def usual_folder(cache: bool) -> Path | None:
    """The user's cache, or none."""
    return feature_folder() if cache else None


@contextmanager
def _side_by_side(encoder: Encoder) -> Iterator[ThreadPoolExecutor]:
    """Threads for passes: on a CPU one for each core, each computing alone; for a GPU one, to draw while it computes."""
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

