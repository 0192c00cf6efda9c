"""Train one method into a run folder, or go on with one that was cut."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from wildspec.checks import choice, positive
from wildspec.data import Preprocess
from wildspec.errors import InputError
from wildspec.methods import METHODS, Method, Stage, build_method, preset_hparams
from wildspec.models import MODELS, Classifier, build_model
from wildspec.models.backbones import check_backbone, make_network, name_of
from wildspec.models.outputs import with_outputs
from wildspec.models.registry import BACKBONES
from wildspec.provenance import environment
from wildspec.runs.folder import RECORD, WEIGHTS, read_run, save_weights, write_run
from wildspec.runs.task import DataSpec, Task, open_task
from wildspec.training import Settings, TrainData, TrainResult, resolve_device, train
from wildspec.training.distributed import first_process
from wildspec.training.settings import check_fit
from wildspec.training.stage_json import stage_from_json, stage_to_json


@dataclass(frozen=True)
class Request:
    """What to train. ``changes``: hyper-parameters by name, ``STAGE.FIELD`` for the recipe, ``dropout`` for the network."""

    method: str
    out: Path
    data: DataSpec = field(default_factory=DataSpec)
    model: str = "auto"
    preset: str = "fast"
    epochs: float | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        choice("method", self.method, METHODS)
        if self.epochs is not None:
            positive("epochs", self.epochs)


@dataclass(frozen=True)
class Outcome:
    """``record``: the content of run.json; ``finished``: False when the time limit cut the run."""

    record: dict[str, Any]
    finished: bool
    history: list[dict[str, Any]]


def start(request: Request, settings: Settings | None = None) -> Outcome:
    """Train from scratch into a new folder."""
    settings = _settings(settings, request.seed)
    _check_free(request.out)
    device = resolve_device(settings.device)
    check_backbone(request.model, request.method)
    task = open_task(request.data, device)
    method, hparams = make_method(request, task)
    stages = make_stages(method, request, task, device)
    model, network = _network(request, task, device)
    network = with_outputs(network, method.outputs)
    task = _seen_by(network, task)
    check_fit(model, method, _train_data(method, task))  # before anything is written: the folder stays free for a next try
    record = {
        "method": request.method, "hparams": hparams, "preset": request.preset, "epochs": request.epochs,
        "changes": request.changes, "network": network, "data": request.data.to_json(),
        "classes": list(task.labelled.classes), "preprocess": task.preprocess.to_json(),
        "environments": _where_environments_come_from(method, task),
        "stages": [stage_to_json(stage) for stage in stages], "seed": request.seed,
        "environment": environment(), "result": None,
    }  # fmt: skip

    def begin() -> None:  # another training may have begun here while the data were read
        _check_free(request.out)
        write_run(request.out, record)

    return _go(request.out, record, model, method, task, stages, settings, resume=False, begin=begin)


def _check_free(out: Path) -> None:
    if first_process() and (out / RECORD).exists():
        raise InputError(f"{out} holds a run already; resume it (--resume) or choose another --out")


def resume(out: Path, settings: Settings | None = None) -> Outcome:
    """Go on with the run in ``out``, with the settings it was started with."""
    record = read_run(out)
    if record["result"] is not None:
        return Outcome(record, True, [])
    settings = _settings(settings, int(record["seed"]))
    device = resolve_device(settings.device)
    task = open_task(DataSpec(**record["data"]), device)
    method = build_method(record["method"], len(record["classes"]), **record["hparams"])
    network = record["network"]
    task = _seen_by(network, task)
    if network.get("dropout"):
        model = _seeded(record["seed"], network["name"], len(record["classes"]), network["dropout"], network["size"])
    else:
        model, _ = make_network(name_of(network), len(record["classes"]), network["size"], device, record["seed"])
    stages = [stage_from_json(stage) for stage in record["stages"]]
    return _go(out, record, model, method, task, stages, settings, resume=True)


def make_method(request: Request, task: Task) -> tuple[Method, dict[str, Any]]:
    """The method and its hyper-parameters; the number of environments follows the data unless it is given."""
    from wildspec.training.recipe import Recipe

    hparams = {
        **preset_hparams(request.method, request.preset), **Recipe(request.preset, 1.0, request.changes).hparams()
    }  # fmt: skip
    kind = METHODS[request.method]
    if task.num_environments is not None and getattr(kind, "uses_environments", False):
        hparams.setdefault("num_environments", max(2, task.num_environments))
    return build_method(request.method, len(task.labelled.classes), **hparams), hparams


def make_stages(method: Method, request: Request, task: Task, device: torch.device) -> tuple[Stage, ...]:
    """The preset's stages, suited to the data (`wildspec.training.suit`), no flips where they would mislead; then the
    changes, exactly as given."""
    from wildspec.training.recipe import Recipe
    from wildspec.training.suit import suit_data

    wild = 0 if task.wild is None else len(task.wild)
    suited = suit_data(
        method.stages(request.preset), len(task.labelled), max(1, wild), task.size, device,
        epochs=request.epochs, flip=task.flip,
    )  # fmt: skip
    return Recipe(request.preset, 1.0, request.changes).applied(suited)


def _network(request: Request, task: Task, device: torch.device) -> tuple[Classifier, dict[str, Any]]:
    classes = len(task.labelled.classes)
    model, record = make_network(request.model, classes, task.size, device, request.seed)
    if "dropout" in request.changes:
        known = [name for name in MODELS if BACKBONES[name].weights is None]
        if record.get("name") not in known or "adapter" in record:
            raise InputError(f"dropout is known for {', '.join(known)} only, not for {request.model}")
        model = _seeded(request.seed, record["name"], classes, request.changes["dropout"], task.size)
        record = {**record, "dropout": request.changes["dropout"]}
    return model, record


def _seen_by(network: dict[str, Any], task: Task) -> Task:
    """The task with the pixel scaling of a network that brings weights."""
    known = BACKBONES.get(name_of(network))
    theirs = None if known is None else known.scaling
    return task if theirs is None else dataclasses.replace(task, preprocess=Preprocess(task.size, theirs.mean, theirs.std))


def _seeded(seed: int, name: str, classes: int, dropout: float, size: int) -> Classifier:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_model(name, classes, dropout=dropout, size=size)


def _go(
    out: Path, record: dict[str, Any], model: Classifier, method: Method, task: Task, stages: Sequence[Stage],
    settings: Settings, *, resume: bool, begin: Callable[[], object] | None = None,
) -> Outcome:
    data = _train_data(method, task)
    result: TrainResult = train(model, method, data, settings, stages=stages, run_dir=out, resume=resume, begin=begin)
    if result.finished and first_process():
        record["result"] = {
            "sha256": save_weights(out, result.model), "weights": WEIGHTS, "seconds": round(result.seconds, 2),
            "views": result.views, "steps": result.steps,
        }  # fmt: skip
        write_run(out, {key: value for key, value in record.items() if key != "schema"})
    return Outcome(record, result.finished, result.history)


def _train_data(method: Method, task: Task) -> TrainData:
    wild = task.wild if method.needs_wild else None
    return TrainData(task.labelled, wild, environments=task.environments, preprocess=task.preprocess)


def _where_environments_come_from(method: Method, task: Task) -> str | None:
    """Stated with every run of a method that uses environments."""
    if not getattr(method, "uses_environments", False):
        return None
    if task.environments is not None:
        return f"{task.num_environments} of the data"
    if method.name == "mixup":
        return "none: neighbours in a batch are blended"
    kind = "random" if method.name == "irm" else "class-balanced"
    return f"each batch dealt into {getattr(method, 'num_environments', 0)} {kind} groups"


def _settings(settings: Settings | None, seed: int) -> Settings:
    return dataclasses.replace(settings or Settings(), seed=seed)
