"""Micro-batching: requests that arrive together are judged together.

The first block of images to come starts a clock of ``max_wait`` seconds (none, when nobody else is about); whoever comes
before it ends, or before ``max_batch`` images are there, goes through the network in the same pass. At most ``passes`` run
at a time, each in a thread of its own; those who come meanwhile are the next. At most ``max_queue`` wait or are scored;
more are refused at once.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from wildspec.decision.verdicts import Verdicts

Decide = Callable[[np.ndarray, int], Verdicts]
Prepare = Callable[[], np.ndarray | None]  # uint8 (n, 3, S, S), or None: cannot be prepared in passing


class Busy(Exception):
    """The house is full; ``retry_after`` seconds is a fair guess of when it will not be."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"busy, retry after {retry_after} s")
        self.retry_after = retry_after


@dataclass(eq=False)
class _Item:
    prepare: Prepare
    images: int
    neighbours: int
    answer: "asyncio.Future[Verdicts | None]"
    came: float


class MicroBatcher:
    """Use inside one event loop: ``start``, then ``admit`` / ``judge`` / ``leave`` per request, at the end ``stop``."""

    def __init__(
        self, decide: Decide, *, max_batch: int = 64, max_wait: float = 0.004, max_queue: int = 512,
        passes: int = 1, seen: Callable[[int, float], None] | None = None,
    ) -> None:  # fmt: skip
        self._decide, self._seen = decide, seen
        self.max_batch, self.max_wait, self.max_queue, self.passes = max_batch, max_wait, max_queue, passes
        self.inside = 0  # images admitted and not yet answered
        self.running = False
        self._waiting: deque[_Item] = deque()
        self._images = 0  # in the items that wait
        self._judging = 0  # passes under way
        self._clock: asyncio.TimerHandle | None = None
        self._rate = 0.0  # images a second, smoothed
        self._last = 1  # requests in the last pass
        self._threads = ThreadPoolExecutor(passes, thread_name_prefix="wildspec-judge")

    def start(self) -> None:
        """Begin to serve; call inside the event loop."""
        self.running = True
        self._next()

    async def stop(self, seconds: float = math.inf) -> None:
        """Finish what was admitted, then end; after ``seconds`` end all the same, and `stuck` says what runs on."""
        until = time.monotonic() + seconds
        while (self.inside or self._waiting or self._judging) and time.monotonic() < until:
            await asyncio.sleep(0.005)
        self.running = False
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def stuck(self) -> bool:
        """Has it ended while a pass was under way? A thread cannot be ended; the process can."""
        return not self.running and self._judging > 0

    @property
    def full(self) -> bool:
        return self.inside >= self.max_queue

    @property
    def retry_after(self) -> int:
        """Whole seconds in which those inside will be judged, at the pace of late; at least 1, at most a minute."""
        return min(60, max(1, math.ceil(self.inside / self._rate))) if self._rate > 0 else 1

    def admit(self, images: int) -> None:
        """Take a request of so many images in, or raise `Busy`. Every admitted request must `leave`."""
        if self.inside + images > self.max_queue:
            raise Busy(self.retry_after)
        self.inside += images

    def leave(self, images: int) -> None:
        self.inside -= images

    def judge(self, prepare: Prepare, images: int, neighbours: int) -> "asyncio.Future[Verdicts | None]":
        """The verdicts on one request's images, to be awaited; cancel it to give up.

        ``prepare`` is called in the thread that judges, just before: quick work there costs no hand-over between threads.
        Where it gives None, so does the answer.
        """
        loop = asyncio.get_running_loop()
        item = _Item(prepare, images, neighbours, loop.create_future(), loop.time())
        self._waiting.append(item)
        self._images += images
        self._next()
        return item.answer

    def _next(self) -> None:
        """Start a pass if it is time for one, or the clock if it is not. Whoever gave up is not judged."""
        while self._waiting and self._waiting[0].answer.done():
            self._images -= self._waiting.popleft().images
        if self._judging >= self.passes or not self._waiting or not self.running:
            return
        loop = asyncio.get_running_loop()
        # A lone request after a lone request: nobody else is about, so waiting would only cost time.
        alone = self._last == 1 and len(self._waiting) == 1 and self._images >= self.inside
        left = self._waiting[0].came + self.max_wait - loop.time()
        if alone or left <= 0 or self._images >= self.max_batch:
            self._pass(loop)
        elif self._clock is None:
            self._clock = loop.call_later(left, self._ring)

    def _ring(self) -> None:
        self._clock = None
        if self._judging < self.passes and self._waiting:
            self._pass(asyncio.get_running_loop())

    def _pass(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        wanted = [item for item in self._take() if not item.answer.done()]
        if not wanted:
            loop.call_soon(self._next)
            return
        self._judging, self._last = self._judging + 1, len(wanted)
        began = time.perf_counter()  # the loop's own clock may count in milliseconds
        done = loop.run_in_executor(self._threads, self._judge_all, wanted)
        done.add_done_callback(lambda result: self._answer(wanted, result, time.perf_counter() - began))
        self._next()

    def _take(self) -> list[_Item]:
        batch: list[_Item] = []
        images = 0
        while self._waiting and (not batch or images + self._waiting[0].images <= self.max_batch):
            item = self._waiting.popleft()
            batch.append(item)
            images += item.images
        self._images -= images
        return batch

    def _answer(self, items: list[_Item], result: "asyncio.Future[list[Verdicts | None]]", seconds: float) -> None:
        self._judging -= 1
        error = result.exception()
        found = [None] * len(items) if error else result.result()
        images = sum(len(verdicts) for verdicts in found if verdicts is not None)
        if images:
            rate = self.passes * images / max(seconds, 1e-6)
            self._rate = rate if self._rate == 0 else 0.9 * self._rate + 0.1 * rate
            if self._seen is not None:
                self._seen(images, seconds)
        for i, item in enumerate(items):
            if item.answer.done():
                continue
            if error is None:
                item.answer.set_result(found[i])
            else:  # one bad pass must not end the service
                item.answer.set_exception(error)
        self._next()

    def _judge_all(self, items: list[_Item]) -> list[Verdicts | None]:
        """One pass for all; each request gets its own rows, and as many neighbours as it asked for."""
        blocks = [item.prepare() for item in items]
        ready = [block for block in blocks if block is not None]
        if not ready:
            return [None] * len(items)
        joint = self._decide(ready[0] if len(ready) == 1 else np.concatenate(ready), max(item.neighbours for item in items))
        out: list[Verdicts | None] = []
        start = 0
        for item, block in zip(items, blocks, strict=True):
            end = start + (0 if block is None else len(block))
            out.append(None if block is None else joint.rows(slice(start, end), item.neighbours))
            start = end
        return out
