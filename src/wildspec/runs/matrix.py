"""Every method with every detector on the digits task, as one JSON document.

One network per method and seed; the seed also draws the split. All detectors share the network's one pass over each set.
Training may be cut into pieces; a network is found again only where it was trained as it would be trained now.
"""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from wildspec.detectors import detector_names, names_for
from wildspec.errors import InputError
from wildspec.evaluation.report import COLUMNS
from wildspec.methods import METHODS
from wildspec.provenance import environment
from wildspec.runs.folder import RECORD, load_run, read_run
from wildspec.runs.judging import judge
from wildspec.runs.task import DataSpec, open_task
from wildspec.runs.training import Request, make_method, make_stages, resume, start
from wildspec.training import Settings
from wildspec.training.stage_json import stage_from_json

SCHEMA = "wildspec.digits/1"
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
        found = judge(run, open_task(run.data), [name for name in names if name in names_for(run.model)])
        for name, one in found.items():
            values = None if one.evaluation is None else {m: _short(getattr(one.evaluation, m)) for m in COLUMNS}
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
