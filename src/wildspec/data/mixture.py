"""The wild data (paper, Section 2): P_wild = (1 - pi_c - pi_s) P_in + pi_c P_covariate + pi_s P_semantic.

A mixture fixes how many images of each component a batch holds, so shapes never change (the authors' code draws three
independent Bernoulli masks, whose size varies; docs/deviations.md).
"""

import math

import numpy as np

from wildspec.checks import fraction, integer
from wildspec.data.apportion import apportion
from wildspec.data.images import ImageArrays, ImageSet, JoinedImages, concat
from wildspec.errors import InputError

IN_DIST, COVARIATE, SEMANTIC = 0, 1, 2


class WildPool:
    """A plain pool of unlabelled images, for real use: nobody knows what is in it.

    ``pool``: the images, labels hidden. ``component``: (n,) int8, -1 = unknown.
    """

    part_names: tuple[str, ...] = ("wild",)

    def __init__(self, images: ImageSet) -> None:
        if len(images) == 0:
            raise InputError("the wild pool is empty; give at least one unlabelled image")
        self.pool: ImageSet = _hidden(images)
        self.sizes: tuple[int, ...] = (len(images),)
        self.component = np.full(len(images), -1, dtype=np.int8)

    def __len__(self) -> int:
        return len(self.pool)

    def counts(self, batch: int) -> tuple[int, ...]:
        """Images of each part in a batch of ``batch``: all of them."""
        return (integer("batch", batch, 1),)

    def weights(self) -> np.ndarray:
        """(n,) how often an image of the pool is met, summing to 1: all alike."""
        return np.full(len(self), 1 / len(self))

    def typical(self, seed: int = 0) -> np.ndarray:
        """(m,) rows of the pool that are met together: all of them."""
        return np.arange(len(self))


class WildMixture:
    """A wild pool of known composition, for experiments.

    A component of share 0 may be None and is left out of the pool. ``pool``: all wild images, one image set, labels
    hidden. ``component``: (n,) int8, 0 in-distribution, 1 covariate, 2 semantic; for evaluation only. ``sizes``: images
    per component.
    """

    part_names: tuple[str, ...] = ("in-distribution", "covariate", "semantic")

    def __init__(
        self,
        in_dist: ImageSet | None,
        covariate: ImageSet | None,
        semantic: ImageSet | None,
        pi_c: float = 0.5,
        pi_s: float = 0.1,
    ) -> None:
        self.pi_c = fraction("pi_c", pi_c)
        self.pi_s = fraction("pi_s", pi_s)
        rest = 1 - self.pi_c - self.pi_s
        if rest < -1e-9:
            raise InputError(
                f"pi_c + pi_s must be at most 1, got {self.pi_c:g} + {self.pi_s:g} = {self.pi_c + self.pi_s:g}; "
                "the remainder is the share of in-distribution images"
            )
        self.shares = (rest if rest > 1e-9 else 0.0, self.pi_c, self.pi_s)
        kept: list[ImageSet] = []
        sizes = []
        for name, share, images in zip(self.part_names, self.shares, (in_dist, covariate, semantic), strict=True):
            size = len(images) if images is not None and share > 0 else 0
            if share > 0 and size == 0:
                raise InputError(
                    f"the {name} component of the wild mixture has share {share:g} but no images; "
                    "give images or set its share to 0"
                )
            if images is not None and size:
                kept.append(_hidden(images))
            sizes.append(size)
        self.sizes: tuple[int, ...] = tuple(sizes)
        self.pool: ImageSet = _joined(kept)
        self.component = np.repeat(np.arange(3, dtype=np.int8), sizes)

    def __len__(self) -> int:
        return len(self.pool)

    def counts(self, batch: int) -> tuple[int, int, int]:
        """(n_in, n_cov, n_sem) in a batch: largest remainder, e.g. 51/64/13 of 128; shares off by less than one image."""
        n_in, n_cov, n_sem = apportion(self.shares, integer("batch", batch, 1))
        return n_in, n_cov, n_sem

    def weights(self) -> np.ndarray:
        """(n,) how often an image of the pool is met, summing to 1: its component's share over its component's size.

        The sizes of the components say nothing about the wild data; whoever looks at the pool as a whole weighs by this.
        """
        return np.concatenate([
            np.full(size, share / size) for share, size in zip(self.shares, self.sizes, strict=True) if size
        ])  # fmt: skip

    def typical(self, seed: int = 0) -> np.ndarray:
        """(m,) rows, sorted: the largest sub-pool whose components have their shares, as a user would have collected it."""
        whole = min(size / share for share, size in zip(self.shares, self.sizes, strict=True) if share > 0)
        rng = np.random.default_rng(seed)
        rows, start = [], 0
        whole = math.floor(whole * (1 + 1e-12))  # 3 / (1 - 0.5 - 0.2) is 9.999...
        for size, count in zip(self.sizes, apportion(self.shares, whole), strict=True):
            rows.append(start + np.sort(rng.permutation(size)[:count]))
            start += size
        return np.concatenate(rows)


def _hidden(images: ImageSet) -> ImageSet:
    if isinstance(images, ImageArrays):
        return images.unlabelled()
    return JoinedImages(images, labelled=False)


def _joined(parts: list[ImageSet]) -> ImageSet:
    arrays = [part for part in parts if isinstance(part, ImageArrays)]
    if len(arrays) == len(parts):
        return concat(*arrays)
    return JoinedImages(*parts, labelled=False)
