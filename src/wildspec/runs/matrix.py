"""Every method with every detector on the digits task, as one JSON document and the page made from it.

One network per method and seed; the seed also draws the split. All detectors share the network's one pass over each set.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wildspec.detectors import REGISTRY
from wildspec.errors import DataError
from wildspec.methods import METHODS
from wildspec.provenance import environment
from wildspec.runs.folder import RECORD, load_run
from wildspec.runs.judging import judge
from wildspec.runs.task import DataSpec, open_task
from wildspec.runs.training import Request, resume, start
from wildspec.training import Settings

SCHEMA = "wildspec.digits/1"
METRICS = {
    "id_acc": "ID-Acc ↑", "ood_acc": "OOD-Acc ↑", "fpr95_id": "FPR95 ↓", "auroc": "AUROC ↑", "fs_fpr95": "fs-FPR95 ↓",
    "fs_auroc": "fs-AUROC ↑", "id_kept": "ID kept ↑", "covariate_kept": "cov. kept ↑",
    "detection_rate": "unknown rejected ↑", "joint": "joint ↑",
}  # fmt: skip
GRIDS = {
    "auroc": "AUROC, clean known against unknown",
    "fs_auroc": "Full-spectrum AUROC, known clean or shifted against unknown",
    "joint": "Joint score: harmonic mean of OOD-Acc, shifted kept and unknown rejected at the calibrated threshold",
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
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Train what is missing under ``work`` (a cut run is resumed), score everything, return the document."""
    names = sorted(REGISTRY) if detectors is None else list(detectors)
    runs: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    splits: dict[str, dict[str, str]] = {}
    for seed in seeds:
        splits[str(seed)] = _hashes(seed)
        for method in methods:
            out = work / f"{method}-seed{seed}"
            settings = Settings(device="cpu", progress=False)
            if (out / RECORD).exists():
                resume(out, settings)
            else:
                spec, changes = DataSpec("digits", seed), CHANGES.get(method, {})
                start(Request(method, out, spec, "small", "fast", epochs, changes, seed), settings)
            run = load_run(out)
            record, result = run.record, run.record["result"]
            runs.append({
                "method": method, "seed": seed, "hparams": record["hparams"], "environments": record["environments"],
                "stages": {s["name"]: round(s["epochs"], 3) for s in record["stages"]}, "steps": result["steps"],
                "views": result["views"], "seconds": result["seconds"],
            })  # fmt: skip
            found = judge(run, open_task(run.data), names)
            for one in found:
                values = None if one.evaluation is None else {m: _short(getattr(one.evaluation, m)) for m in METRICS}
                rows.append({"method": method, "detector": one.detector, "seed": seed, "config": one.config,
                             "refused": one.refused, "metrics": values})  # fmt: skip
            say(f"{method}, seed {seed}: {result['steps']} steps in {result['seconds']:.0f} s, {len(found)} detectors")
    return {
        "schema": SCHEMA, "seeds": list(seeds), "methods": list(methods), "detectors": names, "splits": splits, "runs": runs,
        "rows": rows, "environment": environment(),
    }  # fmt: skip


def _hashes(seed: int) -> dict[str, str]:
    from wildspec.benchmark.digits import digits_task

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
        "The task is built in (`wildspec.benchmark.digits`): known classes 0-5, 231 labelled images, 509 wild ones (clean\n"
        "and noisy 0-5, clean 6-9), unknown classes 6-9. It shows that everything runs and how the parts combine; with 142\n"
        f"test images of each known kind it ranks nothing finely. Per cent, {over}; a seed draws split, network, order.\n",
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
    head = ["method", "stages (epochs)", "steps", "hyper-parameters changed", "environments", "seconds"]
    parts.append(_table(head, [_training(document, name) for name in methods]))
    machine = document["environment"]["hardware"]
    versions = document["environment"]["versions"]
    parts.append(
        f"Commit {document['environment']['commit']}; {machine['cpu']}, {machine['cores']} cores; "
        f"torch {versions.get('torch')}, Python {versions['python']}. Training seconds are wall time of one process.\n"
    )
    return "\n".join(part for part in parts if part)


def _values(document: dict[str, Any], method: str, detector: str, metric: str) -> list[float]:
    return [
        row["metrics"][metric]
        for row in document["rows"]
        if (row["method"], row["detector"]) == (method, detector) and row["metrics"] and row["metrics"][metric] is not None
    ]


def _cell(document: dict[str, Any], method: str, detector: str, metric: str, *, spread: bool = True) -> str:
    from wildspec.benchmark.records import mean_and_spread

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
