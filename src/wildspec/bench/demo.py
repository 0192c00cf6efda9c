"""The demo: cross-entropy, the paper's learner and the joint decision on the embedded digits, several seeds.

The recipes were compared on other seeds (100 and up), test metrics included, and then left alone; the seeds shown were not
looked at for that. They are the methods' own with the lengths and batches that suit 231 images; views are the paper's
(resized crop, brightness and contrast jitter) without what makes no sense for grey digits (mirror images, hue, saturation,
grey). The first stage of ``spectral`` and ``spectral+`` is the same; it is run once and both go on from there.

Each seed is worked on by one thread, seeds side by side on as many cores as there are: the numbers do not depend on the
number of cores, and threads that wait for each other on a busy machine cost nothing.
"""

import copy
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from wildspec import evaluation
from wildspec.bench.records import mean_and_spread
from wildspec.bundle.store import write_bundle
from wildspec.checks import integer
from wildspec.data.augment import Augmentation
from wildspec.data.digits_task import DigitsTask, digits_task
from wildspec.decision.attribution import neighbours
from wildspec.detectors import Detector, build_detector
from wildspec.evaluation import Decision, Evaluation, Outputs, collect, evaluate_outputs
from wildspec.files import write_json
from wildspec.images.data_spec import DataSpec, open_data
from wildspec.images.decided import decided
from wildspec.images.fit import assemble
from wildspec.images.state import pack
from wildspec.images.train import Trained, stage_records
from wildspec.methods import Method, Stage, build_method
from wildspec.models import Classifier
from wildspec.provenance import environment
from wildspec.training import Settings, TrainData, TrainResult, train
from wildspec.training.suit import steps_of

SCHEMA = "wildspec.demo/1"
ALPHA = 0.05
VIEWS = Augmentation(
    scale=(0.6, 1.0), flip=0.0, jitter=(0.4, 0.4, 0.0, 0.0), jitter_p=0.8, grey=0.0, blur=0.0
)  # fmt: skip
SHIFT = Augmentation(scale=(1.0, 1.0), ratio=(1.0, 1.0), flip=0.0, jitter_p=0.0, grey=0.0, blur=0.0, pad=1)
SHIFT_AND_JITTER = Augmentation(
    scale=(1.0, 1.0), ratio=(1.0, 1.0), flip=0.0, jitter=(0.4, 0.4, 0.0, 0.0), jitter_p=0.8, grey=0.0, blur=0.0, pad=1
)
PRETRAIN = Stage(
    "pretrain", epochs=200, lr=0.05, batch_labelled=64, batch_wild=64, labelled_views=2, wild_views=2, warmup=5,
    augmentation=VIEWS,
)  # fmt: skip
FINETUNE = Stage("finetune", epochs=60, lr=0.05, batch_labelled=64, augmentation=SHIFT)
RECIPES: dict[str, tuple[Stage, ...]] = {
    "erm": (Stage("train", epochs=100, lr=0.05, batch_labelled=64, augmentation=SHIFT_AND_JITTER),),
    "spectral": (PRETRAIN, FINETUNE),
    "spectral+": (
        PRETRAIN, PRETRAIN.scaled(name="pseudo_label", epochs=100, warmup=0.0), FINETUNE.scaled(batch_wild=64, wild_views=1)
    ),
}  # fmt: skip
QUICK = 0.03  # of the epochs: everything runs, nothing is learned well


@dataclass(frozen=True)
class Contestant:
    """One row of the table: how the network was trained, how it decides."""

    title: str
    method: str
    detector: str


CONTESTANTS = (
    Contestant("cross-entropy + energy", "erm", "energy"),
    Contestant("cross-entropy + KNN", "erm", "knn"),
    Contestant("spectral + KNN (the paper)", "spectral", "knn"),
    Contestant("spectral+, joint decision", "spectral+", "wild_knn"),
)


@dataclass(frozen=True)
class DigitsNetwork:
    """One network, what it took (over all its stages), and what it says about every part of the task."""

    model: Classifier
    learner: Method
    steps: int
    views: int
    seconds: float
    stages: tuple[Stage, ...]
    outputs: dict[str, Outputs]


@dataclass(frozen=True)
class Start:
    """A network after its first stage."""

    model: Classifier
    result: TrainResult


def stages_of(method: str, quick: bool = False) -> tuple[Stage, ...]:
    """The method's recipe; ``quick``: a few steps of it."""
    if not quick:
        return RECIPES[method]
    return tuple(stage.scaled(epochs=max(1.0, QUICK * stage.epochs), warmup=0.0) for stage in RECIPES[method])


def start_on(task: DigitsTask, seed: int, first: Stage) -> Start:
    """The stage that the spectral methods share."""
    model = _network(task, seed)
    return Start(model, _train(model, build_method("spectral", len(task.labelled.classes)), task, seed, (first,)))


def train_on(
    task: DigitsTask, method: str, seed: int, *, quick: bool = False, start: Start | None = None,
    stages: tuple[Stage, ...] | None = None, learner: Method | None = None,
) -> DigitsNetwork:  # fmt: skip
    """Train on the labelled and wild images; one pass over every part. ``start``: go on from there with a copy.

    ``stages``, ``learner``: instead of the demo's recipe, the method with its defaults.
    """
    stages = stages_of(method, quick) if stages is None else stages
    learner = build_method(method, len(task.labelled.classes)) if learner is None else learner
    model = _network(task, seed) if start is None else copy.deepcopy(start.model)
    done = _train(model, learner, task, seed, stages if start is None else stages[1:])
    parts = [done] if start is None else [start.result, done]
    steps, views, seconds = (sum(getattr(part, name) for part in parts) for name in ("steps", "views", "seconds"))
    return DigitsNetwork(model, learner, steps, views, seconds, stages, observe(model, task))


def _network(task: DigitsTask, seed: int) -> Classifier:
    from wildspec.models.backbones import make_network

    return make_network("small", len(task.labelled.classes), task.preprocess.size, torch.device("cpu"), seed)[0]


def _train(model: Classifier, learner: Method, task: DigitsTask, seed: int, stages: Sequence[Stage]) -> TrainResult:
    data = TrainData(task.labelled, task.wild if learner.needs_wild else None, preprocess=task.preprocess)
    return train(model, learner, data, Settings(seed=seed, device="cpu", progress=False), stages=stages)


def observe(model: Classifier, task: DigitsTask) -> dict[str, Outputs]:
    """Features and logits of every part."""
    parts: dict[str, Any] = {
        "labelled": task.labelled, "wild": task.wild.pool, "calibration": task.calibration, "id_test": task.id_test,
        "covariate_test": task.covariate_test, "semantic_test": task.semantic_test,
    }  # fmt: skip
    return {name: collect(model, images, task.preprocess) for name, images in parts.items()}


def decide(network: DigitsNetwork, task: DigitsTask, detector: str) -> Decision[Detector]:
    """A fitted detector and its threshold, calibrated on clean known images to a false-alarm rate of 5 %."""
    seen = network.outputs
    chosen = build_detector(detector, **({"k": neighbours(len(task.labelled))} if detector == "knn" else {}))
    return evaluation.decide(chosen, seen["labelled"], seen["wild"], seen["calibration"], ALPHA)


def measure(network: DigitsNetwork, decision: Decision[Detector]) -> Evaluation:
    """Every metric on the test parts."""
    seen = network.outputs
    return evaluate_outputs(
        decision.detector, decision.threshold, id=seen["id_test"], covariate=seen["covariate_test"],
        semantic=seen["semantic_test"],
    )  # fmt: skip


def run_demo(
    out: Path | None = None, *, seeds: int = 3, quick: bool = False, say: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """Train and measure every contestant for seeds 0, 1, ...; returns the document behind the table.

    ``out``: folder for the runs and ``demo.json``; what an earlier demo left there is replaced. ``say``: told what goes on.
    """
    began = time.monotonic()
    numbers = range(integer("seeds", seeds, 1))
    workers = min(len(numbers), os.cpu_count() or 1)
    if workers == 1:
        parts = [_tell(run_seed(seed, out, quick), say) for seed in numbers]
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            waiting = [pool.submit(run_seed, seed, out, quick) for seed in numbers]
            parts = [_tell(future.result(), say) for future in waiting]
    document = {
        "schema": SCHEMA, "quick": quick, "seeds": seeds, "alpha": ALPHA,
        "rows": [row for part in parts for row in part["rows"]],
        "splits": {str(part["seed"]): part["splits"] for part in parts},
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(sum(part["cpu_seconds"] for part in parts), 1), "environment": environment(),
    }  # fmt: skip
    if out is not None:
        write_json(out / "demo.json", document)
    return document


def run_seed(seed: int, out: Path | None, quick: bool) -> dict[str, Any]:
    """Everything about one seed, on one thread: split, train each method, measure each contestant, keep the runs."""
    before, began = torch.get_num_threads(), time.process_time()
    torch.set_num_threads(1)
    try:
        task = digits_task(seed)
        rows: list[dict[str, Any]] = []
        lines = []
        start = start_on(task, seed, stages_of("spectral", quick)[0])
        for method in dict.fromkeys(contestant.method for contestant in CONTESTANTS):
            shared = start if method.startswith("spectral") else None
            network = train_on(task, method, seed, quick=quick, start=shared)
            lines.append(f"{method} {network.steps} steps in {network.seconds:.0f} s")
            mine = [
                {"title": one.title, "method": method, "detector": one.detector, "seed": seed,
                 "metrics": measure(network, decide(network, task, one.detector)).to_json()}
                for one in CONTESTANTS if one.method == method
            ]  # fmt: skip
            rows += mine
            if out is not None:
                _keep(out / f"{method}-seed{seed}", network, task, method, seed)
    finally:
        torch.set_num_threads(before)
    return {"seed": seed, "rows": rows, "splits": task.hashes(), "said": f"seed {seed}: {', '.join(lines)}",
            "cpu_seconds": time.process_time() - began}  # fmt: skip


def _tell(part: dict[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    say(part["said"])
    return part


def summary(document: dict[str, Any], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Per contestant: {"title", metric: (mean, spread)}, in [0, 1]; the spread is None for one seed."""
    found = []
    for contestant in CONTESTANTS:
        mine = [row["metrics"] for row in document["rows"] if row["title"] == contestant.title]
        cells = {metric: mean_and_spread([values[metric] for values in mine]) for metric in metrics}
        found.append({"title": contestant.title, **cells})
    return found


def _keep(folder: Path, network: DigitsNetwork, task: DigitsTask, method: str, seed: int) -> None:
    """A bundle, as ``wildspec train`` writes it, with the decision by the method's own detector."""
    seen, parts = network.outputs, open_data(DataSpec("digits", seed=seed)).parts
    made = decide(network, task, network.learner.default_detector)
    found = decided(
        parts, Decision(made.detector, made.calibration), seen["labelled"], seen["id_test"], seen["wild"], seed
    )
    labelled = len(parts.train)
    record: dict[str, Any] = {
        "method": method, "hparams": {}, "preset": "fast", "minutes": None, "epochs": None, "changes": {},
        "environments": None, "seconds": round(network.seconds, 2), "views": network.views, "steps": network.steps,
        "seed": seed, "precision": "fp32",
        "stages": stage_records(network.stages, [steps_of(stage, labelled) for stage in network.stages], labelled),
    }  # fmt: skip
    assert network.model.spec is not None
    trained = Trained(network.model, dict(network.model.spec), task.preprocess, record)
    fitted = assemble(parts, trained, found, network.seconds, torch.device("cpu"))
    write_bundle(folder, "images", *pack(fitted))
