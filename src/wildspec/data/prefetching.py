"""Work ahead: the results of ``function(step)`` in order, made in the background while the caller uses the last one."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, TypeVar

from wildspec.checks import integer

S = TypeVar("S")
T = TypeVar("T")


def prefetch(
    function: Callable[[S], T], steps: Iterable[S], *, depth: int = 2, workers: int = 1
) -> "Prefetcher[T]":
    """Iterate over ``function(step) for step in steps``, at most ``depth`` results ahead, on ``workers`` threads.

    Order is kept. An exception of ``function`` or ``steps`` comes out of ``next`` at its place and ends the iteration.
    Use as a context manager, or call ``close``, to stop early: what is under way is finished, what waits is dropped,
    the threads end.
    """
    return Prefetcher(function, steps, integer("depth", depth, 1), integer("workers", workers, 1))


class Prefetcher(Iterator[T], Generic[T]):
    """See ``prefetch``."""

    def __init__(self, function: Callable[[S], T], steps: Iterable[S], depth: int, workers: int) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="wildspec-prefetch")
        self._submit = lambda step: self._pool.submit(function, step)
        self._steps: Iterator[S] = iter(steps)
        self._pending: deque[Future[T]] = deque()
        self._closed = False
        for _ in range(depth):
            self._more()

    def _more(self) -> None:
        try:
            step = next(self._steps)
        except StopIteration:
            return
        except Exception as error:  # comes out of next() in its turn, after the results before it
            failed: Future[T] = Future()
            failed.set_exception(error)
            self._pending.append(failed)
            return
        self._pending.append(self._submit(step))

    def __next__(self) -> T:
        if self._closed or not self._pending:
            self.close()
            raise StopIteration
        try:
            result = self._pending.popleft().result()
            self._more()
        except BaseException:
            self.close()
            raise
        return result

    def close(self) -> None:
        """Stop: drop what waits, finish what is under way, end the threads. Safe to call twice."""
        self._closed = True
        self._pending.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> "Prefetcher[T]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
