"""One loop for all methods: stages, checkpoints, resuming, progress.

    result = train(model, method, data, settings, run_dir="runs/a", resume=True)

The run is a pure function of (weights, data, recipe, seed): batches and rates depend on the step number alone, random
numbers on saved generators, so a run cut anywhere and resumed ends, on a CPU, with bit-identical weights. The clock has a
say only where a budget was set and the run is late (`wildspec.training.budget`).
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from wildspec.errors import InputError
from wildspec.methods.base import Context, Method, Stage
from wildspec.models import Classifier
from wildspec.models.fused import able
from wildspec.training import checkpoint, distributed, optimizers
from wildspec.training.average import WeightAverage
from wildspec.training.budget import Pace, shortest
from wildspec.training.device import go_on_drawing, parameter_dtype, resolve_device, resolve_precision
from wildspec.training.feed import DeviceData, Feed
from wildspec.training.identity import check_same, check_start, identity, load_weights
from wildspec.training.interrupt import Interrupt, patient
from wildspec.training.lock import locked
from wildspec.training.progress import Progress
from wildspec.training.result import TrainResult, check_values, check_weights
from wildspec.training.schedule import learning_rate
from wildspec.training.settings import Settings, TrainData, check_batches, check_fit
from wildspec.training.step import FastNetwork, GraphStep, Step

KEPT = ("stage_number", "step", "steps", "views", "history", "stage_began", "stage_steps", "seen")  # in checkpoints
WORTH_COMPILING = 2_000_000  # views of a stage: compilation takes some 35 s, about what it saves on so many

Watch = Callable[[nn.Module, dict[str, Any]], None]  # model, {step, stage, epoch, last, seconds, views}


def train(
    model: Classifier,
    method: Method,
    data: TrainData,
    settings: Settings | None = None,
    *,
    stages: Sequence[Stage] | None = None,
    preset: str = "fast",
    run_dir: str | Path | None = None,
    resume: bool = False,
    start: str | Path | None = None,
    watch: Watch | None = None,
    begin: Callable[[], object] | None = None,
) -> TrainResult:
    """Run a method's stages on the data. ``run_dir`` holds checkpoints and metrics.jsonl; without it nothing is written.

    ``stages``: those of ``preset`` unless given. Hyper-parameters are those the method was built with; for "paper" build it
    with `wildspec.methods.preset_hparams`.
    ``resume=True`` continues from the newest intact checkpoint in ``run_dir`` (and starts fresh when there is none).
    ``start``: folder of a finished run whose only stage is the first one here, by another name, on the same labelled images
    with the same seed: its end is taken for the end of that stage. Without a checkpoint in ``run_dir`` only.
    ``watch`` sees the model after every epoch and at the end of a stage; its time does not count as training time.
    ``begin`` is called when the folder is ours, by the process that writes: what two trainings would write, it may.
    """
    settings = settings or Settings()
    device = resolve_device(settings.device)
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)
    folder = Path(run_dir) if run_dir is not None and distributed.first_process() else None
    with distributed.joined_world(device), locked(folder):
        chosen = tuple(method.stages(preset) if stages is None else stages)
        if not chosen:
            raise InputError("stages holds no stage; give at least one, or leave it out for those of the preset")
        if begin is not None and folder is not None:
            begin()
        run = _Run(model, method, data, settings, chosen, run_dir, resume, device, watch, start)
        with patient(run_dir is not None and run.world == 1) as run.interrupt:  # several processes would not stop together
            return run.go()


class _Run:
    """State of one call of `train`."""

    def __init__(
        self, model: Classifier, method: Method, data: TrainData, settings: Settings, stages: tuple[Stage, ...],
        run_dir: str | Path | None, resume: bool, device: torch.device, watch: Watch | None,
        start: str | Path | None = None,
    ) -> None:
        check_fit(model, method, data)
        if settings.budget is not None:
            settings.budget.check(stages)
        self.settings, self.stages, self.device = settings, stages, device
        self.rank, self.world = distributed.world()
        self.precision = resolve_precision(settings.precision, device)
        self.graph = bool(settings.graph) and device.type == "cuda" and self.world == 1  # "auto": where it can be
        if device.type == "cuda":
            torch.backends.cudnn.benchmark = True  # shapes are static: let cuDNN pick its fastest plan once
        torch.manual_seed(settings.seed + 1_000_003 * self.rank)  # dropout differs between processes
        method.adapt(model)
        check_batches(model, method, stages)
        dtype = parameter_dtype(self.precision)
        self.model = model.to(device=device, dtype=dtype).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.method = method.to(device=device, dtype=dtype)
        if self.world > 1:
            self.method.reduce = distributed.all_sum
            for part in (self.model, self.method):
                distributed.synchronize_batch_norm(part)
                distributed.broadcast_state(part)
        self.source = DeviceData(data, device)
        for stage in stages:  # batches that a later one cannot have are told now, not when the earlier ones are over
            Feed(self.source, stage, seed=0, rank=self.rank, world=self.world)
        self.identity = identity(model, method, stages, settings.seed, self.source)
        self.generator = torch.Generator(device=device).manual_seed(settings.seed + 1)
        self.network = FastNetwork(self.model, compiled=False)
        self.fused = False  # blocks as one operation, statistics of one process; its kernels, once made, serve short stages
        self.folder = Path(run_dir) if run_dir is not None else None
        self.stage_number, self.step, self.steps, self.views = 0, 0, 0, 0
        self.seconds_before = 0.0
        self.stage_began, self.seen, self.stage_steps = 0.0, 0, list[int]()  # seen: see Pace
        self.watch, self.watched, self.history = watch, 0.0, list[dict[str, Any]]()
        self.optimizer: torch.optim.Optimizer
        self.average: WeightAverage | None = None
        self.latest: tuple[tuple[str, ...], Tensor]  # names and values of the last step, not yet asked for
        self._restored: dict[str, Tensor] | None = None
        self._last_good: Path | None = None
        self._take_up(resume, start)
        mine = self.folder if self.rank == 0 else None  # one process reports
        if mine is not None:
            mine.mkdir(parents=True, exist_ok=True)
        show = settings.progress and self.rank == 0
        self.progress = Progress(mine, show=show, tensorboard=settings.tensorboard, resume_step=self.steps)
        self.interrupt = Interrupt()

    def go(self) -> TrainResult:
        self.started = self.saved = time.monotonic()
        finished = True
        try:
            while self.stage_number < len(self.stages):
                stage = self.stages[self.stage_number]
                with optimizers.partly_trained(self.model.backbone, stage):
                    finished = self._stage(stage)
                if not finished:
                    break
                self.stage_steps.append(self.step)
                self.stage_number, self.step, self.seen = self.stage_number + 1, 0, 0
                self._restored = None
                self._save()
                self._heed()
        finally:
            self.progress.close()
        self.model.eval()
        return TrainResult(self.model, finished, self._seconds(), self.views, self.steps, self.history, self.stage_steps)

    # -- one stage -----------------------------------------------------------------------------------------------------
    def _stage(self, stage: Stage) -> bool:
        """Run a stage from ``self.step``; False when the time limit cut it short."""
        feed = Feed(
            self.source, stage, seed=self.settings.seed * 64 + self.stage_number, rank=self.rank, world=self.world
        )
        per_epoch = stage.epoch_steps or feed.steps_per_epoch
        total = max(1, round(stage.epochs * per_epoch))
        pays = self.device.type == "cuda" and total * stage.views_per_step >= WORTH_COMPILING
        compiled = pays if self.settings.compile == "auto" else bool(self.settings.compile)
        self.fused = (compiled or self.fused) and self.precision == "bf16" and self.world == 1 and able(self.device)
        self.network = FastNetwork(self.model, compiled, self.fused)
        self.model.train()
        context = Context(
            self.network, stage, self.source.labelled_batches, total, partial(self.source.views, stage.augmentation),
            None if self.source.data.wild is None else self.source.data.wild.weights(), self.settings.seed,
        )
        if self._restored is None:
            self.stage_began = self._seconds()
            self.method.start_stage(context)
            if self.world > 1:  # layers that start afresh do so alike
                distributed.broadcast_state(self.model)
                distributed.broadcast_state(self.method)
        self.model.train()
        step = self._prepare(stage, compiled)
        pace = Pace(
            total, self.settings.budget, self.stage_number, self.stage_began, self._seconds, self.device, seen=self.seen
        )
        pace.move(self.step)
        self.progress.start(stage.name, total, int(pace.at), partial(self._at_most, pace))
        mark_time, mark_step = time.monotonic(), self.step
        for raw in feed.batches(self.step, total):
            for place in pace.passed():
                if self.method.before_step(stage, place):
                    optimizers.forget(self.optimizer)
            self.seen = pace.seen
            rate = learning_rate(stage, pace.at, total, per_epoch)
            optimizers.set_rate(self.optimizer, rate)
            logged = step(raw)
            self.latest = step.names, logged
            self.step += 1
            self.steps += 1
            self.views += stage.views_per_step
            pace.move(self.step)
            if self.step % self.settings.log_every == 0 or pace.over:
                values = self._values(step.names, logged)
                now = time.monotonic()
                speed = (self.step - mark_step) * stage.views_per_step / max(now - mark_time, 1e-9)
                mark_time, mark_step = now, self.step
                told = {name: float(f"{value:.6g}") for name, value in {**values, "lr": rate}.items()}
                self._report(stage, round(self.step / per_epoch, 3), {**told, "views_per_s": round(speed)}, pace)
                if self.rank == 0:
                    self.method.look_at(stage, self.step, values)
            if self.step % per_epoch == 0:
                self.method.end_epoch(context, self.step // per_epoch)
                self.model.train()
            if self.watch is not None and (self.step % per_epoch == 0 or pace.over):
                self._show(stage, self.step / per_epoch, pace.over)
            if pace.over:
                break
            cut = self._out_of_time()
            if cut or self.interrupt.asked or self._due():
                self._save()
            self._heed()
            if cut:
                return False
        if self.average is not None:  # the stage's result is the averaged model
            self.model.load_state_dict(self.average.model.state_dict())
            self.average = None
        return True

    def _prepare(self, stage: Stage, compiled: bool) -> Step | GraphStep:
        parameters: list[nn.Parameter] = [*self.model.parameters(), *self.method.parameters()]
        self.optimizer = optimizers.build_optimizer(stage, parameters, self.model.backbone.parameters())
        self.average = WeightAverage(self.model, stage.ema) if stage.ema else None
        if self._restored is not None:
            optimizers.restore_optimizer(self.optimizer, checkpoint.under(self._restored, "optimizer."))
            if self.average is not None:
                self.average.model.load_state_dict(checkpoint.under(self._restored, "average.model."))
                self.average.step.copy_(self._restored["average.step"])
        step = Step(
            self.network, self.method, stage, self.optimizer, self.source.preprocess, self.generator,
            average=self.average, precision=self.precision, compiled=compiled, rank=self.rank, world=self.world,
        )
        return GraphStep(step) if self.graph and self.method.capturable else step

    def _at_most(self, pace: Pace) -> float | None:
        """Seconds that this call can still spend on the stage: its budget, or the time limit; None without either."""
        limit = self.settings.time_limit
        return shortest(pace.left(), None if limit is None else self.started + limit - time.monotonic())

    # -- telling -------------------------------------------------------------------------------------------------------
    def _values(self, names: tuple[str, ...], logged: Tensor) -> dict[str, float]:
        values = dict(zip(names, logged.tolist(), strict=True))  # the one place where the host waits for the device
        check_values(values, self.step, self.stages[self.stage_number].name, self._last_good)
        return values

    def _report(self, stage: Stage, epoch: float, values: dict[str, float], pace: Pace) -> None:
        row = {"step": self.steps, "stage": stage.name, "epoch": epoch, **values, "seconds": round(self._seconds(), 2)}
        self.history.append(row)
        self.progress.row(row, int(pace.at), pace.total)

    def _show(self, stage: Stage, epoch: float, last: bool) -> None:
        assert self.watch is not None
        moment = {"step": self.steps, "stage": stage.name, "epoch": round(epoch, 3), "last": last, "views": self.views,
                  "seconds": round(self._seconds(), 2)}
        before = time.monotonic()
        self.watch(self.model if self.average is None else self.average.model, moment)
        self.model.train()
        self.watched += time.monotonic() - before

    # -- saving --------------------------------------------------------------------------------------------------------
    def _due(self) -> bool:
        every = self.settings.checkpoint_steps
        if every is not None and self.steps % every == 0:
            return True
        return self.folder is not None and time.monotonic() - self.saved > self.settings.checkpoint_every

    def _out_of_time(self) -> bool:
        """Asked once after every step by every process: they must all stop after the same one."""
        limit = self.settings.time_limit
        return limit is not None and distributed.told_by_the_first(time.monotonic() - self.started - limit, self.device) > 0

    def _heed(self) -> None:
        """Ctrl-C was pressed, and all is saved."""
        if self.interrupt.asked:
            self.progress.say(f"interrupted: a checkpoint was written after step {self.steps}, resuming goes on from there")
            raise KeyboardInterrupt

    def _seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.started - self.watched

    def _save(self) -> None:
        self.saved = time.monotonic()
        if self.folder is None or self.rank != 0:
            return
        inside = self.step > 0
        if inside:  # a diverged model is not saved: resuming from NaN finds NaN, and not every step is looked at
            self._values(*self.latest)
        check_weights(self.model, self.steps, self._last_good)
        parts = {"model": self.model.state_dict(), "method": self.method.state_dict()}
        parts["random"] = {"augmentation": self.generator.get_state(), "torch": torch.get_rng_state()}
        if self.device.type == "cuda":
            parts["random"]["cuda"] = torch.cuda.get_rng_state(self.device)
        if inside:
            parts["optimizer"] = optimizers.optimizer_tensors(self.optimizer)
        if inside and self.average is not None:
            parts |= {"average.model": self.average.model.state_dict(), "average": {"step": self.average.step}}
        tensors = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
        facts = {**{name: getattr(self, name) for name in KEPT}, "seconds": self._seconds(), **self.identity}
        folder = self.folder / "checkpoints"
        self._last_good = checkpoint.save(folder, self.steps, tensors, facts, keep=self.settings.keep)

    def _take_up(self, resume: bool, start: str | Path | None) -> None:
        """Go on from the newest checkpoint, or from the end of another run as the end of the first stage."""
        own = None if self.folder is None else self.folder / "checkpoints"
        saved = checkpoint.load_newest(own) if resume and own is not None else None
        if saved is not None:
            check_same(self.folder, saved.facts, self.identity)
            self.method.load_state_dict(checkpoint.under(saved.tensors, "method."))
            self._take_over(saved)
            self._last_good = saved.path
        elif own is not None and not resume and checkpoint.listed(own):
            raise InputError(f"{self.folder} holds a run already; resume it (--resume) or choose another folder")
        elif start is not None:
            saved = checkpoint.load_newest(Path(start) / "checkpoints")
            check_start(Path(start), None if saved is None else saved.facts, self.identity)
            assert saved is not None
            self._take_over(saved)

    def _take_over(self, saved: checkpoint.Checkpoint) -> None:
        facts, tensors = saved.facts, saved.tensors
        load_weights(self.folder, self.model, checkpoint.under(tensors, "model."))
        go_on_drawing(self.generator, tensors["random.augmentation"], self.settings.seed + 1 + facts["steps"])
        if self.rank == 0:
            torch.set_rng_state(tensors["random.torch"])
            if self.device.type == "cuda" and "random.cuda" in tensors:
                torch.cuda.set_rng_state(tensors["random.cuda"], self.device)
        else:  # process 0 writes its own state alone; the others must not drop out the same units as it does
            torch.manual_seed(self.settings.seed + 1_000_003 * self.rank + facts["steps"])
        self.seconds_before = facts["seconds"]
        # stage_began and seen are not in checkpoints of earlier versions, which knew no budget
        for name, value in {"stage_began": facts["seconds"], "seen": facts["step"], **facts}.items():
            if name in KEPT:
                setattr(self, name, value)
        self._restored = tensors if self.step > 0 else None
