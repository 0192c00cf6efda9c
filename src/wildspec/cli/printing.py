"""How commands print: JSON for programs, tables and lists for people. Each look is made once."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import typer


def print_json(value: Any) -> None:
    """What --json prints."""
    import json

    typer.echo(json.dumps(value, indent=2))


def print_next(out: Path, *commands: str) -> None:
    """What to type next; a name with a space must survive being typed."""
    for command in commands:
        typer.echo("  wildspec " + command.replace("{}", quote(str(out))))


def print_table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None, words: int = 1) -> None:
    """Rows of text under titles; columns after the first ``words`` are set to the right and never broken or cut, however
    narrow the window."""
    from rich.table import Table

    rows, gap = list(rows), 2 if len(titles) <= 8 else 1
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, gap, 0, 0))
    needed = 0
    for number, column in enumerate(zip(titles, *rows, strict=True)):
        whole = number >= words
        table.add_column(column[0], justify="right" if whole else "left", no_wrap=whole)
        parts = [part for text in column for part in (text.split("\n") if whole else text.split())]
        needed += gap + max(map(len, parts), default=0)
    for row in rows:
        table.add_row(*row)
    show(table, least=needed)


def print_entries(entries: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Names, and what there is to say about each; narrow enough for a small window. All lines but the first are dim."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for name, lines in entries:
        for number, line in enumerate(line for line in lines if line):
            grid.add_row(name if number == 0 else "", Text(line, style="dim" if number else ""))
    show(grid)


def show(*things: Any, least: int = 0) -> None:
    """Made to fit the window, but at ``least`` so wide; otherwise as it is: a name may hold [brackets]."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    console.width = max(console.width, least)
    for thing in things:
        console.print(thing)
