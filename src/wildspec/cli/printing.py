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
    """Rows of text under titles; columns after the first ``words`` are set to the right and not broken."""
    from rich.table import Table

    gap = 2 if len(titles) <= 8 else 1
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, gap, 0, 0))
    for number, name in enumerate(titles):
        table.add_column(name, justify="left" if number < words else "right", no_wrap=number >= words)
    for row in rows:
        table.add_row(*row)
    show(table)


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


def show(*things: Any) -> None:
    """Made to fit the window, otherwise as it is: a name may hold [brackets]."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    for thing in things:
        console.print(thing)
