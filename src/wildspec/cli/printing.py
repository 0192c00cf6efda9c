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
    from rich.console import Console
    from rich.table import Table

    rows = list(rows)
    columns = list(zip(titles, *rows, strict=True))
    widths = [max(len(line) for text in column for line in text.split("\n")) for column in columns]
    gap = 2 if sum(widths) + 2 * len(widths) <= Console().width else 1
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, gap, 0, 0))
    for number, name in enumerate(titles):
        if number < words:
            widths[number] = max((len(word) for text in columns[number] for word in text.split()), default=0)
        table.add_column(name, justify="left" if number < words else "right", no_wrap=number >= words)
    for row in rows:
        table.add_row(*row)
    show(table, least=sum(widths) + gap * len(widths))


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
    """Made to fit the window, but at ``least`` so wide; otherwise as it is: a name may hold [brackets] or :colons:."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    console.width = max(console.width, least)
    for thing in things:
        console.print(thing)
