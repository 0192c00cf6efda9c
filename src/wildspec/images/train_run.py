"""``wildspec train``: any method into a bundle. Cut or killed at any moment, it goes on where it was.

    OUT/training/run.json       what was asked for and settled: data, network, method, stages
    OUT/training/checkpoints/   of the training loop, and metrics.jsonl
    OUT/                        the bundle, when the network is trained; then OUT/training is gone

The bundle's files are moved to their place one by one, its manifest last: until that is there, OUT is a training to be
resumed, and from then on it is a model.
"""

import dataclasses
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from wildspec.bundle.gallery import Gallery
from wildspec.bundle.manifest import MANIFEST, TRAINING
from wildspec.bundle.store import check_target, read_bundle, write_bundle
from wildspec.checks import choice, fraction, positive
from wildspec.data import Preprocess, WildPool
from wildspec.errors import CheckpointError, DataError, InputError
from wildspec.files import read_json, write_json
from wildspec.images.data_spec import DataSpec, Opened, open_data
from wildspec.images.decided import decide_images
from wildspec.images.fit import assemble
from wildspec.images.pictures import WILD_SIDE, labelled_pictures, pictures_of
from wildspec.images.sizing import preprocess_for
from wildspec.images.state import WEIGHTS, pack
from wildspec.images.train import SCORES, Trained, stage_records
from wildspec.methods import METHODS, Method, Stage, build_method, preset_hparams
from wildspec.models import Classifier, build_model
from wildspec.models.backbones import check_backbone, make_network, name_of
from wildspec.models.build import WITH_DROPOUT
from wildspec.models.outputs import with_outputs
from wildspec.provenance import environment
from wildspec.training import Settings, TrainData, TrainResult, resolve_device, train
from wildspec.training.device import resolve_precision
from wildspec.training.distributed import first_process
from wildspec.training.lock import locked
from wildspec.training.recipe import Recipe
from wildspec.training.settings import check_fit
from wildspec.training.stage_json import stage_from_json, stage_to_json
from wildspec.training.suit import suit_data

SCHEMA = "wildspec.training/1"
FOLDER, RECORD = TRAINING, "run.json"


@dataclass(frozen=True)
class TrainRequest:
    """What to train. ``changes``: hyper-parameters by name, ``STAGE.FIELD`` for the recipe, ``dropout`` for the network.
    ``flip``: may images be mirrored? Digits never are. ``detector``: as `wildspec.WildClassifier` takes it."""

    method: str
    data: DataSpec = field(default_factory=DataSpec)
    backbone: str = "auto"
    preset: str = "fast"
    epochs: float | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    detector: str = "auto"
    flip: bool = True
    pictures: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        choice("method", self.method, METHODS)
        if self.epochs is not None:
            positive("epochs", self.epochs)

    @property
    def recipe(self) -> Recipe:
        return Recipe(self.preset, 1.0, self.changes)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "TrainRequest":
        return cls(**{**value, "data": DataSpec.from_json(value["data"])})


@dataclass(frozen=True)
class TrainOutcome:
    """``record``: what was trained, JSON-able. Cut by the time limit: its ``result`` is None, ``finished`` False."""

    record: dict[str, Any]
    finished: bool


@dataclass(frozen=True)
class Plan:
    """Everything that training takes, made from the request or found in OUT/training/run.json."""

    opened: Opened
    method: Method
    hparams: dict[str, Any]
    stages: tuple[Stage, ...]
    model: Classifier
    network: dict[str, Any]
    preprocess: Preprocess

    @property
    def data(self) -> TrainData:
        parts = self.opened.parts
        wild = WildPool(parts.wild) if self.method.needs_wild and parts.wild is not None else None
        return TrainData(parts.train, wild, environments=parts.environments, preprocess=self.preprocess)


def start(request: TrainRequest, out: Path, settings: Settings | None = None) -> TrainOutcome:
    """Train from the beginning into a new folder."""
    settings = _settings(settings, request.seed)
    if first_process():
        _check_free(out)
    device = resolve_device(settings.device)
    check_backbone(request.backbone, request.method, weights=request.data.init is None)
    plan = make_plan(request, device)
    check_fit(plan.model, plan.method, plan.data)  # before anything is written: the folder stays free for a next try
    record = _record(request, plan)

    def begin() -> None:  # another training may have begun here while the data were read
        _check_free(out, beginning=True)
        write_json(out / FOLDER / RECORD, {"schema": SCHEMA, **record, "request": asdict(request)})

    return _go(out, request, plan, record, settings, device, begin)


def resume(out: Path, settings: Settings | None = None) -> TrainOutcome:
    """Go on with the training in ``out`` as it was started; one that is done stays as it is."""
    if (out / MANIFEST).is_file():
        if first_process():
            shutil.rmtree(out / FOLDER, ignore_errors=True)  # a kill may have left it
        return TrainOutcome(finished_record(out), True)
    kept = _read_kept(out)
    request = TrainRequest.from_json(kept["request"])
    settings = _settings(settings, request.seed)
    device = resolve_device(settings.device)
    plan = make_plan(request, device, kept)
    return _go(out, request, plan, _record(request, plan), settings, device)


def make_plan(request: TrainRequest, device: torch.device, kept: Mapping[str, Any] | None = None) -> Plan:
    """``kept``: hyper-parameters, stages and network of a training that was started before; else those of the preset, suited
    to the data, with the changes exactly as given."""
    opened = open_data(request.data, device)
    parts = opened.parts
    hparams = _hparams(request, opened) if kept is None else kept["hparams"]
    method = build_method(request.method, len(parts.classes), **hparams)
    if kept is None:
        stages = _stages(request, method, opened, device)
    else:
        stages = tuple(map(stage_from_json, kept["stages"]))
    backbone = request.backbone if kept is None else name_of(kept["network"])
    model, network = _network(dataclasses.replace(request, backbone=backbone), len(parts.classes), parts.size, device)
    network = with_outputs(network, method.outputs)
    preprocess = parts.preprocess or preprocess_for(network, parts.train, request.data.init)
    return Plan(opened, method, hparams, stages, model, network, preprocess)


def _hparams(request: TrainRequest, opened: Opened) -> dict[str, Any]:
    """The preset's, and those that were changed; the number of environments follows the data unless it is given."""
    hparams = {**preset_hparams(request.method, request.preset), **request.recipe.hparams()}
    environments = opened.parts.environments
    if environments is not None and getattr(METHODS[request.method], "uses_environments", False):
        hparams.setdefault("num_environments", max(2, int(environments.max()) + 1))
    return hparams


def _stages(request: TrainRequest, method: Method, opened: Opened, device: torch.device) -> tuple[Stage, ...]:
    parts = opened.parts
    suited = suit_data(
        method.stages(request.preset), len(parts.train), max(1, 0 if parts.wild is None else len(parts.wild)), parts.size,
        device, epochs=request.epochs, flip=request.flip and request.data.kind != "digits",
    )  # fmt: skip
    return request.recipe.applied(suited)


def _network(
    request: TrainRequest, classes: int, size: int, device: torch.device
) -> tuple[Classifier, dict[str, Any]]:
    init = request.data.init
    model, record = make_network(request.backbone, classes, size, device, request.seed, request.method, init)
    if "dropout" not in request.changes or fraction("dropout", request.changes["dropout"]) == 0:
        return model, record
    if name_of(record) not in WITH_DROPOUT or init is not None:
        raise InputError(
            f"dropout is for {' and '.join(WITH_DROPOUT)} without --init, not for {name_of(record)}; leave it out, or take "
            f"--backbone {WITH_DROPOUT[0]}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)
        model = build_model(record["name"], classes, dropout=request.changes["dropout"], size=size)
    return model, {**record, "dropout": request.changes["dropout"]}


def _go(
    out: Path, request: TrainRequest, plan: Plan, record: dict[str, Any], settings: Settings, device: torch.device,
    begin: Callable[[], object] | None = None,
) -> TrainOutcome:
    """``begin``: what a new training does first, when the folder is its own; None: it goes on."""
    result = train(
        plan.model, plan.method, plan.data, settings, stages=plan.stages, run_dir=out / FOLDER, resume=begin is None,
        begin=begin,
    )  # fmt: skip
    if not result.finished:
        return TrainOutcome(record, False)
    if first_process():
        with locked(out / FOLDER):
            _finish(out, request, plan, result, settings, device)
        record = finished_record(out)
    return TrainOutcome(record, True)


def _finish(
    out: Path, request: TrainRequest, plan: Plan, result: TrainResult, settings: Settings, device: torch.device
) -> None:
    """Decide, measure, and turn the folder into a bundle."""
    parts = plan.opened.parts
    training = {
        "method": plan.method.name, "hparams": plan.hparams, "preset": request.preset, "minutes": None,
        "epochs": request.epochs, "changes": request.changes, "environments": _environments(plan),
        "stages": stage_records(plan.stages, result.stage_steps, len(parts.train)), "seconds": round(result.seconds, 2),
        "views": result.views, "steps": result.steps, "seed": request.seed,
        "precision": resolve_precision(settings.precision, device),
    }  # fmt: skip
    trained = Trained(
        result.model, plan.network, plan.preprocess, training, SCORES.get(plan.method.name), result.history
    )
    found = decide_images(
        parts, trained, detector=request.detector, alpha=request.data.alpha, seed=request.seed, device=device
    )
    fitted = assemble(parts, trained, found, result.seconds, device, _pictures(request, plan.opened, found.shown))
    write_bundle(out / FOLDER / "bundle", "images", *pack(fitted))
    _move(out / FOLDER / "bundle", out)
    events = out / FOLDER / "tensorboard"
    if events.is_dir():
        shutil.move(events, out.with_name(f"{out.name}-tensorboard"))
    shutil.rmtree(out / FOLDER)


def _pictures(request: TrainRequest, opened: Opened, shown: Any) -> dict[str, Gallery]:
    if not request.pictures or opened.labelled is None:
        return {}
    made = {"labelled": labelled_pictures(opened.labelled, opened.parts.train, request.seed, None)[0]}
    if opened.wild is not None and opened.parts.wild is not None:
        made["wild"] = pictures_of(opened.wild, opened.parts.wild, shown.tolist(), WILD_SIDE)
    return made


def _move(bundle: Path, out: Path) -> None:
    """The files of a bundle to their place, the manifest last."""
    try:
        for file in sorted(bundle.rglob("*"), key=lambda path: (path.name == MANIFEST, path)):
            if file.is_file():
                target = out / file.relative_to(bundle)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, target)
    except OSError as error:
        raise DataError(f"cannot write {out}: {error.strerror or error}; go on with: {_again(out)}") from error


def _check_free(out: Path, *, beginning: bool = False) -> None:
    """``beginning``: the folder of the training is there already, with its lock."""
    if (out / FOLDER / RECORD).is_file() if beginning else (out / FOLDER).is_dir():
        raise InputError(f"{out} holds a training already; go on with: {_again(out)}, or choose another --out")
    if not beginning and check_target(out) and any(out.iterdir()):
        raise InputError(f"{out} holds a model already; choose another --out, or remove it")


def read_training(out: Path) -> dict[str, Any] | None:
    """What is trained in a folder, finished or not; None where nothing is."""
    if (out / MANIFEST).is_file():
        return resume(out).record
    return _read_kept(out) if (out / FOLDER / RECORD).is_file() else None


def _read_kept(out: Path) -> dict[str, Any]:
    path = out / FOLDER / RECORD
    if not path.is_file():
        raise DataError(f"{out} holds no training to go on with; start one with: wildspec train --method NAME --out {out}")
    record = read_json(path)
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        found = record.get("schema") if isinstance(record, dict) else type(record).__name__
        raise CheckpointError(f"{path} has schema {found!r}, this version of wildspec reads {SCHEMA!r}")
    return record


def _again(out: Path) -> str:
    return f"wildspec train --resume --out {out}"


def _record(request: TrainRequest, plan: Plan) -> dict[str, Any]:
    """What is trained, before it is."""
    return {
        "method": request.method, "hparams": plan.hparams, "preset": request.preset, "epochs": request.epochs,
        "changes": request.changes, "network": plan.network, "data": request.data.for_bundle(),
        "classes": list(plan.opened.parts.classes), "preprocess": plan.preprocess.to_json(),
        "environments": _environments(plan), "stages": [stage_to_json(stage) for stage in plan.stages],
        "seed": request.seed, "environment": environment(), "result": None,
    }  # fmt: skip


def finished_record(out: Path) -> dict[str, Any]:
    """The same from the bundle, with what came of it."""
    stored = read_bundle(out)
    model = stored.model
    if "training" not in model or "decision" not in model:  # of embeddings, or on a frozen network
        raise InputError(
            f"the model in {out} was not made by wildspec train: there is no training to go on with; choose another --out"
        )
    training = model["training"]
    named = {name: training.get(name) for name in (
        "method", "hparams", "preset", "epochs", "changes", "environments", "stages", "seed"
    )}  # fmt: skip
    result = {
        "sha256": stored.manifest.files[WEIGHTS][0], "weights": WEIGHTS,
        **{name: training.get(name) for name in ("seconds", "views", "steps")},
    }  # fmt: skip
    return {
        **named, "network": model["network"], "data": model["data"].get("source"), "classes": model["classes"],
        "preprocess": model["preprocess"], "environment": model["provenance"], "result": result,
        "threshold": model["decision"]["calibration"]["threshold"], "metrics": model["metrics"],
    }  # fmt: skip


def _environments(plan: Plan) -> str | None:
    """Where they come from: stated with every model of a method that uses them."""
    if not getattr(plan.method, "uses_environments", False):
        return None
    given = plan.opened.parts.environments
    if given is not None:
        return f"{int(given.max()) + 1} of the data"
    return str(getattr(plan.method, "groups_made", "the method's own"))  # of another package: it need not say


def _settings(settings: Settings | None, seed: int) -> Settings:
    return dataclasses.replace(settings or Settings(), seed=seed)
