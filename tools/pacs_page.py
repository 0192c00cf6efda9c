"""docs/results/pacs-embeddings.md and docs/dev/pacs-embeddings.md: the embeddings route on PACS, in short and in full.

From the JSON of ``wildspec bench pacs-embeddings`` (once for all methods, once with one parameter changed at a time) and of
benchmarks/pacs_classes.py.
"""

from typing import Any

import numpy as np

from wildspec.bench.embedding_methods import METHODS
from wildspec.bench.embedding_tables import SHORT, SHOWN, by_pair, markdown, summarize
from wildspec.bench.render import markdown_table

Document = dict[str, Any]
COLUMNS = {
    "id_acc": "accuracy ↑", "ood_acc": "accuracy, shifted ↑", "fs_auroc": "fs-AUROC ↑", "covariate_kept": "shifted kept ↑",
    "detection_rate": "unknown rejected ↑", "fpr95_id": "FPR95 ↓", "covariate_acceptance": "shifted kept there ↑",
}  # fmt: skip
RANKED = ("id_acc", "ood_acc", "fs_auroc")  # the others come in pairs: one is bought with the other
HEAD = """# Embeddings of PACS, nothing trained

Pictures of dogs, elephants, giraffes and guitars are known in one style (photograph, painting, cartoon or sketch). A pool
without labels holds the same kinds in another style, and horses, houses and persons, which are unknown. Every method gets
the same embeddings of a ready-made network (EfficientNet-Lite0); no method sees a label of the pool. Means over all 12
ordered pairs of styles, ± standard deviation over {seeds} seeds, per cent.

| column | what it says |
|---|---|
| accuracy | known kinds in the known style that get the right class |
| accuracy, shifted | known kinds in the other style that get the right class |
| fs-AUROC | how well a score tells known kinds, in either style, from unknown ones; 50 is chance |
| shifted kept, unknown rejected | at the model's own threshold; baselines have none and are cut at 95 % of known pictures |
| FPR95 | unknown pictures that pass for known at the threshold that keeps 95 % of known ones; lower is better |
| shifted kept there | known kinds in the other style that are kept at that same threshold |

## All methods

"(wild)": a baseline that uses the pool. **Bold**: the best, in columns that stand alone. `SpectralClassifier` runs with its
defaults, which were chosen while looking at these pairs ([log](../dev/log-embeddings.md)): with other kinds known the lead
is smaller ([below](#other-kinds-known)).

"""
CLASSES = """
## Other kinds known

The same with four other kinds known and three unknown; seed 0, nothing changed after looking. Beside each number the best of
all {baselines} baselines.

"""
MADE = """
## How it was made

By `python tools/make_results.py pacs-embeddings` from JSON files in `docs/results/`, which are written by

```
{commands}
```

Pair by pair, with the paper's mixture in the pool, one parameter changed at a time, and what the theory says:
[in full](../dev/pacs-embeddings.md). How the samples are divided: `wildspec.bench.pacs_embeddings`.
"""
FULL = """# Embeddings of PACS, in full

What the columns mean: [metrics](../metrics.md). In short: [results](../results/pacs-embeddings.md). Per cent, means over
pairs, ± standard deviation over {seeds} seeds. Made by `python tools/make_results.py pacs-embeddings`.
"""
TITLES = {
    "all": "All wild samples of a pair",
    "paper": "The paper's mixture: 40 % like the labelled ones, 50 % shifted, 10 % unknown",
}
THEORY = """
## What the theory says about these pairs

alpha ties one class across the two domains, beta two classes within one, both in units of the cohesion of a class in its
domain (`wildspec.theory.measure_strengths`, the true labels of all samples, 10 neighbours). "raw": embeddings of length 1;
"aligned": each domain standardized by its own mean and spread. Where domains are the stronger contrast, the leading
eigenvectors of one graph over both domains separate domains first, and a probe learned in the source says little about the
target.

"""
ABLATION = """
## One parameter changed at a time

Seed {seeds}, all wild samples, means over the 12 pairs; `docs/results/pacs-ablation.json`, written by

```
{command}
```

"""


def page(document: Document, classes: Document) -> str:
    """The page for users: one table of methods, one of other known classes, how it was made."""
    commands = "\n".join(found["environment"]["command"] for found in (document, classes))
    text = HEAD.format(seeds=_seeds(document)) + methods_table(document["records"]) + "\n"
    text += CLASSES.format(baselines=sum(not method.ours for method in METHODS.values())) + classes_table(classes) + "\n"
    return text + MADE.format(commands=commands)


def full(document: Document, ablation: Document) -> str:
    """The page for developers: every metric of both mixtures, pair by pair, theory, parameters."""
    records = document["records"]
    text = FULL.format(seeds=_seeds(document))
    for mixture in dict.fromkeys(record["mixture"] for record in records):
        text += f"\n## {TITLES[mixture]}\n\n{markdown(records, mixture)}\n{aims_table(records, mixture)}"
    text += THEORY + strengths_table(document["strengths"], records)
    which = ", ".join(str(seed) for seed in sorted({record["seed"] for record in ablation["records"]}))
    text += ABLATION.format(seeds=which, command=ablation["environment"]["command"])
    return text + ablation_table(ablation["records"])


def aims_table(records: list[dict[str, Any]], mixture: str) -> str:
    """What was asked for, what came."""
    lines = ["| aim | ours | best baseline | met |", "|---|---:|---:|---|"]
    for entry in aims(records, mixture):
        count = isinstance(entry["ours"], int)
        ours = str(entry["ours"]) if count else f"{100 * entry['ours']:.1f}"
        against = str(entry["against"]) if count else f"{100 * entry['against']:.1f}"
        who = f" ({METHODS[entry['baseline']].title})" if entry["baseline"] else ""
        lines.append(f"| {entry['aim']} | {ours} | {against}{who} | {'yes' if entry['met'] else '**no**'} |")
    return "\n".join(lines) + "\n"


def aims(records: list[dict[str, Any]], mixture: str, ours: str = "spectral") -> list[dict[str, Any]]:
    """What was asked for, what came, whether it is met; the best baseline is taken for each metric on its own."""
    table = summarize(records, mixture)
    mine = {name: mean for name, (mean, _) in table[ours].items()}
    baselines = {name: row for name, row in table.items() if not METHODS[name].ours}

    def best(metric: str) -> tuple[str, float]:
        name = max(baselines, key=lambda each: baselines[each][metric][0])
        return name, baselines[name][metric][0]

    pairs = by_pair(records, mixture)
    wins = sum(
        row[ours] > max(value for name, value in row.items() if not METHODS[name].ours) for row in pairs.values()
    )
    accuracy, spectrum, clean = best("ood_acc"), best("fs_auroc"), best("id_acc")
    return [
        _aim("FPR95 at most 2 %", mine["fpr95_id"], 0.02, mine["fpr95_id"] <= 0.02, None),
        _aim("OOD accuracy above the best baseline", mine["ood_acc"], *_than(accuracy, mine["ood_acc"] > accuracy[1])),
        _aim(
            "fs-AUROC at least 5 points above the best baseline", mine["fs_auroc"],
            *_than(spectrum, mine["fs_auroc"] >= spectrum[1] + 0.05),
        ),
        _aim(
            "ID accuracy within 1 point of the best baseline", mine["id_acc"],
            *_than(clean, mine["id_acc"] >= clean[1] - 0.01),
        ),
        {
            "aim": f"fs-AUROC above every baseline on at least 10 of {len(pairs)} pairs", "ours": wins, "against": 10,
            "met": wins >= 10, "baseline": None,
        },
    ]  # fmt: skip


def _aim(text: str, ours: float, against: float, met: bool, baseline: str | None) -> dict[str, Any]:
    return {"aim": text, "ours": ours, "against": against, "met": bool(met), "baseline": baseline}


def _than(rival: tuple[str, float], met: bool) -> tuple[float, bool, str]:
    return rival[1], met, rival[0]


def ablation_table(records: list[dict[str, Any]]) -> str:
    """One line per variant, the defaults first."""
    shown = ("id_acc", "ood_acc", "fpr95_id", "fs_fpr95", "fs_auroc", "covariate_kept", "detection_rate")
    lines = ["| changed | " + " | ".join(SHOWN[name] for name in shown) + " |", "|---" + "|---:" * len(shown) + "|"]
    for name in dict.fromkeys(record["method"] for record in records):
        values = [[record["metrics"][key] for key in shown] for record in records if record["method"] == name]
        changed = name.removeprefix("spectral:").replace("+", ", ").replace("=", " = ")
        title = "nothing" if name == "spectral" else changed
        lines.append(f"| {title} | " + " | ".join(f"{100 * value:.1f}" for value in np.mean(values, axis=0)) + " |")
    return "\n".join(lines) + "\n"


def methods_table(records: list[dict[str, Any]]) -> str:
    """One line a method, all wild samples in the pool."""
    table = summarize(records, "all")
    best = {metric: max(row[metric][0] for row in table.values()) for metric in RANKED}
    lines = []
    for name, row in table.items():
        method = METHODS[name]
        cells = [f"{100 * mean:.1f} ± {100 * spread:.1f}" for mean, spread in (row[metric] for metric in COLUMNS)]
        marked = (f"**{cell}**" if row[m][0] == best.get(m) else cell for m, cell in zip(COLUMNS, cells, strict=True))
        title = f"**{method.title}**" if method.ours else method.title + (" (wild)" if method.wild else "")
        lines.append([title, *marked])
    return markdown_table(["method", *COLUMNS.values()], lines)


def classes_table(document: Document) -> str:
    """One line for each choice of known classes: ours and the best baseline, in three columns; pairs won."""
    lines = []
    for entry in document["runs"].values():
        records = entry["records"]
        table, pairs = summarize(records, "all"), by_pair(records, "all")
        rivals = {pair: max(value for name, value in row.items() if name != "spectral") for pair, row in pairs.items()}
        won = sum(row["spectral"] > rivals[pair] for pair, row in pairs.items())
        cells = [_beside(table, metric) for metric in ("fs_auroc", "ood_acc", "id_acc")]
        own = [f"{100 * table['spectral'][metric][0]:.1f}" for metric in ("covariate_kept", "detection_rate")]
        lines.append([", ".join(entry["known"]), cells[0], f"{won} of {len(pairs)}", *cells[1:], *own])
    titles = ["known", "fs-AUROC ↑", "pairs above every baseline", "accuracy, shifted ↑", "accuracy ↑", "shifted kept ↑",
              "unknown rejected ↑"]  # fmt: skip
    return markdown_table(titles, lines)


def _beside(table: dict[str, dict[str, tuple[float, float]]], metric: str) -> str:
    """Ours, in bold where it is above the best baseline, and that."""
    mine = table["spectral"][metric][0]
    name, other = max(((n, row[metric][0]) for n, row in table.items() if not METHODS[n].ours), key=lambda pair: pair[1])
    shown = f"**{100 * mine:.1f}**" if mine > other else f"{100 * mine:.1f}"
    return f"{shown}, {100 * other:.1f} ({METHODS[name].title})"


def strengths_table(strengths: list[dict[str, Any]], records: list[dict[str, Any]]) -> str:
    """alpha and beta of every pair beside what was measured there, and how they go together."""
    mixture = records[0]["mixture"]
    accuracy, separation = by_pair(records, mixture, "ood_acc"), by_pair(records, mixture)
    lines = [
        "| source → target | alpha, raw | beta, raw | stronger | alpha, aligned | beta, aligned | stronger | "
        "logistic regression, OOD-Acc | ours, OOD-Acc | ours, fs-AUROC |",
        "|---|---:|---:|---|---:|---:|---|---:|---:|---:|",
    ]
    found = []
    for entry in strengths:
        pair = entry["source"], entry["target"]
        cells = [f"{entry[k]['alpha']:.4f} | {entry[k]['beta']:.4f} | {entry[k]['stronger']}" for k in ("raw", "aligned")]
        found.append([accuracy[pair]["lr"], accuracy[pair]["spectral"], separation[pair]["spectral"]])
        numbers = " | ".join(f"{100 * value:.1f}" for value in found[-1])
        lines.append(f"| {SHORT[pair[0]]} → {SHORT[pair[1]]} | {' | '.join(cells)} | {numbers} |")
    for symbol in ("alpha", "beta"):
        values = [entry["aligned"][symbol] for entry in strengths]
        links = [f"{rank_correlation(values, column):.2f}" for column in np.array(found).T]
        lines.append(f"| rank correlation with {symbol}, aligned | | | | | | | {' | '.join(links)} |")
    return "\n".join(lines) + "\n"


def rank_correlation(first: Any, second: Any) -> float:
    """Spearman's: the correlation of ranks, equal values sharing theirs."""
    ranks = [
        np.searchsorted(np.sort(values), values) + np.searchsorted(np.sort(values), values, "right")
        for values in (np.asarray(first), np.asarray(second))
    ]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _seeds(document: Document) -> int:
    return len({record["seed"] for record in document["records"]})
