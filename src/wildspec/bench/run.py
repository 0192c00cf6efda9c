"""The runner: does what is missing, resumes what was cut, writes one record per result and the table of all of them.

    OUT/cifar10/svhn/spectral-fast/seed-0/            a model that learned from wild data with SVHN in it
    OUT/cifar10/labelled-only/erm-fast/seed-0/        one that did not: it serves every semantic set
        checkpoints/, metrics.jsonl                   written by the training loop
        curve.jsonl                                   looks at the test sets on the way, where asked for
        records/svhn-knn.json                         a result (wildspec.bench.records)
        svhn.samples.safetensors                      scores and features for the figures
    OUT/table.md, table.csv, table.tex
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wildspec.bench.plan import BenchRequest, Job, check_data, plan
from wildspec.bench.prepare import Prepared, needed_splits, prepare
from wildspec.bench.protocols import Protocol, protocol_names
from wildspec.bench.records import load_records, read_record, write_record
from wildspec.bench.render import render
from wildspec.bench.store import Store
from wildspec.bench.tables import summarize
from wildspec.errors import DataError, InputError
from wildspec.files import read_json, replacing, write_json, write_text

if TYPE_CHECKING:
    from torch import Tensor

RESERVE = 20.0  # seconds kept back from the limit for measuring a finished model
ASH = {"percent": 65.0}  # its authors' function's own; the detector's 90, for 2,048 features, leaves 13 of 128
SAID = ("id_acc", "ood_acc", "fpr95_id", "auroc", "fs_fpr95", "fs_auroc", "id_kept", "covariate_kept", "detection_rate")
MEASURED = (  # of a protocol: what all results depend on
    "kind", "in_distribution", "covariate", "model", "neighbours", "split_seed", "labelled", "unlabelled_scheme", "pi_c",
    "pi_s", "domains", "known", "unknown", "id_holdout",
)  # fmt: skip
TABLES = {"markdown": "table.md", "csv": "table.csv", "latex": "table.tex"}


class RefusedError(InputError):
    """A job that cannot be done as it was asked for: a training, or detectors with a model (the records of the others are
    written). Other jobs go on."""


@dataclass
class BenchOutcome:
    """Names of jobs: done now, found done, cut by the limit (resume with the same command), in the hands of another process
    (the same command later finds them done, or does them), failed (and why)."""

    done: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    tables: list[Path] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return not self.cut and not self.busy and not self.failed

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "tables": [str(path) for path in self.tables], "complete": self.complete}


def run(request: BenchRequest, say: Callable[[str], None] = lambda text: None) -> BenchOutcome:
    """Run the plan. Safe to kill at any moment and to call again: finished work is found, cut work is resumed."""
    from wildspec.training import DivergenceError
    from wildspec.training.lock import BusyError

    started = time.monotonic()
    _check_alone()
    jobs = plan(request)
    _check_protocol(request.protocol, request.out / request.protocol.name)
    if request.protocol.pretrained and request.recipe.init is None:
        say("note: the paper starts from ImageNet weights, this run from random ones; give weights with --init FILE")
    store = Store(request.data, request.cache or request.out / "cache")
    check_data(jobs, request, store)
    _check_images(jobs, request, store)
    outcome = BenchOutcome()
    ready: dict[str, Prepared] = {}
    for job in jobs:
        if not job.missing:
            outcome.found.append(job.name)
            continue
        left = None if request.limit is None else request.limit - (time.monotonic() - started)
        if left is not None and left <= 0 and (outcome.done or outcome.cut or outcome.failed):
            outcome.cut.append(job.name)  # a call always takes at least one step, however small its limit
            continue
        if job.semantic not in ready:
            say(f"preparing {request.protocol.name} with {job.semantic} in the wild pool")
            ready = {job.semantic: prepare(
                request.protocol, job.semantic, store, severity=request.severity, unseen=request.unseen,
                all_labels=request.recipe.all_labels,
            )}  # fmt: skip  # one at a time: memory
            for pair in needed_splits(request.protocol, job.semantic):
                if note := store.another_version(*pair, request.protocol.in_distribution["size"]):
                    say(f"note: {note}; numbers will not compare with published ones")
        left = None if request.limit is None else request.limit - (time.monotonic() - started)
        try:
            finished = _do(job, ready[job.semantic], request, left, say)
        except BusyError:
            outcome.busy.append(job.name)
            say(f"passed over: {job.name}: another process is training it")
            continue
        except (DivergenceError, RefusedError) as error:
            outcome.failed[job.name] = str(error)
            say(f"failed: {job.name}: {error}")
            continue
        (outcome.done if finished else outcome.cut).append(job.name)
        say(f"{'done' if finished else 'cut'}: {job.name}")
    outcome.tables = write_tables(request.out)
    return outcome


def _check_alone() -> None:
    """Under torchrun every process would measure every model and write every record, each by its own clock."""
    from wildspec.training.distributed import announced

    if (count := announced()) > 1:
        raise InputError(
            f"wildspec bench trains each model in one process, torchrun started {count}; start one wildspec bench per GPU, "
            "each with its own --device cuda:N and the same --out: they divide the models among themselves"
        )


def _check_protocol(protocol: Protocol, folder: Path) -> None:
    """A protocol of one's own that was changed and kept its name: what is found done would be of the one before."""
    if protocol.name in protocol_names():
        return
    told = json.loads(json.dumps(asdict(protocol)))
    told["in_distribution"].pop("size")  # runs of other sizes have folders of their own
    facts = {key: told[key] for key in MEASURED} | {f"semantic set {each['name']}": each for each in told["semantic"]}
    path = folder / "protocol.json"
    before = read_json(path) if path.exists() else {}
    for key, value in facts.items():
        if before.get(key, value) != value:
            raise InputError(
                f"{folder} was begun with another {key}: {before[key]}, now it is {value}; give the changed protocol "
                "another name, or choose another --out"
            )
    write_json(path, {**before, **facts})


def _check_images(jobs: list[Job], request: BenchRequest, store: Store) -> None:
    """What is found done must be of the images that are in --data now; sets that are no longer there are not asked for."""
    now: dict[tuple[str, str], dict[str, Any]] = {}
    for job in jobs:
        for path in (job.record(detector) for detector in job.detectors):
            told = read_record(path).get("sources") or {} if path.exists() else {}
            for pair in needed_splits(request.protocol, job.semantic):
                before = told.get("/".join(pair))
                if before is None or not store.available(*pair):
                    continue
                if pair not in now:
                    size = request.protocol.in_distribution["size"]
                    store.decode(*pair, size)
                    now[pair] = store.describe(*pair, size)
                sums, others = before["sha256"], now[pair]["sha256"]
                same = all(sums[name] == others[name] for name in sums.keys() & others.keys())
                if not same or before["images"] != now[pair]["images"]:
                    raise InputError(
                        f"{path} was made with other images of {'/'.join(pair)} than those in {request.data} now; "
                        "choose another --out"
                    )


def write_tables(out: Path) -> list[Path]:
    """The tables of every record below ``out``, in all formats; nothing when there is none yet."""
    if not any(out.rglob("records/*.json")):
        return []
    tables = summarize(load_records([out]))
    for form, name in TABLES.items():
        write_text(out / name, render(tables, form))
    return [out / name for name in TABLES.values()]


def _do(job: Job, prepared: Prepared, request: BenchRequest, left: float | None, say: Callable[[str], None]) -> bool:
    """Train (or resume, or find trained) and measure; False when the limit cut the training."""
    from wildspec.bench.measure import measure
    from wildspec.bench.quality_curve import Look, read_curve
    from wildspec.methods import build_method, preset_hparams
    from wildspec.methods.hparams import HPARAMS
    from wildspec.models import mirrored
    from wildspec.training import Settings, TrainData, resolve_device
    from wildspec.training.device import resolve_precision

    protocol = request.protocol
    classes = len(prepared.labelled.classes)
    hparams = {
        **preset_hparams(job.method, job.recipe.preset), **_own(protocol.hparams(job.method, job.semantic)),
        **job.recipe.hparams(),
    }  # fmt: skip
    method = build_method(job.method, classes, **hparams)
    every = {entry.name: entry.default for entry in HPARAMS[job.method]} | hparams  # a default may change: the record stays
    stages = job.recipe.stages(method)
    preprocess = preprocess_of(protocol)
    settings = Settings(
        seed=job.seed, device=request.device, progress=request.progress,
        time_limit=None if left is None else max(1e-6, left - min(RESERVE, left / 5)),
    )  # fmt: skip
    data = TrainData(prepared.labelled, prepared.wild if method.needs_wild else None, preprocess=preprocess)
    device = resolve_device(request.device)
    watch = Look(prepared, preprocess, job.folder, request.curve, device) if request.curve > 0 else None
    start = None
    if job.first is not None and not (job.folder / "checkpoints").is_dir():
        began, start = time.monotonic(), job.first
        if not _train_first(job, job.first, data, settings, protocol, classes, say):
            return False
        if settings.time_limit is not None:
            settings = replace(settings, time_limit=max(1e-6, settings.time_limit - (time.monotonic() - began)))
    model = _network(job, protocol, classes)
    result = _train(model, method, data, settings, stages=stages, run_dir=job.folder, start=start, watch=watch)
    if not result.finished:
        return False

    before = time.monotonic()
    detectors = {name: detector_of(name, protocol, len(prepared.labelled)) for name in job.missing}
    if not detectors:  # another process measured the model while this one found it trained
        return True
    judged = mirrored(result.model) if job.mirror else result.model
    measured = measure(judged, prepared, detectors, preprocess, device=device)
    _write_samples(job.samples, measured.samples)
    config = {
        "model": job.recipe.model or protocol.model, "dropout": _dropout(job, protocol), "hparams": every,
        "recipe": job.recipe.to_json(), "stages": [asdict(stage) for stage in stages],
        "wild": {"pi_c": prepared.wild.pi_c, "pi_s": prepared.wild.pi_s, "sizes": list(prepared.wild.sizes)}
        if method.needs_wild else None,
        **({"mirror": True} if job.mirror else {}),
        "device": device.type, "precision": resolve_precision(settings.precision, device),
    }  # fmt: skip
    common = _common(job, request, prepared, config)
    common |= {"seconds": round(result.seconds, 2), "views": result.views, "steps": result.steps}
    common |= {"curve": curve} if (curve := read_curve(job.folder)) else {}
    common["evaluation_seconds"] = round(time.monotonic() - before, 2)
    for name, found in measured.detectors.items():
        write_record(job.record(name), {
            **common, "detector": name, **found.headline.to_json(),
            "id_acc_validation": found.validation_id_acc,
            "detector_config": detectors[name].config(),
            **({} if found.pool is None else {"pool": found.pool}),
            **(found.open_set or {}),
            "severities": {str(level): e.to_json() for level, e in found.severities.items()},
            "unseen": {other: e.to_json() for other, e in found.unseen.items()},
        })  # fmt: skip
        say(f"  {name}: {', '.join(f'{title} {value}' for title, value in found.headline.row(SAID).items())}")
    if measured.refused:
        raise RefusedError("; ".join(f"{name} cannot be used: {why}" for name, why in measured.refused.items()))
    return True


def _network(job: Job, protocol: Protocol, classes: int) -> Any:
    """The network of a job before its first step: a function of its recipe and its seed."""
    import torch

    from wildspec.models import build_model
    from wildspec.models.initial_weights import load_init

    torch.manual_seed(job.seed)
    size = protocol.in_distribution["size"]
    model = build_model(job.recipe.model or protocol.model, classes, dropout=_dropout(job, protocol), size=size)
    if job.recipe.init is not None:
        load_init(model.backbone, job.recipe.init)
    torch.compiler.reset()  # each model is compiled afresh: compiled code of the ones before counts against a limit
    return model


def _dropout(job: Job, protocol: Protocol) -> float:
    """The recipe's, in networks that have any; 0 in others, where it is only the preset that speaks of it."""
    from wildspec.models.build import WITH_DROPOUT

    asked = "dropout" in job.recipe.changes or (job.recipe.model or protocol.model) in WITH_DROPOUT
    return job.recipe.dropout if asked else 0.0


def _train_first(
    job: Job, folder: Path, data: Any, settings: Any, protocol: Protocol, classes: int, say: Callable[[str], None]
) -> bool:
    """Train, resume or find the method that the job's begins as, in the folder where all find it; False: the limit cut it.

    It is the same training as the job's first stage would be: same network, images, order and seed, so it is done once.
    """
    from wildspec.methods import METHODS, build_method
    from wildspec.training.checkpoint import load_newest
    from wildspec.training.identity import finished

    saved = load_newest(folder / "checkpoints")
    if saved is not None and finished(saved.facts):
        return True
    name, recipe = METHODS[job.method].begins_as, job.recipe.first_stage(METHODS[job.method])
    assert name is not None
    assert recipe is not None
    say(f"first stage of {job.name}: {name} ({recipe.label}), trained once for all methods that begin so")
    method = build_method(name, classes)
    model, labelled = _network(job, protocol, classes), replace(data, wild=None)
    return bool(_train(model, method, labelled, settings, stages=recipe.stages(method), run_dir=folder).finished)


def _train(*what: Any, **how: Any) -> Any:
    """Train or resume. What the training says no to, such as batches larger than the set, is refused for this job alone."""
    from wildspec.training import train
    from wildspec.training.lock import BusyError

    try:
        return train(*what, resume=True, **how)
    except BusyError:
        raise
    except InputError as error:
        raise RefusedError(str(error)) from error


def _common(job: Job, request: BenchRequest, prepared: Prepared, config: dict[str, Any]) -> dict[str, Any]:
    from wildspec.provenance import environment

    made = environment()
    return {
        "protocol": request.protocol.name, "method": job.method, "detector": "", "semantic": job.semantic,
        "covariate": prepared.covariate, "severity": prepared.severity, "recipe": job.label, "seed": job.seed,
        "splits": prepared.hashes(), "sources": prepared.sources,
        "config": config, "command": made["command"], "environment": made,
    }  # fmt: skip


def _own(points: list[dict[str, Any]]) -> dict[str, Any]:
    """The protocol's own hyper-parameters; a sweep's come with the recipe."""
    return points[0] if len(points) == 1 else {}


def detector_of(name: str, protocol: Protocol, available: int) -> Any:
    """A detector as the protocol has it; ``available``: how many labelled images there are."""
    from wildspec.detectors import build_detector

    settings: dict[str, dict[str, Any]] = {"knn": {"k": min(protocol.neighbours, available)}, "ash": ASH}
    return build_detector(name, **settings.get(name, {}))


def preprocess_of(protocol: Protocol) -> Any:
    """Mean and deviation of CIFAR-10's images; of ImageNet's, where images are larger."""
    from wildspec.data.preprocess import IMAGENET_MEAN, IMAGENET_STD, Preprocess

    size = protocol.in_distribution["size"]
    return Preprocess(size=size, mean=IMAGENET_MEAN, std=IMAGENET_STD) if size > 64 else Preprocess(size=size)


def _write_samples(path: Path, samples: "dict[str, Tensor]") -> None:
    """Keep what is there of other detectors: records are made as they are asked for. A damaged file is made anew."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file, save_file

    try:
        kept = load_file(path) if path.exists() else {}
    except SafetensorError:
        kept = {}
    try:
        with replacing(path) as temporary:
            save_file({**kept, **samples}, temporary)
    except SafetensorError as error:  # a full disk is told so, not as an OSError
        raise DataError(f"cannot write {path}: {error}; free space or choose another --out") from error
