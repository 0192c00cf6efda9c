"""Time to quality as text: when each of the paper's numbers was first reached on the way, and the looks themselves.

Looks (``wildspec.bench.curve``) belong to a trained model, so records of one model show them once.
"""

from collections.abc import Sequence
from typing import Any

from wildspec.bench.figures import with_curve
from wildspec.bench.names import Names
from wildspec.bench.published import paper_numbers
from wildspec.bench.records import LOWER_IS_BETTER, PAPER, Record
from wildspec.bench.render import HEADINGS, markdown_table
from wildspec.bench.tables import as_good

SHOWN = 20  # looks of one model in a table; the record has all

Look = dict[str, Any]


def to_markdown(records: Sequence[Record], semantic: str, names: Names) -> str:
    """Both tables, for the models trained with ``semantic`` in the wild pool; nothing where there are no looks."""
    models = with_curve(records)
    if not models:
        return ""
    printed = paper_numbers("spectral", semantic)
    wanted = {metric: printed[metric][0][0] for metric in PAPER if metric in printed}
    blocks = []
    if wanted:
        titles = ["model", *(f"{HEADINGS[metric][0]} {value:.2f}" for metric, value in wanted.items())]
        lines = [[_name(r, names), *(first_met(r["curve"], m, value) for m, value in wanted.items())] for r in models]
        blocks += [
            "Minutes of training after which a look first met the paper's number (classes by linear probe, KNN detector):",
            markdown_table(titles, lines),
        ]
    for record in models:
        blocks += [f"Looks at {_name(record, names)}:", looks(record)]
    return "\n\n".join(blocks)


def first_met(curve: Sequence[Look], metric: str, printed: float) -> str:
    """"4.1" minutes, or what the best look had where none met it."""
    seen = [row for row in curve if row.get(metric) is not None]
    if not seen:
        return "–"
    for row in seen:
        if as_good(metric, 100 * row[metric], printed):
            return f"{row['seconds'] / 60:.1f}"
    best = min(seen, key=lambda row: row[metric] if metric in LOWER_IS_BETTER else -row[metric])
    return f"never; best {100 * best[metric]:.2f} at {best['seconds'] / 60:.1f}"


def looks(record: Record) -> str:
    """At most `SHOWN` looks, evenly taken, the first and the last among them; then the finished model by its own head."""
    curve = record["curve"]
    count = min(SHOWN, len(curve))
    chosen = [curve[round(i * (len(curve) - 1) / max(1, count - 1))] for i in range(count)]
    titles = ["minutes", "M views", "stage", "epoch", *(" ".join(HEADINGS[metric]) for metric in PAPER)]
    lines = [
        [f"{row['seconds'] / 60:.1f}", f"{row['views'] / 1e6:.1f}", row["stage"], f"{row['epoch']:g}", *_cells(row)]
        for row in chosen
    ]
    minutes, views = f"{record['seconds'] / 60:.1f}", f"{record['views'] / 1e6:.1f}"
    finished = [minutes, views, f"finished, its own head, {record['detector']}", "", *_cells(record)]
    return markdown_table(titles, [*lines, finished])


def _cells(values: Look) -> list[str]:
    return ["–" if values.get(metric) is None else f"{100 * values[metric]:.2f}" for metric in PAPER]


def _name(record: Record, names: Names) -> str:
    return f"{record['method']} ({names.of(record).short}), seed {record['seed']}"
