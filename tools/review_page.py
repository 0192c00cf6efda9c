"""docs/results/review.md and its picture, from the JSON of benchmarks/review.py."""

from pathlib import Path
from typing import Any

import numpy as np

import aha_page

TITLES = {
    "groups": "wildspec (groups, then the boundary)", "random": "at random", "boundary": "nearest to the boundary (AHA)",
    "most_unlike": "the most unlike", "entropy": "entropy of the classes", "margin": "smallest margin of the classes",
}  # fmt: skip
OURS = "groups"
COLUMNS = {
    "told apart": "fs_auroc", "known kept": "id_kept", "shifted kept": "covariate_kept",
    "unknown rejected": "detection_rate", "shifted recognised": "ood_acc",
}  # fmt: skip
HEAD = """# A person in the loop

What a few answers about wild samples change. The worlds are those of [photographs and domains](front-door.md) that were
held back; a simulated person answers with the truth: a known class, or unknown. Questions are asked in rounds, each by the
model that has learned from the rounds before. Per cent, means over worlds and draws; *told apart* is the AUROC of known,
shifted or not, against unknown; *kept* and *rejected* at the model's own threshold.

![Told apart by number of answers and question rule; shifted kept and unknown rejected](../img/review-answers.png)
"""
BARS = {20: {"fs_auroc": 92, "detection_rate": 75}, 50: {"fs_auroc": 95, "detection_rate": 85}}
ALWAYS = {"id_kept": 94, "covariate_kept": 88}


def mean(records: list[dict[str, Any]], metric: str, **which: Any) -> float:
    found = [100 * r[metric] for r in records if all(r[key] == value for key, value in which.items())]
    return float(np.mean(found)) if found else float("nan")


def page(document: dict[str, Any], blind: dict[str, Any], setting: dict[str, Any]) -> str:
    """``document``, ``blind``: of `benchmarks/review.py`; ``setting``: AHA's (`benchmarks/aha.py`)."""
    right = [r for r in document["records"] if not r["wrong"]]
    run = document["environment"]
    made = (
        f"Made by `{run['command']}` (commit {run['commit']}): "
        f"{len({r['world'] for r in right})} worlds, {len({r['draw'] for r in right})} draws; then "
        "`python tools/make_results.py review`."
    )
    large = len({r["world"] for r in right if r["answers"] == 100})
    left_out = (
        f"A round is left out where the pool has fewer than twice as many samples: the line of 100 answers is of {large} "
        "worlds. Half of the worlds are those of earlier versions of this page; one seed of these had been looked at when "
        "the threshold with answers was first settled, on other worlds."
    )
    parts = [HEAD, made, "## Our questions", answers(right), left_out, "## Which question rule", by_rule(right)]
    parts += ["## On worlds that were written down first", written_first(blind)]
    parts += ["## Wrong answers", wrong(document["records"])]
    parts += ["## What we aimed for", bars(right), aha_page.section(setting)]
    parts += ["## How long it takes", times(document["speed"], right)]
    return "\n\n".join(part for part in parts if part) + "\n"


def written_first(blind: dict[str, Any]) -> str:
    """Our questions, and what random ones tell apart, in worlds on which no rule was settled."""
    records, run = blind["records"], blind["environment"]
    rows = []
    for count in sorted({r["answers"] for r in records}):
        ours = [mean(records, metric, answers=count, rule=OURS if count else None) for metric in COLUMNS.values()]
        rows.append([str(count), *ours, mean(records, "fs_auroc", answers=count, rule="random" if count else None)])
    text = (
        f"The {len({r['world'] for r in records})} worlds of [photographs and domains](front-door.md) that were written\n"
        f"down first, {len({r['draw'] for r in records})} draws: our questions, and in the last column random ones.\n\n"
    )
    head = [*COLUMNS, "told apart, at random"]
    return f"{text}{_table('answers', head, rows)}\n\nBy `{run['command']}` (commit {run['commit']})."


def times(speed: dict[str, Any], records: list[dict[str, Any]]) -> str:
    seconds = np.array([r["refit_seconds"] for r in records if "refit_seconds" in r])
    return (
        f"With {speed['wild']:,} wild samples of {speed['features']:,} features, on two cores: "
        f"{speed['questions']:.1f} s for ten questions, {speed['refit']:.1f} s for a refit, medians of {speed['rounds']} "
        "rounds (`python benchmarks/review.py --speed`). In the worlds above, of 100 to 2,400 samples, a refit took "
        f"{np.median(seconds):.1f} s (median), {seconds.max():.1f} s at most, on one core."
    )


def answers(records: list[dict[str, Any]]) -> str:
    rows = []
    for count in sorted({r["answers"] for r in records}):
        which: dict[str, Any] = {"answers": count, "wrong": 0.0, "rule": OURS if count else None}
        rows.append([str(count), *(mean(records, metric, **which) for metric in COLUMNS.values())])
    return _table("answers", list(COLUMNS), rows)


def by_rule(records: list[dict[str, Any]]) -> str:
    counts = [count for count in sorted({r["answers"] for r in records}) if count]
    rows = [
        [title, *(mean(records, "fs_auroc", rule=rule, wrong=0.0, answers=count) for count in counts)]
        for rule, title in TITLES.items()
    ]
    return f"Told apart after so many answers.\n\n{_table('questions', counts, rows)}"


def wrong(records: list[dict[str, Any]]) -> str:
    """With some wrong answers, and with none, in the worlds and draws that were run with all of them."""
    asked = [r for r in records if r["rule"] == OURS]
    shares = sorted({r["wrong"] for r in asked})
    both = set.intersection(*({(r["world"], r["draw"]) for r in asked if r["wrong"] == w} for w in shares))
    some = [r for r in asked if (r["world"], r["draw"]) in both]
    counts = sorted({r["answers"] for r in some})
    rows = [[f"{w:.0%}", *(mean(some, "fs_auroc", wrong=w, answers=count) for count in counts)] for w in shares]
    worlds = len({world for world, _ in both})
    return f"Told apart, our questions, {len(both)} runs in {worlds} worlds:\n\n{_table('wrong', counts, rows)}"


def _table(first: str, columns: list[Any], rows: list[list[Any]]) -> str:
    lines = [f"| {first} | " + " | ".join(map(str, columns)) + " |", "|---|" + "---:|" * len(columns)]
    lines += [f"| {row[0]} | " + " | ".join(f"{cell:.1f}" for cell in row[1:]) + " |" for row in rows]
    return "\n".join(lines)


def bars(records: list[dict[str, Any]]) -> str:
    words = {metric: title for title, metric in COLUMNS.items()}
    lines = []

    def line(text: str, holds: bool) -> None:
        lines.append(f"- {'met' if holds else 'MISSED'}: {text}")

    for count, wanted in BARS.items():
        for metric, least in {**wanted, **ALWAYS}.items():
            found = mean(records, metric, rule=OURS, wrong=0.0, answers=count)
            line(f"{count} answers, {words[metric]} at least {least}: {found:.1f}", found >= least)
        for other in ("random", "boundary"):
            ours, theirs = (mean(records, "fs_auroc", rule=r, wrong=0.0, answers=count) for r in (OURS, other))
            line(f"{count} answers, ours at or above {TITLES[other]}: {ours:.1f} against {theirs:.1f}", ours >= theirs)
        gaps = {}
        for world in {r["world"] for r in records}:
            two = [mean(records, "fs_auroc", rule=r, wrong=0.0, answers=count, world=world) for r in (OURS, "random")]
            if not np.isnan(two).any():
                gaps[world] = two[0] - two[1]
        least_world = min(sorted(gaps), key=lambda world: gaps[world])
        worst = gaps[least_world]
        below = f"{count} answers, no world more than 2 points below questions at random"
        line(f"{below}: {least_world} {worst:+.1f}", worst >= -2)
    return "\n".join(lines)


def picture(records: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    counts = sorted({r["answers"] for r in records})
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
    shown = {OURS: ("#b04a6a", "-"), "random": ("#4878a8", ":"), "boundary": ("#e0a03c", "--")}
    decided = {"shifted kept": ("#3a8a5f", "-"), "unknown rejected": ("#b04a6a", "--")}
    lines = [(axes[0], TITLES[rule], "told apart", rule, *look) for rule, look in shown.items()]
    lines += [(axes[1], title, title, OURS, *look) for title, look in decided.items()]
    for axis, label, column, rule, colour, style in lines:
        values = [mean(records, COLUMNS[column], answers=n, wrong=0.0, rule=rule if n else None) for n in counts]
        axis.plot(range(len(counts)), values, style, color=colour, marker="o", markersize=4, label=label)
    for axis, title in zip(axes, ("told apart (%)", "our questions, decided (%)"), strict=True):
        axis.set_xticks(range(len(counts)), [str(count) for count in counts])
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_xlabel("answers")
        axis.grid(axis="y", color="#dddddd")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=9, loc="lower right")
    figure.savefig(path, dpi=110)
    plt.close(figure)
