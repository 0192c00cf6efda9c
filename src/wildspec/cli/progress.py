"""A progress bar on a terminal, a line now and then in a log, nothing when quiet. Always on stderr."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY = 10.0  # seconds between lines in a log


@contextmanager
def counting(what: str, total: int, show: bool = True) -> Iterator[Callable[[int], None]]:
    """Yields a function that is told how many more are done."""
    if show and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=total)
            yield lambda more: bar.advance(task, more)
        return
    done, last = 0, time.monotonic()

    def advance(more: int) -> None:
        nonlocal done, last
        done += more
        if show and time.monotonic() - last > EVERY:
            last = time.monotonic()
            print(f"{what} {done:,}/{total:,}", file=sys.stderr, flush=True)

    yield advance
