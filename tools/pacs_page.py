"""docs/results/pacs-embeddings.md and docs/dev/pacs-embeddings.md: the embeddings route on PACS, in short and in full.

From the JSON of ``wildspec bench pacs-embeddings`` and of benchmarks/pacs_classes.py.
"""

from typing import Any

import numpy as np
from scipy.stats import spearmanr

from wildspec.bench.embedding_methods import METHODS
from wildspec.bench.pacs_tables import SHORT, Means, markdown, mean_by, summarize, table
from wildspec.bench.render import markdown_table, per_cent

Document = dict[str, Any]
COLUMNS = {
    "id_acc": "accuracy ↑", "ood_acc": "accuracy, shifted ↑", "fs_auroc": "fs-AUROC ↑", "covariate_kept": "shifted kept ↑",
    "detection_rate": "unknown rejected ↑", "fpr95_id": "FPR95 ↓", "covariate_acceptance": "shifted kept there ↑",
}  # fmt: skip
RANKED = ("id_acc", "ood_acc", "fs_auroc")  # the others come in pairs: one is bought with the other
HEAD = """# Embeddings of PACS, nothing trained

Pictures of dogs, elephants, giraffes and guitars are known in one style (photograph, painting, cartoon or sketch). A pool
without labels holds the same classes in another style, and horses, houses and persons, which are unknown. Every method gets
the same embeddings of a ready-made network (EfficientNet-Lite0); no method sees a label of the pool. Means over all 12
ordered pairs of styles, ± standard deviation over {seeds} seeds, per cent.

| column | what it says |
|---|---|
| accuracy | known classes in the known style that get the right class |
| accuracy, shifted | known classes in the other style that get the right class |
| fs-AUROC | how well a score tells known classes, in either style, from unknown ones; 50 is chance |
| shifted kept, unknown rejected | at the model's own threshold; baselines have none and are cut at 95 % of known pictures |
| FPR95 | unknown pictures that pass for known at the threshold that keeps 95 % of known ones; lower is better |
| shifted kept there | known classes in the other style that are kept at that same threshold |

## All methods

"(wild)": a baseline that uses the pool. **Bold**: the best, in columns that stand alone. `SpectralClassifier` runs with its
defaults, which were chosen while looking at these pairs ([log](../dev/log-embeddings.md)). In fs-AUROC it leads the best
baseline by {lead:.1f} points; with other classes known, by {least:.1f} to {most:.1f} ([below](#other-classes-known)).

"""
CLASSES = """
## Other classes known

The same with four other classes known and three unknown; seed 0, nothing changed after looking. Beside each number
the best of all {baselines} baselines.

"""
MADE = """
## How it was made

By `python tools/make_results.py pacs-embeddings` from JSON files in `docs/results/`, which are written by

```
{commands}
```

`SpectralClassifier` was measured again when its rule had changed (commit {commit}). Pair by pair, with the paper's
mixture in the pool, and what the theory says: [in full](../dev/pacs-embeddings.md). How the samples are divided:
`wildspec.bench.pacs_embeddings`.
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


def page(document: Document, classes: Document) -> str:
    """The page for users: one table of methods, one of other known classes, how it was made."""
    commands = "\n".join(found["environment_of_other_methods"]["command"] for found in (document, classes))
    (lead,), others = leads([document]), leads(list(classes["runs"].values()))
    text = HEAD.format(seeds=_seeds(document), lead=lead, least=min(others), most=max(others))
    text += table(summarize(document["records"], "all"), COLUMNS, RANKED) + "\n"
    text += CLASSES.format(baselines=sum(not method.ours for method in METHODS.values())) + classes_table(classes) + "\n"
    return text + MADE.format(commands=commands, commit=document["environment"]["commit"])


def full(document: Document) -> str:
    """The page for developers: every metric of both mixtures, pair by pair, theory."""
    records = document["records"]
    text = FULL.format(seeds=_seeds(document))
    for mixture in dict.fromkeys(record["mixture"] for record in records):
        text += f"\n## {TITLES[mixture]}\n\n{markdown(records, mixture)}\n{aims_table(records, mixture)}"
    return text + THEORY + strengths_table(document["strengths"], records)


def leads(documents: list[Document]) -> list[float]:
    """How far our fs-AUROC is above the best baseline's, in points, for each set of records."""
    tables = [summarize(document["records"], "all") for document in documents]
    return [100 * (means["spectral"]["fs_auroc"][0] - _best(means, "fs_auroc")[1]) for means in tables]


def aims_table(records: list[dict[str, Any]], mixture: str) -> str:
    """What was asked for, what came, whether it is met; the best baseline is taken for each metric on its own."""
    table, pairs = summarize(records, mixture), mean_by(records, mixture, "source", "target", metric="fs_auroc")
    mine = {metric: mean for metric, (mean, _) in table["spectral"].items()}
    wins = sum(row["spectral"] > max(v for n, v in row.items() if not METHODS[n].ours) for row in pairs.values())
    lines = [["FPR95 at most 2 %", per_cent(mine["fpr95_id"]), per_cent(0.02), _met(mine["fpr95_id"] <= 0.02)]]
    for aim, metric, more in (
        ("OOD accuracy above the best baseline", "ood_acc", 1e-9),
        ("fs-AUROC at least 5 points above the best baseline", "fs_auroc", 0.05),
        ("ID accuracy within 1 point of the best baseline", "id_acc", -0.01),
    ):
        name, other = _best(table, metric)
        met = _met(mine[metric] >= other + more)
        lines.append([aim, per_cent(mine[metric]), f"{per_cent(other)} ({METHODS[name].title})", met])
    aim = f"fs-AUROC above every baseline on at least 10 of {len(pairs)} pairs"
    lines.append([aim, str(wins), "10", _met(wins >= 10)])
    return markdown_table(["aim", "ours", "best baseline", "met"], lines) + "\n"


def _met(met: bool) -> str:
    return "yes" if met else "**no**"


def _best(table: Means, metric: str) -> tuple[str, float]:
    """The best baseline and its mean."""
    means = {name: row[metric][0] for name, row in table.items() if not METHODS[name].ours}
    name = max(means, key=lambda each: means[each])
    return name, means[name]


def classes_table(document: Document) -> str:
    """One line for each choice of known classes: ours and the best baseline, in three columns; pairs won."""
    lines = []
    for entry in document["runs"].values():
        records = entry["records"]
        table, pairs = summarize(records, "all"), mean_by(records, "all", "source", "target", metric="fs_auroc")
        rivals = {pair: max(value for name, value in row.items() if name != "spectral") for pair, row in pairs.items()}
        won = sum(row["spectral"] > rivals[pair] for pair, row in pairs.items())
        cells = [_beside(table, metric) for metric in ("fs_auroc", "ood_acc", "id_acc")]
        own = [per_cent(table["spectral"][metric][0]) for metric in ("covariate_kept", "detection_rate")]
        lines.append([", ".join(entry["known"]), cells[0], f"{won} of {len(pairs)}", *cells[1:], *own])
    titles = ["known", "fs-AUROC ↑", "pairs above every baseline", "accuracy, shifted ↑", "accuracy ↑", "shifted kept ↑",
              "unknown rejected ↑"]  # fmt: skip
    return markdown_table(titles, lines)


def _beside(table: Means, metric: str) -> str:
    """Ours, in bold where it is above the best baseline, and that."""
    mine, (name, other) = table["spectral"][metric][0], _best(table, metric)
    return f"{per_cent(mine, bold=mine > other)}, {per_cent(other)} ({METHODS[name].title})"


def strengths_table(strengths: list[dict[str, Any]], records: list[dict[str, Any]]) -> str:
    """alpha and beta of every pair beside what was measured there, and how they go together."""
    accuracy, separation = (
        mean_by(records, records[0]["mixture"], "source", "target", metric=metric) for metric in ("ood_acc", "fs_auroc")
    )
    titles = [
        "source → target", "alpha, raw", "beta, raw", "stronger", "alpha, aligned", "beta, aligned", "stronger",
        "logistic regression, OOD-Acc", "ours, OOD-Acc", "ours, fs-AUROC",
    ]  # fmt: skip
    lines, found = [], []
    for entry in strengths:
        pair = entry["source"], entry["target"]
        cells = [[f"{entry[k]['alpha']:.4f}", f"{entry[k]['beta']:.4f}", entry[k]["stronger"]] for k in ("raw", "aligned")]
        found.append([accuracy[pair]["lr"], accuracy[pair]["spectral"], separation[pair]["spectral"]])
        lines.append([" → ".join(SHORT[domain] for domain in pair), *cells[0], *cells[1], *map(per_cent, found[-1])])
    for symbol in ("alpha", "beta"):
        values = [entry["aligned"][symbol] for entry in strengths]
        links = [f"{spearmanr(values, column).statistic:.2f}" for column in np.array(found).T]
        lines.append([f"rank correlation with {symbol}, aligned", *[""] * 6, *links])
    return markdown_table(titles, lines, 1) + "\n"


def _seeds(document: Document) -> int:
    return len({record["seed"] for record in document["records"]})
