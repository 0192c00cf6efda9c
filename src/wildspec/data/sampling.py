"""Which images a step sees: a pure function of (seed, step), so a resumed run needs nothing but its step number.

Every sampler first makes the global batch (all processes together) and then takes the strided slice
``global[rank::world]``: slices are disjoint, of fixed size, alike in composition, and together they are exactly what one
process with ``batch * world`` would draw.
"""

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from wildspec.checks import integer
from wildspec.data.images import ImageSet
from wildspec.errors import InputError


class WildData(Protocol):
    """What ``MixtureSampler`` needs: ``WildMixture`` and ``WildPool`` have it."""

    part_names: tuple[str, ...]
    pool: ImageSet
    sizes: tuple[int, ...]
    component: np.ndarray

    def __len__(self) -> int: ...

    def counts(self, batch: int) -> tuple[int, ...]: ...


def permutation(n: int, seed: int, stream: int, epoch: int) -> np.ndarray:
    """The order of n items in one epoch: a function of its arguments alone (Philox keyed by a SeedSequence)."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, stream, epoch]))).permutation(n)


class _Cycle:
    """Blocks of ``take`` out of n, epoch after epoch, each epoch in its own order; block ``step`` is random access. The
    n % take items at the end of an epoch's order wait for another epoch. ``stream`` separates cycles that share a seed."""

    def __init__(self, n: int, take: int, seed: int, stream: int) -> None:
        self.n, self.take, self.seed, self.stream = n, take, seed, stream
        self.blocks = n // take
        self._epoch = -1
        self._order = np.empty(0, dtype=np.int64)

    def block(self, step: int) -> np.ndarray:
        epoch, number = divmod(step, self.blocks)
        if epoch != self._epoch:
            self._order, self._epoch = permutation(self.n, self.seed, self.stream, epoch), epoch
        return self._order[number * self.take : (number + 1) * self.take]


class _Sharded(ABC):
    """Batch, seed and place among the processes, checked once."""

    def __init__(self, batch: int, seed: int, rank: int, world: int) -> None:
        self.batch = integer("batch", batch, 1)
        self.seed = integer("seed", seed, 0)
        self.world = integer("world", world, 1)
        self.rank = integer("rank", rank, 0, self.world - 1)
        self.global_batch = self.batch * self.world

    @abstractmethod
    def _global(self, step: int) -> np.ndarray:
        """(batch * world,) int64: the joint batch of all processes."""

    def indices(self, step: int) -> np.ndarray:
        """(batch,) int64: what this process sees at ``step`` = 0, 1, ..."""
        return np.ascontiguousarray(self._global(integer("step", step, 0))[self.rank :: self.world], dtype=np.int64)


class EpochSampler(_Sharded):
    """Every image at most once per epoch, in a new order each epoch. ``batch`` is the batch of one process; an epoch has
    ``n // (batch * world)`` steps, and the images left over wait for another one."""

    def __init__(self, n: int, batch: int, *, seed: int, rank: int = 0, world: int = 1) -> None:
        super().__init__(batch, seed, rank, world)
        self.n = integer("n", n, 0)
        if n == 0:
            raise InputError("the labelled set is empty; give at least one labelled image")
        if n < self.global_batch:
            raise InputError(
                f"the labelled set has {n} images, fewer than one batch of {_product(self.batch, self.world)}; "
                f"use a smaller batch or add data"
            )
        self._cycle = _Cycle(n, self.global_batch, self.seed, stream=0)

    @property
    def steps_per_epoch(self) -> int:
        return self._cycle.blocks

    def _global(self, step: int) -> np.ndarray:
        return self._cycle.block(step)


class MixtureSampler(_Sharded):
    """Fixed numbers of each component per global batch (``mixture.counts``), each component cycled in its own epochs.

    Indices point into ``mixture.pool``. ``steps_per_epoch``: steps until every component has been gone through.
    """

    def __init__(self, mixture: WildData, batch: int, *, seed: int, rank: int = 0, world: int = 1) -> None:
        super().__init__(batch, seed, rank, world)
        joint = _product(self.batch, self.world)
        if len(mixture) < self.global_batch and len(mixture.sizes) == 1:
            raise InputError(
                f"the wild pool has {len(mixture)} images, fewer than one batch of {joint}; "
                "use a smaller batch_wild or add wild images"
            )
        self.counts = mixture.counts(self.global_batch)
        self._cycles: list[tuple[int, _Cycle]] = []
        start = 0
        for part, (name, size, count) in enumerate(zip(mixture.part_names, mixture.sizes, self.counts, strict=True)):
            if size > 0 and count == 0:
                raise InputError(
                    f"the {name} component of the wild mixture gets no image in a batch of {joint} and would never "
                    "be seen; use a larger batch_wild or set its share to 0"
                )
            if size < count:
                raise InputError(
                    f"the {name} component of the wild mixture has {size} images but its share of a batch of {joint} "
                    f"is {count}; use a smaller batch_wild, a smaller share or more images"
                )
            if count:
                # Stream 0 is the labelled sampler's: the parts of the pool have their own orders.
                self._cycles.append((start, _Cycle(size, count, self.seed, 1 + part)))
            start += size

    @property
    def steps_per_epoch(self) -> int:
        return max(cycle.blocks for _, cycle in self._cycles)

    def _global(self, step: int) -> np.ndarray:
        return np.concatenate([start + cycle.block(step) for start, cycle in self._cycles])


def _product(batch: int, world: int) -> str:
    return str(batch) if world == 1 else f"{batch} x {world} processes"
