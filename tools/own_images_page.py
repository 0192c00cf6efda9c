"""docs/results/own-images.md, and the tables of docs/dev/own-images.md, from the record of benchmarks/own_images.py."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from wildspec.bench.render import markdown_table

TITLES = {
    "vehicles": "Four vehicles of CIFAR-10 are known (500 labelled images each); 2,360 came in: vehicles, vehicles under "
    "noise, and six kinds of animals (15 %)",
    "animals": "Six kinds of animals of CIFAR-10 are known (400 labelled images each); 2,120 came in: animals, animals out "
    "of focus, and four kinds of vehicles (15 %)",
    "pacs": "Four kinds of animals of PACS are known (110 labelled photographs each); 630 came in: photographs, paintings "
    "of the same animals, and photographs and paintings of guitars, houses, people (24 %)",
}
UNKNOWN = {"vehicles": 360 / 2360, "animals": 320 / 2120, "pacs": 150 / 630}  # share of what came in
MEASURED = ("accuracy", "accuracy, shifted", "known kept", "shifted kept", "unknown rejected")
JOINT, BUSY = "wild_knn", "beside other work"


HEAD = """# Own images: minutes on two cores

What `wildspec fit --end-to-end` makes of a few hundred labelled images a class and a pool of whatever came in, in
five minutes, without a GPU and without weights to start from. Nobody told it about unknown classes. Per cent, on
images set aside.

"""
BESIDE = """## Trained or taken as it is?

The same images with a network that was trained on ImageNet and is taken as it is: what `wildspec fit` does by itself.
*AUROC*: unknown images against known ones; *AUROC, shifted*: against shifted known ones. The better figure of each
pair is bold.

`pu`, trained from nothing, wins on noisy vehicles, which it recognises and keeps more often. In no task does it tell unknown
images from known ones better."""
TAIL = """
- Known kept: images like the labelled ones that are not rejected; the threshold promises 95 %, on average. Shifted:
  known classes under noise, out of focus, or painted. Accuracy counts the class given whether or not an image was
  rejected.
- The method was chosen while looking at `vehicles`; `animals` and `pacs` are checks with nothing changed.
- `pacs` has 110 labelled photographs a class: too few to learn from nothing. There a pre-trained network is the way
  ([your own backbone](../howto-backbone.md), [embeddings](pacs-embeddings.md)).

{beside}## How it was made

By `python tools/make_results.py own-images` from `{source}`, which is written by

```
{commands}
```

Other commands, detectors, a GPU, longer runs, and what was tried: [in full](../dev/own-images.md).
"""


def page(record: dict[str, Any], source: str, frozen: dict[str, Any] | None = None) -> str:
    """For users: what five minutes of training give, one line a task; and beside it a network that is taken as it is."""
    lines: list[list[str]] = []
    made: list[str] = []
    for task, title in TITLES.items():
        runs = [run for run in record["runs"] if run["task"] == task and not run.get("note") and not _options(run)]
        if runs:
            known, came = title.replace(" are known", "").replace(" came in:", ":").split("; ", 1)
            lines.append([task, known, came, *_cells(runs)[1:-1]])
            named = "" if task == "vehicles" else f"--task {task} "
            seeds = " ".join(str(run["seed"]) for run in runs)
            made.append(f"python benchmarks/own_images.py --data DIR {named}--seeds {seeds} --out {source}")
    titles = ["task", "known", "came in", *MEASURED]
    beside = "" if frozen is None else _beside(record, frozen)
    return HEAD + markdown_table(titles, lines) + "\n" + TAIL.format(source=source, commands="\n".join(made), beside=beside)


def _beside(record: dict[str, Any], frozen: dict[str, Any]) -> str:
    """Trained from nothing and taken as it is, task by task; the better figure of each pair in bold."""
    lines, own = [], {run["task"]: run for run in frozen["runs"]}
    for task in own:
        runs = [run for run in record["runs"] if run["task"] == task and not run.get("note") and not _options(run)]
        both = [_shares(runs), _shares([own[task]])]
        cells = [[f"{100 * share:.1f}" for share in shares] for shares in both]
        for mine, other in ((0, 1), (1, 0)):
            shown = [f"**{a}**" if float(a) > float(b) else a for a, b in zip(cells[mine], cells[other], strict=True)]
            lines.append([task, ("from nothing", "as it is")[mine], *shown])
    titles = ["task", "network", *MEASURED, "AUROC", "AUROC, shifted"]
    made = frozen["environment"]["command"]
    return f"{BESIDE}\n\n{markdown_table(titles, lines)}\n\nThe lines \"as it is\": one seed, `{made}`.\n\n"


def _options(run: dict[str, Any]) -> str:
    """What was typed besides five minutes and a seed."""
    return re.sub(r"^.*--wild incoming --minutes 5| --seed \d+| --out model", "", run["commands"][0])


def block(record: dict[str, Any], source: str) -> str:
    """The tables of a record: one a task, a row for each command, means over seeds."""
    lines: list[str] = []
    for task in TITLES:
        mine = [run for run in record["runs"] if run["task"] == task]
        if not mine:
            continue
        lines += [
            f"**{task}.** {TITLES[task]}, of which nobody told the model. Per cent, on images set aside; accuracy counts "
            "the class given whether or not the image was rejected; AUROC: unknown against clean, against shifted known.",
            "",
        ]  # fmt: skip
        rows = []
        for key in dict.fromkeys(_row_of(run) for run in mine):
            runs = [run for run in mine if _row_of(run) == key]
            rows.append([key, ", ".join(str(run["seed"]) for run in runs), *_cells(runs)])
        lines += [markdown_table(["typed", "seeds", "seconds", *MEASURED, "AUROC"], rows), "", *_detector_table(mine)]
    lines += [*_joint_table(record["runs"]), *_share_table(record["runs"])]
    commands = "; ".join(f"`` {one} ``" if "`" in one else f"`{one}`" for one in record["made_by"])
    lines.append(f"Measured by {commands}; `{source}`.")
    return "\n".join(lines)


def _detector_table(runs: list[dict[str, Any]]) -> list[str]:
    """The networks of the first row that has them under other detectors: kept, kept shifted, unknown rejected, AUROC; means
    over seeds."""
    row = next((_row_of(run) for run in runs if run.get("detectors")), None)
    if row is None:
        return []
    first = [run for run in runs if _row_of(run) == row and run.get("detectors")]
    which = "the first line" if row == _row_of(runs[0]) else row
    lines = []
    for name in (one for one in first[0]["detectors"] if one != JOINT):
        every = [run["detectors"][name] for run in first]
        mean = {key: 100 * float(np.mean([one[key] for one in every])) for key in every[0]}
        ranks = f"{mean['auroc_known']:.1f}, {mean['auroc_shifted']:.1f}"
        lines.append([name, f"{mean['known']:.1f}", f"{mean['shifted']:.1f}", f"{100 - mean['unknown']:.1f}", ranks])
    table = markdown_table(["detector", "known kept", "shifted kept", "unknown rejected", "AUROC"], lines)
    return [f"The networks of {which} under other detectors, each with its own threshold:", "", table, ""]


def _joint_table(runs: list[dict[str, Any]]) -> list[str]:
    """The detector of the joint decision on every network it was measured on, beside the score `fit` takes there."""
    mine = [run for run in runs if JOINT in run.get("detectors", {})]
    if not mine:
        return []
    lines = []
    for run in mine:
        joint, energy = run["detectors"][JOINT], run["detectors"]["energy"]
        shares = (joint["known"], joint["shifted"], 1 - joint["unknown"], 1 - energy["unknown"])
        lines.append([run["task"], str(run["seed"]), _typed(run), *(f"{100 * share:.1f}" for share in shares)])
    table = markdown_table(["task", "seed", "typed", *MEASURED[2:], "by the energy"], lines)
    said = f"**The joint decision (`{JOINT}`) in minutes on a CPU**, beside what the energy rejects, per cent:"
    return [said, "", table, ""]


def _share_table(runs: list[dict[str, Any]]) -> list[str]:
    """What `fit` said about the share of unknown images in the pool, beside the truth."""
    mine = [run for run in runs if run.get("mixture")]
    if not mine:
        return []
    lines = []
    for run in mine:
        true, found = UNKNOWN[run["task"]], run["mixture"]
        low, high = found["pi_s_interval"]
        shares = [f"{100 * true:.1f}", f"{100 * found['pi_s']:.1f}", f"{100 * low:.1f} and {100 * high:.1f}"]
        lines.append([run["task"], str(run["seed"]), _typed(run), *shares])
    table = markdown_table(["task", "seed", "typed", "unknown", "estimated", "between"], lines)
    said = "**The share of unknown images in the pool**, and the share of unlike ones that `fit` estimated, per cent:"
    return [said, "", table, ""]


def _typed(run: dict[str, Any]) -> str:
    """What sets a command apart from the others, and what is to be known about the run where it is no quiet one."""
    typed = re.sub(r"^.*--wild incoming | --seed \d+| --out model", "", run["commands"][0])
    return f"`{typed}`" + (f", {run['note']}" if (run.get("note") or "").startswith(BUSY) else "")


def _row_of(run: dict[str, Any]) -> str:
    """The command without its seed, and with how many threads it ran where that was said."""
    typed = re.sub(r" --seed \d+", "", run["commands"][0])
    more = [run.get("note"), f"{run['threads']} thread" if run["threads"] else None]
    return f"`{typed}`" + "".join(f", {one}" for one in more if one)


def _shares(runs: list[dict[str, Any]]) -> list[float]:
    """What `MEASURED` names, and AUROC of unknown against known and against shifted known images; means over seeds."""

    def mean(get: Callable[[dict[str, Any]], float]) -> float:
        return float(np.mean([get(run["sets"]) for run in runs]))

    return [
        mean(lambda s: s["known"]["accuracy"]), mean(lambda s: s["shifted"]["accuracy"]), mean(lambda s: s["known"]["kept"]),
        mean(lambda s: s["shifted"]["kept"]), mean(lambda s: 1 - s["unknown"]["kept"]),
        mean(lambda s: s["unknown"]["auroc_against_known"]), mean(lambda s: s["unknown"]["auroc_against_shifted"]),
    ]  # fmt: skip


def _cells(runs: list[dict[str, Any]]) -> list[str]:
    *values, known, shifted = (f"{100 * share:.1f}" for share in _shares(runs))
    seconds = float(np.mean([run["seconds"]["fit"] for run in runs]))
    return [f"{seconds:.0f}", *values, f"{known}, {shifted}"]
