"""From a method's published recipe to one that suits the data and the time at hand.

- Batches: on a CPU at most 64 labelled and 64 wild images a step, never more than there are; the learning rate is scaled in
  proportion (the linear rule), but not below `LEAST_RATE`. `pu` has the same batches on a GPU, below `MANY` labelled images:
  as many steps with larger ones are more epochs, which it loses by. Shifts in pixels (for 32 px) are scaled to the image.
- Length: a small set needs more passes for the same number of steps, so every stage has at least `MIN_STEPS` of them.
  ``epochs=`` sets the total over all stages instead, divided as in the recipe, at least `LEAST_SHARE` to each: a new head
  takes its steps to learn however few the images are.
- ``minutes=``: a few steps of every stage are timed, and all stages are shortened or lengthened by one factor, so that the
  whole schedule, decay included, fits the time left; stages after the first keep `MIN_STEPS` where there is time for it.
  The fastest of the timed steps counts, or what a step would take if nothing else ran: other work slows them, and may be
  over soon. A plan that turns out too long is cut on time (`wildspec.images.train`); one that turns out too short
  leaves minutes unused that were there to learn in.
"""

import copy
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from wildspec.data import WildPool
from wildspec.errors import InputError
from wildspec.methods.base import Method, Stage
from wildspec.models import Classifier
from wildspec.training import Settings, TrainData, train
from wildspec.training.validate import accuracy

SMALL_BATCH = 64
MANY = 10_000  # labelled images from which on a GPU the spectral recipe is taken: it does well with 25,000, badly with 2,000
LEAST_RATE = 0.005  # a rate already this low is no large-batch rate
LEAST_SHARE = 1 / 6
SHORT_RATE, SHORT_SHARE = 0.05, 0.25
MIN_STEPS = {"pretrain": 1200, "together": 2000}  # of other stages MIN_STEPS_OTHER
MIN_STEPS_OTHER = 300
# minutes= makes a recipe at most so many times as long: more gains little, and `pu` loses (docs/results/own-images.md)
LONGEST, LONGEST_TOGETHER = 3.0, 1.25
PROBE_STEPS = {"cpu": 8, "cuda": 40}
PROBES, PROBE_SECONDS = 4, 4.0  # on a CPU: so often, while they take no longer than this
BUSY = 0.8  # of the time the main thread works where nothing else runs; in the rest it waits for the other threads
PROBE_IMAGES = 512  # labelled, and wild: on a CPU the speed is measured with no more
MOST_FIXED = 1 / 3  # of the time, for stages after the first that are not shortened
KEEP_BACK = 0.1  # of the time: a plan is shorter by this, a run that hesitates, and what comes after it, is still on time


def suit_data(
    stages: Sequence[Stage], labelled: int, wild: int, size: int, device: torch.device, *,
    epochs: float | None = None, flip: bool = True,
) -> tuple[Stage, ...]:  # fmt: skip
    """Stages whose batches, rates and lengths suit ``labelled`` and ``wild`` images of ``size`` px."""
    suited = [_views(_batches(stage, labelled, wild, device), size, flip) for stage in stages]
    if epochs is not None:
        shares = [max(LEAST_SHARE, stage.epochs / sum(s.epochs for s in suited)) for stage in suited]
        return tuple(
            lengthen(stage, epochs * share / sum(shares) / stage.epochs)
            for stage, share in zip(suited, shares, strict=True)
        )
    return tuple(lengthen(stage, max(1.0, _least(stage) / steps_of(stage, labelled))) for stage in suited)


def short_runs(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """The recipe for runs of minutes instead of hours: fine-tuning at a rate at which a new head learns in a few hundred
    steps, and for at least a quarter as many epochs as the first stage (its steps cost a quarter)."""
    return tuple(
        stage.scaled(
            lr=max(stage.lr, SHORT_RATE), batch_labelled=min(stage.batch_labelled, SMALL_BATCH),
            batch_wild=min(stage.batch_wild, SMALL_BATCH), epochs=max(stage.epochs, SHORT_SHARE * stages[0].epochs),
        )
        if stage.name == "finetune" else stage
        for stage in stages
    )  # fmt: skip


def cpu_precision() -> str:
    """bf16 on a processor that multiplies it by itself (twice as fast there), else fp32; as on a GPU the weights, the losses
    and all that is kept stay float32."""
    able = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return "bf16" if any(getattr(torch.cpu, name, bool)() for name in able) else "fp32"


def lengthen(stage: Stage, factor: float) -> Stage:
    """The same stage with its length and its warm-up multiplied."""
    return stage.scaled(epochs=stage.epochs * factor, warmup=stage.warmup * factor)


def steps_of(stage: Stage, labelled: int) -> int:
    """Optimizer steps of a stage."""
    return max(1, round(stage.epochs * (stage.epoch_steps or labelled // stage.batch_labelled)))


@dataclass(frozen=True)
class Speed:
    """Measured: seconds a step of each stage takes, and seconds before the steps run at that speed (compilation)."""

    per_step: tuple[float, ...]
    start_up: float


def measure(
    model: Classifier, method: Method, data: TrainData, stages: Sequence[Stage], settings: Settings
) -> Speed:
    """Time a few steps of every stage on copies of the network and the method; on a CPU again and again for some seconds:
    what else it does comes and goes, and the fastest steps and the shortest start are its own."""
    kind = "cuda" if next(model.parameters()).is_cuda or settings.device.startswith("cuda") else "cpu"
    per_step, start_up = [], 0.0
    images, data = _count(data), data if kind == "cuda" else _some(data, PROBE_IMAGES)
    larger = images / _count(data)  # what goes over all images before a stage takes as much longer
    quiet = replace(settings, progress=False, log_every=1, tensorboard=False)
    for stage in stages:
        began, found = time.monotonic(), [_probe(model, method, data, stage, quiet, PROBE_STEPS[kind])]
        while kind == "cpu" and len(found) < PROBES and time.monotonic() - began < PROBE_SECONDS:
            found.append(_probe(model, method, data, stage, quiet, PROBE_STEPS[kind]))
        per_step.append(min(seconds for seconds, _ in found))
        start_up += larger * min(start for _, start in found)
    return Speed(tuple(per_step), start_up)


def _probe(
    model: Classifier, method: Method, data: TrainData, stage: Stage, settings: Settings, steps: int
) -> tuple[float, float]:
    """Seconds of a step, the fastest of the later half or, where that is less, what our own work in a mean one takes; and
    seconds before that half beyond its steps."""
    per_epoch = stage.epoch_steps or len(data.labelled) // stage.batch_labelled
    short = stage.scaled(epochs=steps / per_epoch, warmup=0.0)
    began, worked = time.monotonic(), time.thread_time()
    with warnings.catch_warnings():  # of a stage so short; the training itself says what is to be said
        warnings.simplefilter("ignore")
        result = train(copy.deepcopy(model), copy.deepcopy(method), data, settings, stages=[short])
    rows = [row for row in result.history if "views_per_s" in row]
    half = len(rows) // 2
    seconds = stage.views_per_step / max(1.0, *(row["views_per_s"] for row in rows[half:]))
    later = rows[-1]["seconds"] - rows[half]["seconds"] if half else 0.0
    whole = time.monotonic() - began
    start = max(0.0, whole - later - (half + 1) * seconds)
    if settings.device.startswith("cpu") and later:
        share = (time.thread_time() - worked) / whole  # of the processor that we had
        seconds = min(seconds, later / (len(rows) - 1 - half) * share / BUSY)
    return seconds, start


def seconds_an_image(model: Classifier, data: TrainData, device: torch.device) -> float:
    """Measured: how long one image takes to be read and to go through the network, not to learn."""
    assert data.preprocess is not None
    some, network = _some(data, PROBE_IMAGES).labelled, copy.deepcopy(model)
    taken = []
    for _ in range(2 if device.type == "cuda" else 1):  # on a GPU the first pass loads and chooses kernels, seconds long
        began = time.monotonic()
        accuracy(network, some, data.preprocess, device)
        taken.append(time.monotonic() - began)
    return min(taken) / len(some)


def shortest(stages: Sequence[Stage], labelled: int, speed: Speed) -> float:
    """The fewest seconds that `suit_time` can do something with."""
    cost = sum(steps_of(stage, labelled) * each for stage, each in zip(stages, speed.per_step, strict=True))
    return (_least_factor(stages, labelled) * cost + speed.start_up) / (1 - KEEP_BACK) * (1 + 1e-9)


def suit_time(
    stages: Sequence[Stage], labelled: int, speed: Speed, seconds: float, most: float | None = None
) -> tuple[Stage, ...]:
    """Stages that take at most ``seconds`` at the measured speed, and at most ``most`` (`LONGEST`,
    `LONGEST_TOGETHER` for the stage of that name) times the recipe."""
    available = _available(seconds, speed)
    steps = [steps_of(stage, labelled) for stage in stages]
    costs = [count * cost for count, cost in zip(steps, speed.per_step, strict=True)]
    least = _least_factor(stages, labelled)
    if most is None:
        most = LONGEST_TOGETHER if any(stage.name == "together" for stage in stages) else LONGEST
    factor = min(most, available / sum(costs))
    if factor < least:
        raise InputError(
            f"the time is too short: training takes at least {least * sum(costs):.0f} s on this machine, and "
            f"{max(0.0, available):.0f} s are left beside reading and measuring; allow more minutes or a smaller backbone"
        )
    factors = [factor] * len(stages)
    # A short stage that would become shorter than it can be keeps its length, if that leaves the others enough.
    own = [min(1.0, _least(stage) / count) for stage, count in zip(stages, steps, strict=True)]
    fixed = [i for i in range(1, len(stages)) if factor < own[i]]
    spent = sum(own[i] * costs[i] for i in fixed)
    if fixed and spent <= MOST_FIXED * available:
        rest = (available - spent) / sum(cost for i, cost in enumerate(costs) if i not in fixed)
        factors = [own[i] if i in fixed else min(rest, factor) for i in range(len(stages))]
    return tuple(lengthen(stage, each) for stage, each in zip(stages, factors, strict=True))


def _least_factor(stages: Sequence[Stage], labelled: int) -> float:
    return max(_few(stage, labelled) / steps_of(stage, labelled) for stage in stages)


def _available(seconds: float, speed: Speed) -> float:
    return seconds * (1 - KEEP_BACK) - speed.start_up


def _count(data: TrainData) -> int:
    return len(data.labelled) + (0 if data.wild is None else len(data.wild))


def _some(data: TrainData, most: int) -> TrainData:
    """At most about ``most`` labelled and ``most`` wild images, every class among them."""
    labels = data.labelled.labels.cpu().numpy()
    _, first = np.unique(labels, return_index=True)
    rows = np.union1d(first, np.linspace(0, len(labels) - 1, min(most, len(labels))).astype(np.int64))
    wild: Any = data.wild
    if type(wild) is WildPool and len(wild) > most:
        pool: Any = wild.pool
        wild = WildPool(pool.subset(np.arange(most)))
    images: Any = data.labelled
    groups = None if data.environments is None else data.environments[rows]
    return replace(data, labelled=images.subset(rows), wild=wild, environments=groups)


def _views(stage: Stage, size: int, flip: bool) -> Stage:
    old = stage.augmentation
    pad = max(1, round(old.pad * size / 32)) if old.pad else 0
    return stage.scaled(augmentation=replace(old, pad=pad, flip=old.flip if flip else 0.0))


def _batches(stage: Stage, labelled: int, wild: int, device: torch.device) -> Stage:
    small = device.type == "cpu" or (stage.name == "together" and labelled < MANY)
    batch = min(stage.batch_labelled, SMALL_BATCH if small else stage.batch_labelled, labelled)
    rate = max(min(stage.lr, LEAST_RATE), stage.lr * batch / stage.batch_labelled)
    changes: dict[str, Any] = {"batch_labelled": batch, "lr": rate, "epoch_steps": 0}  # those steps are of other data
    if stage.batch_wild:
        changes["batch_wild"] = min(stage.batch_wild, SMALL_BATCH if small else stage.batch_wild, wild)
    return stage.scaled(**changes)


def _least(stage: Stage) -> int:
    return MIN_STEPS.get(stage.name, MIN_STEPS_OTHER)


def _few(stage: Stage, labelled: int) -> int:
    """The fewest steps worth taking: an eighth of the least, or all steps of a shorter stage."""
    return min(steps_of(stage, labelled), max(1, _least(stage) // 8))
