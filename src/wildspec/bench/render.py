"""Summaries as text: markdown for pages and terminals, CSV for spreadsheets; LaTeX for papers is in ``latex``."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from wildspec.bench.names import legend
from wildspec.bench.protocols import protocol_names
from wildspec.bench.records import METRICS, PAPER
from wildspec.bench.tables import HEADLINE, SEVERITY, UNSEEN, Cell, Table, TableRow, not_run, order_of, printed_numbers
from wildspec.checks import choice

FORMATS = ("markdown", "csv", "latex")
HEADINGS = {
    "id_acc": ("ID-Acc", "↑"),
    "ood_acc": ("OOD-Acc", "↑"),
    "fpr95_id": ("FPR95", "↓"),
    "auroc": ("AUROC", "↑"),
    "covariate_acceptance": ("cov. accepted", "↑"),
    "fs_fpr95": ("fs-FPR95", "↓"),
    "fs_auroc": ("fs-AUROC", "↑"),
    "id_kept": ("ID kept", "↑"),
    "covariate_kept": ("cov. kept", "↑"),
    "detection_rate": ("unknown rejected", "↑"),
    "accuracy_kept": ("acc. kept", "↑"),
    "joint": ("joint", "↑"),
    "id_acc_validation": ("ID-Acc (validation)", "↑"),
}
LEGEND = (
    "Per cent: mean ± standard deviation over runs (the paper's number; difference to it); "
    "**bold** where the paper's number is met or beaten to its printed digits. Minutes and views are those of training."
)
STACKED = (
    "Per cent, means ± standard deviation over runs; below each the paper's number and the difference. **Bold**: met or "
    "beaten to its printed digits. Minutes are those of training."
)
BEYOND = "Metrics that the paper does not have ([what they mean](../metrics.md)), of the same runs:"
LAST = ("runs (seeds)", "minutes", "M views")
SPACE = "\N{NO-BREAK SPACE}"  # a number and its spread stay on one line
PLAIN = "Per cent: mean ± standard deviation over runs. Minutes and views are those of training."


def render(tables: Sequence[Table], form: str = "markdown") -> str:
    """All tables as one text."""
    from wildspec.bench.latex import to_latex

    choice("format", form, FORMATS)
    return {"markdown": to_markdown, "csv": to_csv, "latex": to_latex}[form](tables)


# -- markdown ----------------------------------------------------------------------------------------------------------
def to_markdown(tables: Sequence[Table], level: int = 2) -> str:
    """Per semantic set: headline table, OOD accuracy at every severity, unseen semantic sets, provenance; at the end the
    recipes, where their names in the tables are not what they were called."""
    blocks: list[str] = []
    for head, others in _by_head(tables):
        blocks += [f"{'#' * level} {head.title}", headline(head)]
        severities = [table for table in others if table.kind == SEVERITY]
        if severities:
            blocks += ["All severities (tested, not trained on, at the others):", severity_grid([head, *severities])]
        unseen = [table for table in others if table.kind == UNSEEN]
        if unseen:
            blocks += ["Semantic sets that were not in the wild pool, FPR95 ↓ / AUROC ↑ / fs-FPR95 ↓:", unseen_grid(unseen)]
        blocks.append(provenance(head))
    if any(row.how.short != row.recipe for table in tables for row in table.rows):
        blocks += [f"{'#' * level} Recipes", recipes(tables)]
    return "\n\n".join(blocks) + "\n"


def recipes(tables: Sequence[Table]) -> str:
    """The legend: every recipe in the tables with the arguments that give it."""
    rows = [row for table in tables for row in table.rows]
    text = ["Names of recipes in the tables, and what `wildspec bench` takes for them:"]
    text.append(markdown_table(["recipe", "arguments", "methods"], legend([(row.method, row.how) for row in rows])))
    notes = []
    if any(row.how.mirrored for row in rows):
        notes.append('", mirrored": the same trained models, measured with `--mirror`.')
    if any(row.how.earlier for row in rows):
        notes.append("An earlier preset: it meant something else when this was run; today the arguments shown give it.")
    return "\n\n".join([*text, *notes])


def headline(table: Table, metrics: Sequence[str] | None = None, *, absent: bool = False) -> str:
    """One markdown table with its legend. ``absent``: rows of the paper that were not run are shown as that."""
    return "\n\n".join([*_legend(table, LEGEND), _rows(table, metrics, absent, _markdown_cell)])


def headline_of_page(table: Table, *, absent: bool = False) -> list[str]:
    """The same for a page, where a wide table is hard to read: the paper's metrics with the paper's number below each, then
    the metrics that the paper does not have."""
    mine = [metric for metric in shown(table) if metric in (*PAPER, "id_acc_validation")]
    more = [metric for metric in shown(table) if metric not in mine]
    blocks = [*_legend(table, STACKED), _rows(table, mine, absent, stacked_cell, ("runs (seeds)", "minutes"))]
    return [*blocks, BEYOND, _rows(table, more, False, _broken_cell, ("M views",))] if more else blocks


def _legend(table: Table, text: str) -> list[str]:
    blocks = [text if table.protocol in protocol_names() else PLAIN]
    if table.stand_in_for:
        blocks.append(
            f"{table.semantic} stands in for {table.stand_in_for}: the paper's number is of that set, "
            "for orientation only, and no difference is taken."
        )
    return blocks


def _rows(
    table: Table, metrics: Sequence[str] | None, absent: bool, write: Callable[[Cell | None], str],
    last: Sequence[str] = LAST,
) -> str:  # fmt: skip
    chosen = [metric for metric in shown(table) if metrics is None or metric in metrics]
    titles = ["method", "detector", "recipe", *(" ".join(HEADINGS[m]) for m in chosen), *last]
    lines = [(order_of(row.name), _headline_row(row, chosen, write, last)) for row in table.rows]
    for row in not_run(table) if absent else ():
        paper = printed_numbers(table, row)
        cells = [f"– ({_quoted(paper[metric])})" if metric in paper else "–" for metric in chosen]
        lines.append((order_of(row.row), [row.row, row.detector, "not run", *cells, *("–" for _ in last)]))
    return markdown_table(titles, [line for _, line in sorted(lines, key=lambda pair: pair[0])])


def _headline_row(
    row: TableRow, metrics: Sequence[str], write: Callable[[Cell | None], str], last: Sequence[str]
) -> list[str]:
    cells = []
    for metric in metrics:
        cell = row.cells.get(metric)
        fewer = f" [{cell.runs} of {len(row.seeds)} runs]" if cell and cell.runs < len(row.seeds) else ""
        cells.append(write(cell) + fewer)
    told = dict(zip(LAST, (runs(row), f"{row.seconds / 60:.1f}", f"{row.views / 1e6:.2f}"), strict=True))
    return [row.name, row.detector, row.how.short, *cells, *(told[title] for title in last)]


def runs(row: TableRow) -> str:
    """"3 (0, 1, 2)": how many runs and of which seeds; a seed that was run twice stands there twice."""
    return f"{len(row.seeds)} ({', '.join(map(str, row.seeds))})"


def severity_grid(tables: Sequence[Table]) -> str:
    """OOD accuracy / covariate acceptance / fs-FPR95 at each severity."""
    ordered = sorted(tables, key=lambda table: table.severity)
    return _grid(ordered, lambda table: f"severity {table.severity}", ("ood_acc", "covariate_acceptance", "fs_fpr95"))


def unseen_grid(tables: Sequence[Table]) -> str:
    return _grid(tables, lambda table: table.tested_on, ("fpr95_id", "auroc", "fs_fpr95"))


def provenance(table: Table) -> str:
    """Where the numbers come from, as a list."""
    made = table.provenance
    lines = [
        f"- hardware: {'; '.join(made['hardware'])}; training {made['training_seconds'] / 60:.1f} minutes in all",
        *(f"- versions: {versions}" for versions in made["versions"]),
        f"- commit: {', '.join(made['commits'])}",
        f"- images (sha256 of pixels and labels): {_splits(made)}",
        *(f"- command: `{command}`" for command in made["commands"]),
    ]
    return "\n".join(lines)


def _splits(made: dict[str, Any]) -> str:
    return "; ".join(f"{name} {', '.join(v[:12] for v in values)}" for name, values in sorted(made["splits"].items()))


def _grid(tables: Sequence[Table], name: Callable[[Table], str], metrics: tuple[str, ...]) -> str:
    titles = ["method", "detector", "recipe", *(name(table) for table in tables)]
    keys = list(dict.fromkeys((row.name, row.detector, row.how.short) for table in tables for row in table.rows))
    lines = []
    for key in keys:
        cells = []
        found = [next((r for r in table.rows if (r.name, r.detector, r.how.short) == key), None) for table in tables]
        most = max(len(row.seeds) for row in found if row)
        for row in found:
            fewer = f" [{len(row.seeds)} of {most} runs]" if row and len(row.seeds) < most else ""
            cells.append(" / ".join(_plain(row, metric) for metric in metrics) + fewer)
        lines.append([*key, *cells])
    explained = " / ".join(" ".join(HEADINGS[metric]) for metric in metrics)
    return f"Each cell: {explained}; means over runs.\n\n{markdown_table(titles, lines)}"


def _plain(row: TableRow | None, metric: str) -> str:
    cell = row.cells.get(metric) if row else None
    return f"{cell.mean:.2f}" if cell else "–"


def _markdown_cell(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    value = f"{cell.mean:.2f}" + (f" ± {cell.spread:.2f}" if cell.spread is not None else "")
    if cell.met:
        value = f"**{value}**"
    if not cell.paper:
        return value
    quoted = _quoted(cell.paper)
    return f"{value} ({quoted})" if cell.difference is None else f"{value} ({quoted}; {cell.difference:+.2f})"


def stacked_cell(cell: Cell | None) -> str:
    """A cell of a page: the paper's number stands below."""
    if cell is None:
        return "–"
    value = f"{cell.mean:.2f}" + (f"{SPACE}±{SPACE}{cell.spread:.2f}" if cell.spread is not None else "")
    value = f"**{value}**" if cell.met else value
    if not cell.paper:
        return value
    quoted = _quoted(cell.paper).replace(" ", SPACE)
    return f"{value}<br>({quoted})" if cell.difference is None else f"{value}<br>{quoted},{SPACE}{cell.difference:+.2f}"


def _broken_cell(cell: Cell | None) -> str:
    """A cell of a page with many columns: the spread stands below."""
    return _markdown_cell(cell).replace(" ± ", f"<br>±{SPACE}")


def _quoted(numbers: Sequence[float]) -> str:
    return " / ".join(f"{number:.2f}" for number in numbers)


def markdown_table(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Titles and rows of text as a markdown table."""
    body = ["| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in (titles, *lines)]
    return "\n".join([body[0], "|" + "---|" * len(titles), *body[1:]])


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
            where = {**row.provenance, "splits": _splits(row.provenance)}
            joined = [where[key] if key == "splits" else "; ".join(where[key]) for key in made]
            writer.writerow([*line, f"{row.seconds:.1f}", round(row.views), *joined])
    return stream.getvalue()


def _csv_cell(cell: Cell) -> list[object]:
    spread = "" if cell.spread is None else f"{cell.spread:.4f}"
    difference = "" if cell.difference is None else f"{cell.difference:.4f}"
    return [f"{cell.mean:.4f}", spread, " ".join(f"{number:g}" for number in cell.paper), difference]


def shown(table: Table) -> list[str]:
    """Columns for people: the validation accuracy is shown where it is what the table is about."""
    return [metric for metric in table.metrics if metric != "id_acc_validation" or table.protocol == "sweep"]


def _by_head(tables: Sequence[Table]) -> list[tuple[Table, list[Table]]]:
    """Each headline table with the severity and unseen tables of the same semantic set."""
    heads = [table for table in tables if table.kind == HEADLINE]
    return [
        (head, [t for t in tables if t.kind != HEADLINE and t.family == head.family]) for head in heads
    ]
