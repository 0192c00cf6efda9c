"""Step 3 of a fit: the method and the schedule that suit the data and the time, and a training that keeps to it.

``until`` is when all must be done. What comes after training (one pass over all images, pictures of some wild ones, the
bundle) is timed beforehand on a few images and given twice that. Training is planned for nine tenths of the rest at the
speed of a machine that does nothing else, and ends when the rest is over (`wildspec.training.budget`): the tenth is for a
machine that hesitates, and one that becomes slower, or does other work, takes fewer steps.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wildspec.data import Preprocess, WildPool
from wildspec.errors import InputError
from wildspec.images.options import Options, Training
from wildspec.images.parts import Parts
from wildspec.images.sizing import preprocess_for
from wildspec.methods import Method, build_method, preset_hparams
from wildspec.methods.base import Stage
from wildspec.models import Classifier
from wildspec.models.backbones import make_network
from wildspec.models.encoder import Encoder
from wildspec.models.outputs import with_outputs
from wildspec.training import Budget, Settings, TrainData, resolve_device, train
from wildspec.training.stage_json import stage_to_json
from wildspec.training.suit import (
    Speed,
    cpu_precision,
    measure,
    seconds_an_image,
    short_runs,
    shortest,
    steps_of,
    suit_data,
    suit_time,
)

CPU_MINUTES = 10.0  # without epochs= or minutes=, a CPU is given no more, unless the least that teaches takes longer
AROUND = 6.0  # seconds for loading the libraries before, and writing the bundle after
SCORES = {"pu": "energy"}  # the score a method trains to be high on what is unlike the labelled images


@dataclass(frozen=True)
class Trained:
    """Step 3 of a fit: a network, how pixels are normalized for it, and the record of how it came to be.

    ``network``: the record from which it is built again, empty. ``score``: the detector whose score it was trained to give
    wild samples, where there is one (`wildspec.methods.pu`). ``log``: losses and rates on the way, a row every few steps.
    ``weights``: of a network that was taken as it is, an `Encoder`, as a bundle keeps them.
    """

    model: Classifier | Encoder
    network: dict[str, Any]
    preprocess: Preprocess
    record: dict[str, Any]
    score: str | None = None
    log: list[dict[str, Any]] = field(default_factory=list)
    weights: dict[str, Tensor] | None = None


@dataclass(frozen=True)
class TrainingTime:
    """``until``: when all must be done, by `time.monotonic`; None: no limit. After training, ``images`` go through the
    network once, and ``later`` seconds are needed besides."""

    until: float | None
    later: float
    images: int


def train_network(
    parts: Parts, options: Options, training: Training, limit: TrainingTime, say: Callable[[str], None]
) -> Trained:
    """A network of its own, trained from random or given weights, in time. ``training``: as it was settled."""
    device = resolve_device(options.device)
    model, network = make_network(
        options.backbone, len(parts.classes), parts.size, device, options.random_state, training.method, options.init
    )
    preprocess = parts.preprocess or preprocess_for(network, parts.train, options.init)
    hparams = {**preset_hparams(training.method, training.preset), **(training.hparams or {})}
    method = build_method(training.method, len(parts.classes), **hparams)
    # Without a wild pool the labelled images, labels hidden, stand in for it: the graph then knows no unknown class.
    pool = WildPool(parts.train if parts.wild is None else parts.wild)
    data = TrainData(parts.train, pool, preprocess=preprocess)
    record, log = Trainer(data, options, training, device, say, limit).run(model, method)
    network = with_outputs(network, method.outputs)
    return Trained(model, network, preprocess, record, SCORES.get(method.name), log)


class Trainer:
    """One training that keeps to its time."""

    def __init__(
        self, data: TrainData, options: Options, training: Training, device: torch.device, say: Callable[[str], None],
        limit: TrainingTime,
    ) -> None:  # fmt: skip
        self.data, self.options, self.training, self.device = data, options, training, device
        self.say, self.limit = say, limit
        self.labelled, self.size = len(data.labelled), data.labelled.image_size[0]
        assert data.wild is not None
        self.pool = len(data.wild)
        self.precision = cpu_precision() if device.type == "cpu" and training.preset == "fast" else "auto"
        self.settings = Settings(
            seed=options.random_state, device=str(device), precision=self.precision, progress=options.verbose
        )

    def run(self, model: Classifier, method: Method) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Train the model; the record of what was done, and its log."""
        stages, budget = self._stages(method), None
        if self.limit.until is not None:
            speed = measure(model, method, self.data, stages, self.settings)
            stages, budget = self._in_time(stages, speed, model, self.limit.until)
        self._announce(method, stages, budget)
        result = train(model, method, self.data, replace(self.settings, budget=budget), stages=stages)
        planned = [steps_of(stage, self.labelled) for stage in stages]
        if result.stage_steps != planned:
            self.say(
                f"the machine was slower than planned, or busy: {sum(result.stage_steps):,} of {sum(planned):,} steps "
                "fitted into the time; the schedule ran to its end"
            )
        asked = {  # numpy's numbers are none of JSON's
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in (self.training.hparams or {}).items()
        }
        record = {
            "method": method.name, "hparams": asked, "preset": self.training.preset,
            "minutes": self.options.minutes, "stages": stage_records(stages, result.stage_steps, self.labelled),
            "seconds": round(result.seconds, 2), "views": result.views, "seed": self.options.random_state,
            "precision": self.precision,
        }  # fmt: skip
        return record, result.history

    def _stages(self, method: Method) -> tuple[Stage, ...]:
        stages = method.stages(self.training.preset)
        if self.device.type == "cpu" and self.training.preset == "fast":
            stages = short_runs(stages)
        epochs, flip = self.training.epochs, self.training.flip
        return suit_data(stages, self.labelled, self.pool, self.size, self.device, epochs=epochs, flip=flip)

    def _left(self, model: Classifier, until: float) -> float:
        """Seconds from now until training must be over."""
        passing = self.limit.images * seconds_an_image(model, self.data, self.device)
        return until - time.monotonic() - 2 * (passing + self.limit.later) - AROUND

    def _in_time(
        self, stages: tuple[Stage, ...], speed: Speed, model: Classifier, until: float
    ) -> tuple[tuple[Stage, ...], Budget]:
        minutes, left = self.options.minutes, self._left(model, until)
        least = shortest(stages, self.labelled, speed)
        if minutes is not None and left < least:
            enough = math.ceil(minutes + (least - left) / 60)
            rest = duration(left) if left >= 1 else "nothing"
            raise InputError(
                f"the time is too short: training takes at least {duration(least)} on this machine, and all else (reading, "
                f"measuring, writing) leaves {rest} of {minutes:g} min; allow --minutes {enough} or a smaller backbone or "
                "size"
            )
        if left < least:  # nobody set a limit: take what little is needed
            self.say(
                f"{CPU_MINUTES:g} min, the usual limit on a CPU, are too short to train this network on this machine: it "
                "takes the least time that teaches it something; a smaller backbone or size is faster"
            )
            left = least
        stages = suit_time(stages, self.labelled, speed, left, most=1.0 if minutes is None else None)
        planned = tuple(steps_of(s, self.labelled) * each for s, each in zip(stages, speed.per_step, strict=True))
        return stages, Budget(left, planned)

    def _announce(self, method: Method, stages: tuple[Stage, ...], budget: Budget | None) -> None:
        lengths = ", ".join(f"{s.name} {s.epochs:.3g} epochs ({steps_of(s, self.labelled):,} steps)" for s in stages)
        long = "" if budget is None else f", about {duration(sum(budget.planned))}, at most {duration(budget.seconds)}"
        self.say(f"training {method.name} ({method.summary}): {lengths}{long}")


def duration(seconds: float) -> str:
    """In words: "45 s", "7 min", "2 h 5 min"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def stage_records(stages: Sequence[Stage], taken: Sequence[int], labelled: int) -> list[dict[str, Any]]:
    """Every field of each stage, its steps as planned and as taken."""
    return [
        {**stage_to_json(stage), "steps": steps_of(stage, labelled), "taken": count}
        for stage, count in zip(stages, taken, strict=True)
    ]
