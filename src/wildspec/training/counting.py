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
    began = last = time.monotonic()
    done = 0

    def advance(more: int) -> None:
        nonlocal done, last
        done += more
        now = time.monotonic()
        if show and now - last > EVERY:
            last = now
            left = (now - began) / done * (total - done)
            print(f"{what} {done:,}/{total:,}, about {left:.0f} s left", file=sys.stderr, flush=True)

    yield advance
