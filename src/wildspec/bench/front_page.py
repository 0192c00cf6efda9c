"""The results on the front page (README.md): three short tables from the committed records, each with a link to the rest."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from wildspec.bench import bars, brief, embedding_tables, joint_page
from wildspec.bench.embedding_methods import METHODS
from wildspec.bench.names import Names
from wildspec.bench.records import Record
from wildspec.bench.render import STACKED
from wildspec.bench.tables import summarize

COLUMNS = {
    "OOD-Acc ↑": "ood_acc", "FPR95 ↓": "fpr95_id", "fs-FPR95 ↓": "fs_fpr95", "fs-AUROC ↑": "fs_auroc",
    "ID kept ↑": "id_kept", "cov. kept ↑": "covariate_kept", "unknown rejected ↑": "detection_rate",
}  # fmt: skip
DIGITS = ("cross-entropy + energy", "cross-entropy + KNN", "spectral + KNN", joint_page.OURS)
EMBEDDINGS = ("lr-energy", "label-spreading-rbf", "label-propagation-rbf", "mahalanobis", "vim", "spectral")
IMAGES = ("energy", "mahalanobis", "knn", "scone", "spectral", "spectral+")


def digits(document: dict[str, Any]) -> str:
    """The demo's task, several seeds."""
    lines = _head()
    for title in DIGITS:
        mine = [row["metrics"] for row in document["rows"] if row["title"] == title]
        if mine:
            values = {metric: float(np.mean([row[metric] for row in mine])) for metric in COLUMNS.values()}
            lines.append(_line(title, values, bold=title == joint_page.OURS))
    return _block(
        f"Digits, noisy digits, unknown digits (the demo's task, {len(document['seeds'])} seeds)", lines,
        "docs/results/joint-digits.md",
    )


def embeddings(document: dict[str, Any]) -> str:
    """PACS embeddings: ours and the strongest baselines."""
    table = embedding_tables.summarize(document["records"], "all")
    lines = _head()
    for name in EMBEDDINGS:
        if name in table:
            values = {metric: table[name][metric][0] for metric in COLUMNS.values()}
            lines.append(_line(METHODS[name].title, values, bold=METHODS[name].ours))
    title = (
        "Embeddings of PACS, nothing trained (means over pairs of domains and seeds; the known classes are those that "
        "defaults were settled on, with others the lead is smaller)"
    )
    return _block(title, lines, "docs/results/pacs-embeddings.md")


def images(found: Sequence[Record]) -> str:
    """CIFAR-10 with SVHN in the wild pool, beside the paper's numbers; other rows and recipes are on the page."""
    records = [record for record in found if record["protocol"] == bars.MAIN[0]]  # named as on that page
    names = Names(records)
    heads = summarize(bars.main_records(records), unseen=False, severities=False, names=names)
    if not heads:
        return ""
    rows = [row for row in brief.chosen(heads[0].rows) if row.name in IMAGES]
    more = "[All rows of the paper, what holds and what is missed, recipes, and how it was made](docs/results/cifar10.md)"
    return "\n\n".join([f"**{heads[0].title}**", STACKED, brief.table(heads[0], rows, ("fs_fpr95",)), more])


def _head() -> list[str]:
    return [f"| per cent | {' | '.join(COLUMNS)} |", "|---" + "|---:" * len(COLUMNS) + "|"]


def _line(title: str, values: dict[str, float], bold: bool) -> str:
    cells = " | ".join(f"{100 * values[metric]:.1f}" for metric in COLUMNS.values())
    return f"| {f'**{title}**' if bold else title} | {cells} |"


def _block(title: str, lines: list[str], page: str) -> str:
    return "\n\n".join([f"**{title}**", "\n".join(lines), _more(page)])


def _more(page: str) -> str:
    return f"[All rows, spread, and how it was made]({page})"
