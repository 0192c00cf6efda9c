"""Summaries as LaTeX: per semantic set one table with the paper's metrics and one with the full spectrum and the decision.

All columns side by side would be too small to read. For the same reason recipes, whose names can be long, stand below a
table under letters where there are several. A table that is wider than the line is made smaller, others stay as they are.
"""

from collections.abc import Sequence
from string import ascii_lowercase

from wildspec.bench.protocols import protocol_names
from wildspec.bench.records import HEADINGS, PAPER
from wildspec.bench.tables import HEADLINE, Table, TableCell, TableRow

ARROWS = {"↑": r"$\uparrow$", "↓": r"$\downarrow$"}
FIT = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
PRINTED = (
    r"Mean and, as index, standard deviation over runs (the paper's number; difference to it), per cent. Bold: the paper's "
    "number is met or beaten."
)
PLAIN = "Mean and, as index, standard deviation over runs, per cent."
BEYOND = r"Metrics the paper does not have; mean and, as index, standard deviation over runs, per cent."


def to_latex(tables: Sequence[Table]) -> str:
    """Two booktabs tables per semantic set; severities and unseen sets are in the other formats."""
    parts = [r"% \usepackage{booktabs}, and \usepackage{graphicx} for \resizebox"]
    for table in tables:
        if table.kind == HEADLINE:
            beyond = [metric for metric in table.shown if metric not in (*PAPER, "id_acc_validation")]
            parts.append("\n".join(f"% {line}" for line in table.sources()))
            printed = PRINTED if table.protocol in protocol_names() else PLAIN
            parts.append(_latex_table(table, [metric for metric in table.shown if metric not in beyond], printed))
            parts += [_latex_table(table, beyond, BEYOND)] if beyond else []
    return "\n\n".join(parts) + "\n"


def _latex_table(table: Table, metrics: Sequence[str], what: str) -> str:
    recipes = list(dict.fromkeys(row.recipe for row in table.rows))
    letters = {recipe: _letter(number) for number, recipe in enumerate(recipes)} if len(recipes) > 1 else {}
    titles = ["Method", "Detector", *(["Recipe"] if letters else [])]
    titles += [*(f"{HEADINGS[m][0]} {ARROWS[HEADINGS[m][1]]}" for m in metrics), "Runs", "Minutes"]
    lines = [_latex_row(row, letters, metrics) for row in table.rows]
    below = "; ".join(f"{letter}: {_escape(recipe)}" for recipe, letter in letters.items()) or _escape(recipes[0])
    body = " \\\\\n    ".join(" & ".join(line) for line in lines)
    return "\n".join([
        r"\begin{table}[t]",
        r"  \centering",
        f"  {FIT}",
        rf"  \begin{{tabular}}{{{'l' * (3 if letters else 2)}{'c' * len(metrics)}rr}}",
        r"    \toprule",
        "    " + " & ".join(titles) + r" \\",
        r"    \midrule",
        f"    {body} \\\\",
        r"    \bottomrule",
        r"  \end{tabular}}",
        rf"  \caption{{{_escape(table.title)}. {what} Recipe{'s' if letters else ''}: {below}.}}",
        r"\end{table}",
    ])  # fmt: skip


def _latex_row(row: TableRow, letters: dict[str, str], metrics: Sequence[str]) -> list[str]:
    names = [_escape(row.name), _escape(row.detector), *([letters[row.recipe]] if letters else [])]
    cells = [_latex_cell(row.cells.get(metric)) for metric in metrics]
    return [*names, *cells, str(len(row.seeds)), f"{row.seconds / 60:.1f}"]


def _latex_cell(cell: TableCell | None) -> str:
    if cell is None:
        return "--"
    spread = "" if cell.spread is None else rf"_{{\pm {cell.spread:.2f}}}"
    value = rf"\mathbf{{{cell.mean:.2f}}}" if cell.met else f"{cell.mean:.2f}"
    if not cell.paper:
        return f"${value}{spread}$"
    quoted = "/".join(f"{number:.2f}" for number in cell.paper)
    behind = quoted if cell.difference is None else f"{quoted}; {cell.difference:+.2f}"
    return rf"${value}{spread}$ {{\scriptsize (${behind}$)}}"


_SPECIAL = {
    "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}",
    ">": r"\textgreater{}", **{character: f"\\{character}" for character in "_%&#${}"},
}  # fmt: skip


def _letter(number: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    more, last = divmod(number, len(ascii_lowercase))
    return (_letter(more - 1) if more else "") + ascii_lowercase[last]


def _escape(text: str) -> str:
    """Text as LaTeX text: every character that has a meaning there, once."""
    return "".join(_SPECIAL.get(character, character) for character in text)
