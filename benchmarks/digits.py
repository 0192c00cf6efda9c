"""Every method with every detector on digits: writes docs/results/digits.json, then: python tools/make_results.py digits

    python benchmarks/digits.py --seeds 3

One network per method and seed; the seed also draws the split. All detectors share the network's one pass over each set.
Interrupted, it goes on where it was; ``--minutes-limit 4`` stops training after four minutes (exit status 1: the same
command goes on). A network is found again only where it was trained as it would be now. About half an hour on one CPU core.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from wildspec import load
from wildspec.data.digits_task import digits_task
from wildspec.detectors import detector_names, names_for
from wildspec.errors import InputError
from wildspec.evaluation import evaluate_detectors
from wildspec.evaluation.report import COLUMNS
from wildspec.files import write_json
from wildspec.images.data_spec import DataSpec, open_data
from wildspec.images.train_run import TrainRequest, finished_record, make_plan, read_training, resume, start
from wildspec.methods import METHODS
from wildspec.provenance import environment
from wildspec.training import Settings
from wildspec.training.stage_json import stage_from_json

OUT = Path(__file__).resolve().parent.parent / "docs" / "results" / "digits.json"
SCHEMA = "wildspec.digits/1"
# DomainBed switches the penalty on after 500 of 5,000 steps; a stage on digits has 300.
CHANGES: dict[str, dict[str, Any]] = {"irm": {"anneal_steps": 30}, "vrex": {"anneal_steps": 30}}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds")
    parser.add_argument("--work", type=Path, default=Path("runs/digits"), help="where the models are kept")
    parser.add_argument("--minutes-limit", type=float, help="stop training after so many minutes")
    given = parser.parse_args()
    seconds = None if given.minutes_limit is None else 60 * given.minutes_limit
    document = run_matrix(
        given.work, range(given.seeds), seconds=seconds, say=lambda text: print(text, file=sys.stderr, flush=True)
    )
    if document is None:
        raise SystemExit(1)
    write_json(OUT, document)


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
    """Train what is missing under ``work`` (a cut training is resumed), score everything, return the document.

    ``seconds``: stop training after so many, with a checkpoint; None is returned where something is still to be trained.
    """
    end = None if seconds is None else time.monotonic() + seconds
    asked = {work / f"{method}-seed{seed}": request_for(method, seed, epochs) for seed in seeds for method in methods}
    for folder, request in asked.items():
        left = None if end is None else end - time.monotonic()
        if not _train(folder, request, left):
            say(f"out of time in {request.method}, seed {request.seed}; the same command goes on")
            return None
    names = detector_names() if detectors is None else list(detectors)
    runs: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for folder, request in asked.items():
        which, record = {"method": request.method, "seed": request.seed}, finished_record(folder)
        result = record["result"]
        runs.append({
            **which, "hparams": record["hparams"], "environments": record["environments"],
            "stages": {s["name"]: round(s["epochs"], 3) for s in record["stages"]}, "steps": result["steps"],
            "views": result["views"], "seconds": result["seconds"], "commit": record["environment"]["commit"],
        })  # fmt: skip
        opened, fitted = open_data(request.data), load(folder, device="cpu").fitted_
        parts: Any = opened.parts
        tests: dict[str, Any] = dict(opened.tests)
        able = names if detectors is not None else names_for(fitted.model)
        found = evaluate_detectors(
            fitted.model, train=parts.train, wild=parts.wild, calibration=parts.calibration, **tests,
            detectors=[name for name in names if name in able],
            preprocess=fitted.preprocess,
        )  # fmt: skip
        for name, one in found.items():
            values = None if one.evaluation is None else {m: _short(getattr(one.evaluation, m)) for m in COLUMNS}
            rows.append({**which, "detector": name, "config": one.detector.config(), "refused": one.refused,
                         "metrics": values})  # fmt: skip
        say(f"{request.method}, seed {request.seed}: {result['steps']} steps in {result['seconds']:.0f} s, "
            f"{len(found)} detectors")  # fmt: skip
    return {
        "schema": SCHEMA, "seeds": list(seeds), "methods": list(methods), "detectors": names,
        "splits": {str(seed): digits_task(seed).hashes() for seed in seeds}, "runs": runs, "rows": rows,
        "environment": environment(),
    }  # fmt: skip


def request_for(method: str, seed: int, epochs: float | None = None) -> TrainRequest:
    data = DataSpec("digits", seed=seed)
    return TrainRequest(method, data, "small", "fast", epochs, CHANGES.get(method, {}), pictures=False, seed=seed)


def _train(folder: Path, request: TrainRequest, seconds: float | None) -> bool:
    """Train, go on with a training that was cut, or find it done; False when the time was over first."""
    settings = Settings(device="cpu", progress=False, time_limit=seconds if seconds is None or seconds > 0 else None)
    before = read_training(folder)
    if before is not None:
        check_same(folder, request, before)
    if before is not None and before["result"] is not None:
        return True
    if seconds is not None and seconds <= 0:
        return False
    return (start(request, folder, settings) if before is None else resume(folder, settings)).finished


def check_same(folder: Path, request: TrainRequest, before: dict[str, Any]) -> None:
    """A network trained by another recipe (an older one, or other epochs) has no place in the table."""
    plan = make_plan(request, torch.device("cpu"))
    now = {"method": request.method, "hparams": plan.hparams, "data": request.data.for_bundle(), "seed": request.seed}
    other = [name for name, value in json.loads(json.dumps(now)).items() if before.get(name) != value]
    # as stages, not as text: a setting that came later and is at its default makes no other recipe
    if tuple(map(stage_from_json, before["stages"])) != plan.stages:
        other.append("stages")
    if other:
        raise InputError(
            f"{folder} was trained with other {', '.join(other)} than now; take it away or choose another --work"
        )


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


if __name__ == "__main__":
    main()
