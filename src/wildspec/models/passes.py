"""Passes of a network over many samples: on a CPU side by side, each in one thread.

Large batches leave the processor's cache, and threads that share one wait for each other after every layer. So on a CPU each
pass has a small batch and one thread, and as many passes run at a time as torch may use threads.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import torch

_ONE_AT_A_TIME = threading.Lock()  # torch's number of threads is one for the whole process


@contextmanager
def threads_apart() -> Iterator[int]:
    """How many passes may run side by side, while torch uses one thread for each. 1 where torch has one thread anyway, or
    where another caller's passes run already."""
    threads = torch.get_num_threads()
    if threads == 1 or not _ONE_AT_A_TIME.acquire(blocking=False):
        yield 1
        return
    torch.set_num_threads(1)  # read by threads that start now
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)
        _ONE_AT_A_TIME.release()


def run_passes(
    work: Callable[[int, int], None], count: int, batch: int, advance: Callable[[int], None] = lambda n: None, *,
    side_by_side: bool = True,
) -> None:  # fmt: skip
    """``work(start, stop)`` for samples 0 .. count - 1, at most ``batch`` at a time; a single pass has all threads.

    ``side_by_side``: for a CPU. ``advance`` is told, in this thread, how many are done. An error ends the rest.
    """
    parts = [(start, min(start + batch, count)) for start in range(0, count, batch)]
    if len(parts) < 2 or not side_by_side:
        _one_by_one(work, parts, advance)
        return
    with threads_apart() as workers:
        if workers == 1:
            _one_by_one(work, parts, advance)
            return
        with ThreadPoolExecutor(workers) as pool:
            _follow({pool.submit(work, *part): part[1] - part[0] for part in parts}, advance)


def _one_by_one(work: Callable[[int, int], None], parts: list[tuple[int, int]], advance: Callable[[int], None]) -> None:
    for start, stop in parts:
        work(start, stop)
        advance(stop - start)


def _follow(running: dict["Future[None]", int], advance: Callable[[int], None]) -> None:
    left = set(running)
    try:
        while left:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
                advance(running[future])
    except BaseException:
        for future in left:
            future.cancel()
        raise
