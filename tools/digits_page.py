"""docs/results/digits.md and docs/dev/digits.md: every method on digits, with its own detector and with all of them.

From the JSON of benchmarks/digits.py.
"""

from typing import Any

from wildspec.bench.records import mean_and_spread
from wildspec.bench.render import markdown_table
from wildspec.methods import METHODS

Document = dict[str, Any]
COLUMNS = {
    "id_acc": "accuracy ↑", "ood_acc": "accuracy, shifted ↑", "fpr95_id": "FPR95 ↓", "fs_auroc": "fs-AUROC ↑",
    "id_kept": "known kept ↑", "covariate_kept": "shifted kept ↑", "detection_rate": "unknown rejected ↑",
    "joint": "joint ↑",
}  # fmt: skip
GRIDS = {
    "auroc": "AUROC, clean known against unknown",
    "fs_auroc": "Full-spectrum AUROC, known, clean or shifted, against unknown",
    "joint": "Joint score: harmonic mean of accuracy on shifted images, shifted kept and unknown rejected",
}
HEAD = """# Digits: every training method

The digits 0 to 5 are known: 231 labelled images, and a pool of 509 without labels: clean and noisy (*shifted*) ones
of 0 to 5, and clean ones of 6 to 9, which are unknown. The task is built in and small (142 test images of each known
class): it shows that everything runs and how the parts go together; it ranks nothing finely. Per cent, {over}; a seed
draws split, network and order.

| column | what it says |
|---|---|
| accuracy; accuracy, shifted | known digits, clean or noisy, that get the right class |
| FPR95 | unknown digits that pass for known at the threshold that keeps 95 % of clean known ones; lower is better |
| fs-AUROC | how well a score tells known digits, clean or noisy, from unknown ones; 50 is chance |
| known kept, shifted kept, unknown rejected | clean, noisy and unknown digits, at the model's own threshold |
| joint | harmonic mean of accuracy on shifted images, shifted kept and unknown rejected |
| steps | of training. `oe`, `energy_outlier`, `woods`, `scone`, `sal` begin with more cross-entropy than `erm` has in all |

"""
TAIL = """
`spectral+` is ours and decides at the [threshold from the pool](../decision.md); all others at the one that keeps 95 % of
held-out clean images. Recipes are what `wildspec train` makes of preset `fast` here; none was chosen for this task. Those of
[the threshold from the pool](../dev/joint-digits.md) were, so its numbers differ.

## How it was made

By `python tools/make_results.py digits` from `docs/results/digits.json`, which is written by

```
{command}
```

Every method with every detector, and how each was trained: [in full](../dev/digits.md).
"""
FULL = """# Digits: every method with every detector

In short, and what the columns mean: [results](../results/digits.md). Per cent, means over {seeds} seeds. Detectors have
their published settings, KNN a k that suits so few images. ASH and SCALE, whose percentiles were chosen on wider networks
than this one (128 features), can be worse than chance (`--detector ash:percent=30` takes another).
"""


def page(document: Document) -> str:
    """For users: each method with its own detector."""
    own = {name: METHODS[name].default_detector for name in document["methods"]}
    methods = [(name, detector) for name, detector in own.items() if detector in document["detectors"]]
    steps = {run["method"]: f"{run['steps']:,}" for run in document["runs"]}
    lines = [
        [name, detector, *(cell(document, name, detector, metric) for metric in COLUMNS), steps[name]]
        for name, detector in methods
    ]
    seeds = len(document["seeds"])
    over = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else "one seed"
    table = markdown_table(["method", "scored by", *COLUMNS.values(), "steps"], lines)
    return HEAD.format(over=over) + table + "\n" + TAIL.format(command=document["environment"]["command"])


def full(document: Document) -> str:
    """For developers: one grid a metric, how each was trained."""
    parts = [FULL.format(seeds=len(document["seeds"])).rstrip()]
    for metric, title in GRIDS.items():
        lines = [
            [name, *(cell(document, name, detector, metric, spread=False) for detector in document["detectors"])]
            for name in document["methods"]
        ]
        parts += [f"## {title}", markdown_table(["method", *document["detectors"]], lines)]
    if refused := {(row["method"], row["detector"]): row["refused"] for row in document["rows"] if row["refused"]}:
        parts.append("Could not be measured:\n\n" + "\n".join(f"- {m} + {d}: {why}" for (m, d), why in refused.items()))
    titles = ["method", "stages (epochs)", "steps", "hyper-parameters changed", "environments", "seconds"]
    parts += ["## How each was trained", markdown_table(titles, [_training(document, name) for name in document["methods"]])]
    made = document["environment"]
    return "\n\n".join([
        *parts,
        f"{made['hardware']['cpu']}, {made['hardware']['cores']} cores; torch {made['versions'].get('torch')}, Python "
        f"{made['versions']['python']}. Seconds are those of one process. Commits are in the JSON, run by run.",
    ]) + "\n"  # fmt: skip


def cell(document: Document, method: str, detector: str, metric: str, *, spread: bool = True) -> str:
    """Mean over seeds, and the spread where there are several."""
    found = [row["metrics"] for row in document["rows"] if (row["method"], row["detector"]) == (method, detector)]
    values = [100 * metrics[metric] for metrics in found if metrics and metrics[metric] is not None]
    if not values:
        return "–"
    mean, deviation = mean_and_spread(values)
    return f"{mean:.1f}" + (f" ± {deviation:.1f}" if spread and deviation is not None else "")


def _training(document: Document, method: str) -> list[str]:
    runs = [run for run in document["runs"] if run["method"] == method]
    first = runs[0]
    stages = ", ".join(f"{name} {epochs:g}" for name, epochs in first["stages"].items())
    changed = ", ".join(f"{key}={value}" for key, value in first["hparams"].items()) or "–"
    seconds = sum(run["seconds"] for run in runs) / len(runs)
    return [method, stages, f"{first['steps']:,}", changed, first["environments"] or "–", f"{seconds:.0f}"]
