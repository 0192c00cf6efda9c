"""The part of docs/results/pacs-embeddings.md on attribution in rounds, from the JSON of benchmarks/pacs_rounds.py."""

from typing import Any

import numpy as np

from wildspec.bench.embedding_tables import SHORT, SHOWN

Records = list[dict[str, Any]]
METRICS = ("fs_auroc", "id_kept", "covariate_kept", "detection_rate")
VARIANTS = {"one": "one round", "default": "as it comes", "unconditional": "without the condition of two groups"}
WORDS = {"fs_auroc": "fs-AUROC", "covariate_kept": "shifted kept", "detection_rate": "unknown rejected"}
MIXTURES = {"all": "all wild samples", "paper": "the paper's mixture"}
INTRO = """
## Attribution in rounds, on the embeddings as they are

Not `SpectralClassifier`, whose attribution is another, but the decision of the image models
(`wildspec.evaluation.decide_jointly` with the detector `wild_knn`) on these embeddings. It claims wild samples for known
classes by their distance to labelled ones, then by their distance to those already claimed
(`wildspec.detectors.attribution`), as long as the distances are two groups. Same splits, a fifth of the labelled samples
held out for the threshold; {seeds} seeds, per cent, means over pairs, ± standard deviation over seeds.
`docs/results/pacs-rounds.json`, written by

```
{command}
```

"""


def section(document: dict[str, Any]) -> str:
    """Heading, both tables, and how many pairs the rounds changed."""
    records = document["records"]
    seeds = len({record["seed"] for record in records})
    text = INTRO.format(seeds=seeds, command=document["environment"]["command"])
    return text + summary_table(records) + "\n" + in_words(records) + "\n\n" + changes(records) + "\n"


def in_words(records: Records) -> str:
    """What rounds after the first gain and cost, in points."""
    told = []
    for mixture, pool in MIXTURES.items():
        gains = []
        for name, title in WORDS.items():
            one, all_ = (
                np.mean([r[name] for r in records if (r["mixture"], r["variant"]) == (mixture, variant)] or [np.nan])
                for variant in ("one", "default")
            )
            gains.append(f"{title} {100 * (all_ - one):+.1f}")
        if any(r["mixture"] == mixture for r in records):
            told.append(f"{', '.join(gains)} ({pool})")
    return (
        f"Rounds after the first, in points: {'; '.join(told)}. They move the threshold more than the ranking. For "
        "embeddings like these the decision to use is `SpectralClassifier`'s, in the tables above."
    )


def summary_table(records: Records) -> str:
    """One line for each mixture and variant."""
    head = [*(SHOWN[name] for name in METRICS), "claimed of shifted", "claimed of unknown", "rounds"]
    lines = ["| pool | attribution | " + " | ".join(head) + " |", "|---|---" + "|---:" * len(head) + "|"]
    for mixture, pool in MIXTURES.items():
        for variant, title in VARIANTS.items():
            chosen = [r for r in records if (r["mixture"], r["variant"]) == (mixture, variant)]
            if not chosen:
                continue
            cells = [_spread(chosen, name) for name in METRICS]
            claimed = [100 * np.mean([r["attributed"][kind] for r in chosen]) for kind in ("covariate", "semantic")]
            cells += [f"{value:.1f}" for value in claimed] + [f"{np.mean([r['rounds'] for r in chosen]):.1f}"]
            lines.append(f"| {pool} | {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def changes(records: Records) -> str:
    """The pairs in which rounds after the first claimed anybody, what they changed there, and that others stay."""
    lines = [
        "| pool | source → target | fs-AUROC, one round | as it comes | cov. kept, one round | as it comes | "
        "unknown rejected, one round | as it comes |",
        "|---|---" + "|---:" * 6 + "|",
    ]
    count: dict[str, int] = {}
    for mixture, pool in MIXTURES.items():
        found = [r for r in records if r["mixture"] == mixture]
        pairs = list(dict.fromkeys((r["source"], r["target"]) for r in found))
        count |= {pool: 0} if found else {}
        for pair in pairs:
            one, all_ = (
                [r for r in found if (r["source"], r["target"], r["variant"]) == (*pair, variant)]
                for variant in ("one", "default")
            )
            if all(a["attributed"] == b["attributed"] for a, b in zip(one, all_, strict=True)):
                continue
            count[pool] += 1
            cells = [_percent(r, name) for name in WORDS for r in (one, all_)]
            lines.append(f"| {pool} | {SHORT[pair[0]]} → {SHORT[pair[1]]} | {' | '.join(cells)} |")
    told = ", ".join(f"{number} ({pool})" for pool, number in count.items())
    return f"Rounds after the first claimed anybody, in any seed, in so many of the 12 pairs: {told}.\n\n" + "\n".join(lines)


def _percent(records: Records, name: str) -> str:
    return f"{100 * np.mean([record[name] for record in records]):.1f}"


def _spread(records: Records, name: str) -> str:
    seeds = sorted({record["seed"] for record in records})
    means = [100 * np.mean([r[name] for r in records if r["seed"] == seed]) for seed in seeds]
    spread = f" ± {np.std(means, ddof=1):.1f}" if len(means) > 1 else ""
    return f"{np.mean(means):.1f}{spread}"
