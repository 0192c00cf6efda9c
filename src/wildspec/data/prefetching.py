"""Work ahead: the results of ``function(step)`` in order, made in the background while the caller uses the last one."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from wildspec.checks import integer

S = TypeVar("S")
T = TypeVar("T")


def prefetch(
    function: Callable[[S], T], steps: Iterable[S], *, depth: int = 2, workers: int = 1
) -> Generator[T, None, None]:
    """Iterate over ``function(step) for step in steps``, at most ``depth`` results ahead, on ``workers`` threads.

    Order is kept; an exception of ``function`` comes out at its place and ends the iteration. ``close`` stops early: what is
    under way is finished, what waits is dropped, the threads end.
    """
    return _ahead(function, steps, integer("depth", depth, 1), integer("workers", workers, 1))


def _ahead(function: Callable[[S], T], steps: Iterable[S], depth: int, workers: int) -> Generator[T, None, None]:
    pool = ThreadPoolExecutor(workers, thread_name_prefix="wildspec-prefetch")
    pending: deque[Future[T]] = deque()
    try:
        for step in steps:
            pending.append(pool.submit(function, step))
            if len(pending) > depth:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
