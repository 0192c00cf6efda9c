"""Batches of stored pixels for a step, on the compute device.

Image sets in memory are moved to the device once and indexed there; streaming sets are read by background threads and
copied over. Which images a step sees is a pure function of (seed, stage, step), the same for any number of processes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from wildspec.checks import choice
from wildspec.data import EpochSampler, ImageArrays, ImageSet, MixtureSampler, Preprocess
from wildspec.data.augment import Augmentation
from wildspec.data.prefetching import prefetch
from wildspec.errors import InputError
from wildspec.methods.base import Stage
from wildspec.training.settings import TrainData

AHEAD = 3  # steps that streaming sets are read ahead
RESIDENT_SHARE = 0.4  # of the device's free memory that one image set may take


@dataclass
class RawBatch:
    """Pixels as stored: (n, 3, S, S) and (m, 3, S, S) uint8, labels and environments (n,), all on the device.

    ``wild_rows``: (m,) int64, place of each wild image in the pool.
    """

    labelled: Tensor
    labels: Tensor
    wild: Tensor | None
    environments: Tensor | None
    wild_rows: Tensor | None = None


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
        self.streams = any(not _is_resident(s, device) for s in (self.labelled, self.wild) if s is not None)

    @property
    def sizes(self) -> list[int]:
        """How many labelled and wild images."""
        return [len(self.labelled), 0 if self.wild is None else len(self.wild)]

    def labelled_batches(self, batch_size: int = 512) -> Iterator[tuple[Tensor, Tensor]]:
        """One pass over the labelled set, un-augmented and normalized: (images, labels)."""
        for start in range(0, len(self.labelled), batch_size):
            where = torch.arange(start, min(start + batch_size, len(self.labelled)))
            yield self.preprocess(_gather(self.labelled, where, self.device)), self.labels[where.to(self.device)]

    def views(self, augmentation: Augmentation, part: str, count: int, batch_size: int = 256) -> Iterator[Tensor]:
        """One pass over "labelled" or "wild", in order: (count, b, 3, S, S) augmented, normalized views; with a count of 0
        (1, b, 3, S, S), the images themselves.

        The views come from a generator of their own, always the same: making them changes nothing else in a run.
        """
        images = self.labelled if choice("part", part, ("labelled", "wild")) == "labelled" else self.wild
        if images is None:
            raise InputError("there is no wild pool to make views of; give wild images (--wild DIR)")
        generator = torch.Generator(device=self.device).manual_seed(0)
        for start in range(0, len(images), batch_size):
            where = torch.arange(start, min(start + batch_size, len(images)))
            pixels = _gather(images, where, self.device)
            if count == 0:
                yield self.preprocess(pixels)[None]
                continue
            drawn = [augmentation.draw(len(pixels), pixels.shape[-1], generator) for _ in range(count)]
            yield torch.stack([self.preprocess.normalize(augmentation.apply(pixels, params)) for params in drawn])


class Feed:
    """The batches of one stage. Stage batch sizes are those of all processes together."""

    def __init__(self, source: DeviceData, stage: Stage, *, seed: int, rank: int = 0, world: int = 1) -> None:
        self.source = source
        for name in ("batch_labelled", "batch_wild"):
            if getattr(stage, name) % world:
                raise InputError(f"{name} ({getattr(stage, name)}) must be a multiple of the {world} processes")
        if stage.batch_labelled > (have := len(source.labelled)):
            raise InputError(
                f"stage {stage.name!r} has batches of {stage.batch_labelled} labelled images, the labelled set has {have}; "
                f"lower batch_labelled (--set {stage.name}.batch_labelled={have}) or add images"
            )
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

    def batches(self, start: int, stop: int) -> Iterator[RawBatch]:
        """The batches of steps ``start`` to ``stop - 1``; sets that stream are read a few steps ahead by a thread."""
        if self.source.streams:
            yield from prefetch(self.batch, range(start, stop), depth=AHEAD)
        else:
            yield from map(self.batch, range(start, stop))

    def batch(self, step: int) -> RawBatch:
        """What this process sees at ``step`` of the stage."""
        device, where = self.source.device, torch.from_numpy(self._labelled.indices(step))
        labelled = _gather(self.source.labelled, where, device)
        wild = rows = None
        if self._wild is not None and self.source.wild is not None:
            rows = torch.from_numpy(self._wild.indices(step))
            wild, rows = _gather(self.source.wild, rows, device), rows.to(device, non_blocking=True)
        where = where.to(device, non_blocking=True)
        environments = None if self.source.environments is None else self.source.environments[where]
        return RawBatch(labelled, self.source.labels[where], wild, environments, rows)


def _is_resident(images: ImageSet, device: torch.device) -> bool:
    return isinstance(images, ImageArrays) and images.device.type == device.type


def _gather(images: ImageSet, where: Tensor, device: torch.device) -> Tensor:
    """Pixels at ``where`` on the device: indexed there, or gathered on the host into pinned memory and copied."""
    if _is_resident(images, device):
        return images.gather(where)
    pixels = images.gather(where)
    if device.type == "cuda" and pixels.device.type == "cpu":
        pixels = pixels.pin_memory()
    return pixels.to(device, non_blocking=True)


def _resident(images: ImageSet, device: torch.device) -> ImageSet:
    """Moved to the device when it fits there beside the network; otherwise left where it is."""
    if not isinstance(images, ImageArrays):
        return images
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
        if images.images.numel() > RESIDENT_SHARE * free:
            return images
    return images.to(device)
