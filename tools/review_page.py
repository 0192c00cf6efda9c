"""docs/results/review.md and its picture, from the JSON of benchmarks/review.py."""

from pathlib import Path
from typing import Any

import numpy as np

TITLES = {
    "groups": "wildspec (groups, then the boundary)", "random": "at random", "boundary": "nearest to the boundary (AHA)",
    "most_unlike": "the most unlike", "entropy": "entropy of the classes", "margin": "smallest margin of the classes",
}  # fmt: skip
COLUMNS = {
    "told apart": "fs_auroc", "known kept": "id_kept", "shifted kept": "covariate_kept",
    "unknown rejected": "detection_rate", "shifted recognised": "ood_acc",
}  # fmt: skip
HEAD = """# A person in the loop

What a few answers about wild samples change. The worlds are those of [photographs and domains](front-door.md) that were
held back, every other one; a simulated person answers with the truth: a known class, or unknown. Questions are asked in
rounds, each by the model that has learned from the rounds before. Per cent, means over worlds and draws; *told apart* is the
AUROC of known, shifted or not, against unknown; *kept* and *rejected* at the model's own threshold.

![Told apart, shifted kept and unknown rejected, by number of answers](../img/review-answers.png)
"""
BARS = {20: {"fs_auroc": 92, "detection_rate": 75}, 50: {"fs_auroc": 95, "detection_rate": 85}}
ALWAYS = {"id_kept": 94, "covariate_kept": 88}


def mean(records: list[dict[str, Any]], metric: str, **which: Any) -> float:
    found = [100 * r[metric] for r in records if all(r[key] == value for key, value in which.items())]
    return float(np.mean(found)) if found else float("nan")


def page(document: dict[str, Any]) -> str:
    records = document["records"]
    draws, worlds = len({r["draw"] for r in records}), len({r["world"] for r in records})
    seconds = np.array([r["refit_seconds"] for r in records if "refit_seconds" in r])
    command = document["environment"]["command"]
    made = f"Made by `{command}`: {worlds} worlds, {draws} draws; then `python tools/make_results.py review`."
    large = len({r["world"] for r in records if r["answers"] == 100})
    left_out = (
        f"A round is left out where the pool has fewer than twice as many samples: the line of 100 answers is of {large} "
        "worlds. One seed of the worlds of photographs and domains had been looked at when the threshold with answers was "
        "settled, on other worlds."
    )
    parts = [HEAD, made, "## Our questions", answers(records), left_out, "## Which question rule", rules(records)]
    parts += ["## Wrong answers", wrong(records), "## What we aimed for", bars(records)]
    parts.append(
        f"A refit took {np.median(seconds):.1f} s in the middle and {seconds.max():.1f} s at most, on one busy core, with "
        "pools of 100 to 2,000 samples."
    )
    return "\n\n".join(parts) + "\n"


def answers(records: list[dict[str, Any]]) -> str:
    lines = ["| answers | " + " | ".join(COLUMNS) + " |", "|---:|" + "---:|" * len(COLUMNS)]
    for count in sorted({r["answers"] for r in records}):
        which: dict[str, Any] = {"answers": count, "wrong": 0.0, "rule": "groups" if count else None}
        lines.append(f"| {count} | " + " | ".join(f"{mean(records, m, **which):.1f}" for m in COLUMNS.values()) + " |")
    return "\n".join(lines)


def rules(records: list[dict[str, Any]]) -> str:
    """All rules in the first draw, where all were asked."""
    everywhere = records
    records = _all_asked(records, "rule", "most_unlike")
    counts = [count for count in sorted({r["answers"] for r in records}) if count]
    many = len({r["world"] for r in records})
    lines = [f"Told apart after so many answers, first draw, the {many} worlds with small pools."]
    lines += ["In parentheses: all worlds and draws.", ""]
    lines += ["| questions | " + " | ".join(f"{count}" for count in counts) + " |", "|---|" + "---:|" * len(counts)]
    several = ("groups", "random", "boundary")
    for rule, title in TITLES.items():
        cells = []
        for count in counts:
            first = mean(records, "fs_auroc", rule=rule, wrong=0.0, answers=count, draw=0)
            every = mean(everywhere, "fs_auroc", rule=rule, wrong=0.0, answers=count)
            cells.append(f"{first:.1f} ({every:.1f})" if rule in several else f"{first:.1f}")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def wrong(records: list[dict[str, Any]]) -> str:
    counts = [count for count in sorted({r["answers"] for r in records}) if count]
    records = _all_asked(records, "wrong", 0.1)
    lines = ["Told apart, our questions, first draw, small pools, where a share of the answers is wrong.", ""]
    lines += ["| wrong | " + " | ".join(f"{count}" for count in counts) + " |", "|---:|" + "---:|" * len(counts)]
    for share in sorted({r["wrong"] for r in records}):
        cells = [mean(records, "fs_auroc", rule="groups", wrong=share, answers=count, draw=0) for count in counts]
        lines.append(f"| {share:.0%} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")
    return "\n".join(lines)


def _all_asked(records: list[dict[str, Any]], key: str, value: Any) -> list[dict[str, Any]]:
    """Records of the first draw, of worlds in which ``key`` was ``value`` too."""
    worlds = {r["world"] for r in records if r[key] == value}
    return [r for r in records if r["world"] in worlds and r["draw"] == 0]


def bars(records: list[dict[str, Any]]) -> str:
    words = {metric: title for title, metric in COLUMNS.items()}
    lines = []

    def line(text: str, holds: bool) -> None:
        lines.append(f"- {'held' if holds else 'MISSED'}: {text}")

    for count, wanted in BARS.items():
        for metric, least in {**wanted, **ALWAYS}.items():
            found = mean(records, metric, rule="groups", wrong=0.0, answers=count)
            line(f"{count} answers, {words[metric]} at least {least}: {found:.1f}", found >= least)
        for other in ("random", "boundary"):
            ours, theirs = (mean(records, "fs_auroc", rule=r, wrong=0.0, answers=count) for r in ("groups", other))
            line(f"{count} answers, ours at or above {TITLES[other]}: {ours:.1f} against {theirs:.1f}", ours >= theirs)
        gaps = {}
        for world in {r["world"] for r in records}:
            two = [mean(records, "fs_auroc", rule=r, wrong=0.0, answers=count, world=world) for r in ("groups", "random")]
            if not np.isnan(two).any():
                gaps[world] = two[0] - two[1]
        least_world = min(sorted(gaps), key=lambda world: gaps[world])
        worst = gaps[least_world]
        below = f"{count} answers, no world more than 2 points below questions at random"
        line(f"{below}: {least_world} {worst:+.1f}", worst >= -2)
    return "\n".join(lines)


def picture(document: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    records = document["records"]
    counts = sorted({r["answers"] for r in records})
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", sharey=True)
    shown = {"groups": ("#b04a6a", "-"), "boundary": ("#e0a03c", "--"), "random": ("#4878a8", ":")}
    for axis, title in zip(axes, ("told apart", "shifted kept", "unknown rejected"), strict=True):
        for rule, (colour, style) in shown.items():
            at = {count: {"answers": count, "wrong": 0.0, "rule": rule if count else None} for count in counts}
            values = [mean(records, COLUMNS[title], **at[count]) for count in counts]
            axis.plot(range(len(counts)), values, style, color=colour, marker="o", markersize=4, label=TITLES[rule])
        axis.set_xticks(range(len(counts)), [str(count) for count in counts])
        axis.set_title(f"{title} (%)", loc="left", fontsize=10)
        axis.set_xlabel("answers")
        axis.grid(axis="y", color="#dddddd")
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", frameon=False, ncols=3, fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)
