"""Every method with every detector on the digits task, as one JSON document and the page made from it.

One network per method and seed; the seed also draws the split. All detectors share the network's one pass over each set.
Training may be cut into pieces; a network is found again only where it was trained as it would be trained now.
"""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from wildspec.detectors import detector_names
from wildspec.errors import DataError, InputError
from wildspec.evaluation.report import COLUMNS, TITLES
from wildspec.methods import METHODS
from wildspec.provenance import environment
from wildspec.runs.folder import RECORD, load_run, read_run
from wildspec.runs.judging import judge
from wildspec.runs.task import DataSpec, open_task
from wildspec.runs.training import Request, make_method, make_stages, resume, start
from wildspec.training import Settings
from wildspec.training.stage_json import stage_from_json

SCHEMA = "wildspec.digits/1"
METRICS = {name: TITLES[name] for name in COLUMNS}
GRIDS = {
    "auroc": "AUROC, clean known against unknown",
    "fs_auroc": "Full-spectrum AUROC, known clean or shifted against unknown",
    "joint": "Joint score: harmonic mean of OOD-Acc, shifted kept and unknown rejected at the detector's threshold",
}
# DomainBed switches the penalty on after 500 of 5,000 steps; a stage on digits has 300.
CHANGES: dict[str, dict[str, Any]] = {"irm": {"anneal_steps": 30}, "vrex": {"anneal_steps": 30}}


def run_matrix(
    work: Path,
    seeds: Sequence[int],
    methods: Sequence[str] = tuple(METHODS),
    detectors: Sequence[str] | None = None,
    *,
    epochs: float | None = None,
    seconds: float | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any] | None:
    """Train what is missing under ``work`` (a cut run is resumed), score everything, return the document.

    ``seconds``: stop training after so many, with a checkpoint; None is returned where something is still to be trained.
    """
    end = None if seconds is None else time.monotonic() + seconds
    asked = [_request(work, method, seed, epochs) for seed in seeds for method in methods]
    for request in asked:
        left = None if end is None else end - time.monotonic()
        if (left is not None and left <= 0 and not _done(request)) or not _train(request, left):
            say(f"out of time in {request.method}, seed {request.seed}; the same command goes on")
            return None
    names = detector_names() if detectors is None else list(detectors)
    runs: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for request in asked:
        run = load_run(request.out)
        record, result = run.record, run.record["result"]
        which = {"method": request.method, "seed": request.seed}
        runs.append({
            **which, "hparams": record["hparams"], "environments": record["environments"],
            "stages": {s["name"]: round(s["epochs"], 3) for s in record["stages"]}, "steps": result["steps"],
            "views": result["views"], "seconds": result["seconds"], "commit": record["environment"]["commit"],
        })  # fmt: skip
        found = judge(run, open_task(run.data), names)
        for name, one in found.items():
            values = None if one.evaluation is None else {m: _short(getattr(one.evaluation, m)) for m in METRICS}
            rows.append({**which, "detector": name, "config": one.detector.config(), "refused": one.refused,
                         "metrics": values})  # fmt: skip
        say(f"{request.method}, seed {request.seed}: {result['steps']} steps in {result['seconds']:.0f} s, "
            f"{len(found)} detectors")  # fmt: skip
    return {
        "schema": SCHEMA, "seeds": list(seeds), "methods": list(methods), "detectors": names,
        "splits": {str(seed): _hashes(seed) for seed in seeds}, "runs": runs, "rows": rows, "environment": environment(),
    }  # fmt: skip


def _request(work: Path, method: str, seed: int, epochs: float | None) -> Request:
    changes = CHANGES.get(method, {})
    return Request(method, work / f"{method}-seed{seed}", DataSpec("digits", seed), "small", "fast", epochs, changes, seed)


def _done(request: Request) -> bool:
    return (request.out / RECORD).exists() and read_run(request.out)["result"] is not None


def _train(request: Request, seconds: float | None) -> bool:
    """Train, or go on with a run that was cut; False when the time was over first."""
    settings = Settings(device="cpu", progress=False, time_limit=seconds if seconds is None or seconds > 0 else None)
    if not (request.out / RECORD).exists():
        return start(request, settings).finished
    _check_same(request)
    return resume(request.out, settings).finished


def _check_same(request: Request) -> None:
    """A network trained by another recipe (an older one, or other epochs) has no place in the table."""
    device = torch.device("cpu")
    task = open_task(request.data, device)
    method, hparams = make_method(request, task)
    now = {"method": request.method, "hparams": hparams, "data": request.data.to_json(), "seed": request.seed}
    record = read_run(request.out)
    other = [name for name, value in json.loads(json.dumps(now)).items() if record.get(name) != value]
    # as stages, not as text: a setting that came later and is at its default makes no other recipe
    if tuple(map(stage_from_json, record["stages"])) != make_stages(method, request, task, device):
        other.append("stages")
    if other:
        raise InputError(
            f"{request.out} was trained with other {', '.join(other)} than now; take it away or choose another --work"
        )


def _hashes(seed: int) -> dict[str, str]:
    from wildspec.data.digits_task import digits_task

    return digits_task(seed).hashes()


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


# -- the page --------------------------------------------------------------------------------------------------------------
def to_page(document: dict[str, Any]) -> str:
    """Markdown: each method with its own detector, then one grid per metric, then where it all comes from."""
    if document.get("schema") != SCHEMA:
        raise DataError(f"expected a document of schema {SCHEMA!r}, got {document.get('schema')!r}")
    methods, seeds = document["methods"], document["seeds"]
    own = {name: METHODS[name].default_detector for name in methods}
    own = {name: detector for name, detector in own.items() if detector in document["detectors"]}
    over = f"mean ± standard deviation over {len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    parts = [
        "# Every method with every detector, on digits\n",
        f"Made by `{document['environment']['command']}` from `digits.json` beside this page; nothing here is typed.\n",
        "The task is built in (`wildspec.data.digits_task`): known classes 0-5, 231 labelled images, 509 wild ones (clean\n"
        "and noisy 0-5, clean 6-9), unknown classes 6-9. It shows that everything runs and how the parts combine; with 142\n"
        f"test images of each known kind it ranks nothing finely. Per cent, {over}; a seed draws split, network, order.\n"
        "What the columns mean: [metrics](../metrics.md). `wild_knn`, `wild_linear` and `wild_contrast` (no longer\n"
        "offered) use the wild pool and decide at the [joint threshold](../joint-decision.md), all others at the one that\n"
        "keeps 95 % of held-out clean images.\n",
        "Recipes are what `wildspec train` makes of preset `fast` here, but for the changes in the last table; none was\n"
        "chosen for this task. Those of [the joint decision on digits](joint-digits.md) were, so its numbers differ.\n"
        "Detectors have their published settings, KNN a k that suits so few images. ASH and SCALE, whose percentiles were\n"
        "chosen on wider networks than this one (128 features), can be worse than chance (`wildspec evaluate RUN\n"
        "--detector ash:percent=30` takes another).\n",
    ]
    if own:
        parts.append("## Each method with its own detector\n")
        head = ["method", "detector", *METRICS.values()]
        lines = [[name, d, *(_cell(document, name, d, metric) for metric in METRICS)] for name, d in own.items()]
        parts.append(_table(head, lines))
    for metric, title in GRIDS.items():
        parts.append(f"## {title}\n")
        columns = document["detectors"]
        lines = [[name, *(_cell(document, name, d, metric, spread=False) for d in columns)] for name in methods]
        parts.append(_table(["method", *columns], lines))
    parts.append(_refusals(document))
    parts.append("## How each was trained\n")
    parts.append("What dealt environments leave of a method: [environments](../methods.md#environments).\n")
    head = ["method", "stages (epochs)", "steps", "hyper-parameters changed", "environments", "seconds"]
    parts.append(_table(head, [_training(document, name) for name in methods]))
    machine = document["environment"]["hardware"]
    versions = document["environment"]["versions"]
    commits = list(dict.fromkeys(run["commit"] or "unknown" for run in document["runs"]))
    trained = ", ".join(commits) if len(commits) < 4 else f"{len(commits)} commits, each named in the JSON"
    parts.append(
        f"Commit {document['environment']['commit']}, networks trained at {trained}; "
        f"{machine['cpu']}, {machine['cores']} cores; torch {versions.get('torch')}, "
        f"Python {versions['python']}. Training seconds are wall time of one process.\n"
    )
    return "\n".join(part for part in parts if part)


def _values(document: dict[str, Any], method: str, detector: str, metric: str) -> list[float]:
    return [
        row["metrics"][metric]
        for row in document["rows"]
        if (row["method"], row["detector"]) == (method, detector)
        and row["metrics"]
        and row["metrics"][metric] is not None
    ]


def _cell(document: dict[str, Any], method: str, detector: str, metric: str, *, spread: bool = True) -> str:
    from wildspec.bench.records import mean_and_spread

    values = [100 * value for value in _values(document, method, detector, metric)]
    if not values:
        return "–"
    mean, deviation = mean_and_spread(values)
    return f"{mean:.1f}" + (f" ± {deviation:.1f}" if spread and deviation is not None else "")


def _training(document: dict[str, Any], method: str) -> list[str]:
    runs = [run for run in document["runs"] if run["method"] == method]
    first = runs[0]
    stages = ", ".join(f"{name} {epochs:g}" for name, epochs in first["stages"].items())
    changed = ", ".join(f"{key}={value}" for key, value in first["hparams"].items()) or "–"
    seconds = sum(run["seconds"] for run in runs) / len(runs)
    return [method, stages, f"{first['steps']:,}", changed, first["environments"] or "–", f"{seconds:.0f}"]


def _refusals(document: dict[str, Any]) -> str:
    found = {(r["method"], r["detector"]): r["refused"] for r in document["rows"] if r["refused"]}
    if not found:
        return "Every pair could be measured.\n"
    return "Pairs that could not be measured:\n\n" + "\n".join(f"- {m} + {d}: {why}" for (m, d), why in found.items()) + "\n"


def _table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *lines]) + "\n"
