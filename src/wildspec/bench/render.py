"""Summaries as text: markdown for pages and terminals, CSV for spreadsheets; LaTeX for papers is in ``latex``."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence

from wildspec.bench.latex import to_latex
from wildspec.bench.protocols import protocol_names
from wildspec.bench.records import HEADINGS, METRICS
from wildspec.bench.tables import HEADLINE, SEVERITY, UNSEEN, Table, TableCell, TableRow, short_splits
from wildspec.checks import choice

FORMATS = ("markdown", "csv", "latex")
LEGEND = (
    "Per cent: mean ± standard deviation over runs (the paper's number; difference to it); "
    "**bold** where the paper's number is met or beaten to its printed digits. Minutes and views are those of training."
)
PLAIN = "Per cent: mean ± standard deviation over runs. Minutes and views are those of training."


def render(tables: Sequence[Table], form: str = "markdown") -> str:
    """All tables as one text."""
    choice("format", form, FORMATS)
    return {"markdown": to_markdown, "csv": to_csv, "latex": to_latex}[form](tables)


# -- markdown ----------------------------------------------------------------------------------------------------------
def to_markdown(tables: Sequence[Table]) -> str:
    """Per semantic set: headline table, OOD accuracy at every severity, unseen semantic sets, where it all comes from."""
    blocks: list[str] = []
    for head, others in _by_head(tables):
        blocks += [f"## {head.title}", *_legend(head), _rows(head)]
        severities = [table for table in others if table.kind == SEVERITY]
        if severities:
            blocks += ["All severities (tested, not trained on, at the others):", _severities([head, *severities])]
        unseen = [table for table in others if table.kind == UNSEEN]
        if unseen:
            title = "Semantic sets that were not in the wild pool, FPR95 ↓ / AUROC ↑ / fs-FPR95 ↓:"
            blocks += [title, _grid(unseen, lambda table: table.tested_on, ("fpr95_id", "auroc", "fs_fpr95"))]
        blocks.append("\n".join(f"- {line}" for line in head.sources()))
    return "\n\n".join(blocks) + "\n"


def _legend(table: Table) -> list[str]:
    blocks = [LEGEND if table.protocol in protocol_names() else PLAIN]
    if table.stand_in_for:
        blocks.append(
            f"{table.semantic} stands in for {table.stand_in_for}: the paper's number is of that set, "
            "for orientation only, and no difference is taken."
        )
    return blocks


def _rows(table: Table) -> str:
    titles = ["method", "detector", "recipe", *(" ".join(HEADINGS[m]) for m in table.shown)]
    return markdown_table([*titles, "runs (seeds)", "minutes", "M views"], [_line(row, table.shown) for row in table.rows])


def _line(row: TableRow, metrics: Sequence[str]) -> list[str]:
    cells = []
    for metric in metrics:
        cell = row.cells.get(metric)
        fewer = f" [{cell.runs} of {len(row.seeds)} runs]" if cell and cell.runs < len(row.seeds) else ""
        cells.append(_markdown_cell(cell) + fewer)
    seeds = f"{len(row.seeds)} ({', '.join(map(str, row.seeds))})"  # a seed that was run twice stands there twice
    return [row.name, row.detector, row.recipe, *cells, seeds, f"{row.seconds / 60:.1f}", f"{row.views / 1e6:.2f}"]


def _severities(tables: Sequence[Table]) -> str:
    """OOD accuracy / covariate acceptance / fs-FPR95 at each severity."""
    ordered = sorted(tables, key=lambda table: table.severity)
    return _grid(ordered, lambda table: f"severity {table.severity}", ("ood_acc", "covariate_acceptance", "fs_fpr95"))


def _grid(tables: Sequence[Table], name: Callable[[Table], str], metrics: tuple[str, ...]) -> str:
    titles = ["method", "detector", "recipe", *(name(table) for table in tables)]
    rows = [{(row.name, row.detector, row.recipe): row for row in table.rows} for table in tables]
    lines = []
    for key in dict.fromkeys(key for found in rows for key in found):
        cells = []
        most = max(len(found[key].seeds) for found in rows if key in found)
        for row in (found.get(key) for found in rows):
            fewer = f" [{len(row.seeds)} of {most} runs]" if row and len(row.seeds) < most else ""
            cells.append(" / ".join(_plain(row, metric) for metric in metrics) + fewer)
        lines.append([*key, *cells])
    explained = " / ".join(" ".join(HEADINGS[metric]) for metric in metrics)
    return f"Each cell: {explained}; means over runs.\n\n{markdown_table(titles, lines)}"


def _plain(row: TableRow | None, metric: str) -> str:
    cell = row.cells.get(metric) if row else None
    return f"{cell.mean:.2f}" if cell else "–"


def _markdown_cell(cell: TableCell | None) -> str:
    if cell is None:
        return "–"
    value = f"{cell.mean:.2f}" + (f" ± {cell.spread:.2f}" if cell.spread is not None else "")
    if cell.met:
        value = f"**{value}**"
    if not cell.paper:
        return value
    quoted = " / ".join(f"{number:.2f}" for number in cell.paper)
    return f"{value} ({quoted})" if cell.difference is None else f"{value} ({quoted}; {cell.difference:+.2f})"


def markdown_table(titles: Sequence[str], lines: Iterable[Sequence[str]], words: int | None = None) -> str:
    """Titles and rows of text as a markdown table; ``words``: columns after so many are numbers, set to the right."""
    body = ["| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in (titles, *lines)]
    left = len(titles) if words is None else words
    return "\n".join([body[0], "|" + "---|" * left + "---:|" * (len(titles) - left), *body[1:]])


def per_cent(mean: float, spread: float | None = None, bold: bool = False) -> str:
    """A share, and its spread where there is one, in per cent."""
    text = f"{100 * mean:.1f}" + (f" ± {100 * spread:.1f}" if spread is not None else "")
    return f"**{text}**" if bold else text


# -- CSV ---------------------------------------------------------------------------------------------------------------
def to_csv(tables: Sequence[Table]) -> str:
    """One line per table row; every metric as mean, spread, paper, difference, in per cent; empty where there is none."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    fixed = ["protocol", "semantic", "tested_on", "covariate", "severity_in_pool", "severity"]
    fixed += ["row", "method", "detector", "recipe", "seeds"]
    parts = ("mean", "spread", "paper", "difference")
    made = ["hardware", "versions", "commits", "splits", "commands"]
    writer.writerow([*fixed, *(f"{metric}_{part}" for metric in METRICS for part in parts), "seconds", "views", *made])
    for table in tables:
        for row in table.rows:
            line: list[object] = [
                table.protocol, table.semantic, table.tested_on, table.covariate, table.trained, table.severity,
                row.name, row.method, row.detector, row.recipe, " ".join(map(str, row.seeds)),
            ]  # fmt: skip
            for metric in METRICS:
                cell = row.cells.get(metric)
                line += _csv_cell(cell) if cell else ["", "", "", ""]
            where = {**row.provenance, "splits": short_splits(row.provenance)}
            joined = [where[key] if key == "splits" else "; ".join(where[key]) for key in made]
            writer.writerow([*line, f"{row.seconds:.1f}", round(row.views), *joined])
    return stream.getvalue()


def _csv_cell(cell: TableCell) -> list[object]:
    spread = "" if cell.spread is None else f"{cell.spread:.4f}"
    difference = "" if cell.difference is None else f"{cell.difference:.4f}"
    return [f"{cell.mean:.4f}", spread, " ".join(f"{number:g}" for number in cell.paper), difference]


def _by_head(tables: Sequence[Table]) -> list[tuple[Table, list[Table]]]:
    """Each headline table with the severity and unseen tables of the same semantic set."""
    heads = [table for table in tables if table.kind == HEADLINE]
    return [
        (head, [t for t in tables if t.kind != HEADLINE and t.family == head.family]) for head in heads
    ]
