"""Batches of stored pixels for a step, on the compute device.

Image sets in memory are moved to the device once and indexed there; streaming sets are read by background threads and
copied over. Which images a step sees is a pure function of (seed, stage, step), the same for any number of processes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from wildspec.data import EpochSampler, ImageArrays, ImageSet, MixtureSampler, Preprocess
from wildspec.errors import InputError
from wildspec.methods.base import Stage
from wildspec.training.settings import TrainData


@dataclass
class RawBatch:
    """Pixels as stored: (n, 3, S, S) and (m, 3, S, S) uint8, labels and environments (n,), all on the device."""

    labelled: Tensor
    labels: Tensor
    wild: Tensor | None
    environments: Tensor | None


class DeviceData:
    """The training data, moved to the device where it is small enough to live there."""

    def __init__(self, data: TrainData, device: torch.device) -> None:
        self.device = device
        self.data = data
        self.labelled = _resident(data.labelled, device)
        self.wild = None if data.wild is None else _resident(data.wild.pool, device)
        self.labels = data.labelled.labels.to(device)
        self.environments = None if data.environments is None else data.environments.to(device)
        assert data.preprocess is not None
        self.preprocess: Preprocess = data.preprocess

    def labelled_batches(self, batch_size: int = 512) -> Iterator[tuple[Tensor, Tensor]]:
        """One pass over the labelled set, un-augmented and normalized: (images, labels)."""
        for start in range(0, len(self.labelled), batch_size):
            where = torch.arange(start, min(start + batch_size, len(self.labelled)), device=self.device)
            pixels = self.labelled.gather(where).to(self.device)
            yield self.preprocess(pixels), self.labels[where]


class Feed:
    """The batches of one stage. Stage batch sizes are those of all processes together."""

    def __init__(self, source: DeviceData, stage: Stage, *, seed: int, rank: int = 0, world: int = 1) -> None:
        self.source = source
        for name in ("batch_labelled", "batch_wild"):
            if getattr(stage, name) % world:
                raise InputError(f"{name} ({getattr(stage, name)}) must be a multiple of the {world} processes")
        self._labelled = EpochSampler(
            len(source.labelled), stage.batch_labelled // world, seed=seed, rank=rank, world=world
        )
        self._wild = None
        if stage.batch_wild:
            if source.data.wild is None:
                raise InputError(f"stage {stage.name!r} needs wild images; give a wild pool (--wild DIR)")
            self._wild = MixtureSampler(
                source.data.wild, stage.batch_wild // world, seed=seed, rank=rank, world=world
            )

    @property
    def steps_per_epoch(self) -> int:
        return self._labelled.steps_per_epoch

    def batch(self, step: int) -> RawBatch:
        """What this process sees at ``step`` of the stage."""
        device = self.source.device
        where = torch.from_numpy(self._labelled.indices(step)).to(device, non_blocking=True)
        labelled = self.source.labelled.gather(where)
        wild = None
        if self._wild is not None and self.source.wild is not None:
            wild_where = torch.from_numpy(self._wild.indices(step)).to(device, non_blocking=True)
            wild = self.source.wild.gather(wild_where).to(device, non_blocking=True)
        environments = None if self.source.environments is None else self.source.environments[where]
        return RawBatch(labelled.to(device, non_blocking=True), self.source.labels[where], wild, environments)


def _resident(images: ImageSet, device: torch.device) -> ImageSet:
    return images.to(device) if isinstance(images, ImageArrays) else images
