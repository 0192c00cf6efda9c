"""Micro-batching: requests that arrive together are judged together.

A block of images waits at most ``max_wait`` seconds for company (or until ``max_batch`` images are there), then goes through
the network with it, in one worker thread. At most ``max_queue`` images are in the house; more are refused at the door.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from wildspec.estimators.verdicts import Verdicts

Decide = Callable[[np.ndarray, int], Verdicts]


class Busy(Exception):
    """The house is full; ``retry_after`` seconds is a fair guess of when it will not be."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"busy, retry after {retry_after} s")
        self.retry_after = retry_after


@dataclass(eq=False)
class _Item:
    pixels: np.ndarray
    neighbours: int
    answer: "asyncio.Future[Verdicts]"


class MicroBatcher:
    """Use inside one event loop: ``start``, then ``admit`` / ``judge`` / ``leave`` per request, at the end ``stop``."""

    def __init__(
        self, decide: Decide, *, max_batch: int = 64, max_wait: float = 0.004, max_queue: int = 512,
        seen: Callable[[int, float], None] | None = None,
    ) -> None:  # fmt: skip
        self._decide, self._seen = decide, seen
        self.max_batch, self.max_wait, self.max_queue = max_batch, max_wait, max_queue
        self.inside = 0  # images admitted and not yet answered
        self._waiting: deque[_Item] = deque()
        self._rate = 0.0  # images a second, smoothed
        self._last = 1  # requests in the last batch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="wildspec-judge")
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def start(self) -> None:
        """Begin to serve; call inside the event loop."""
        self._task = asyncio.get_running_loop().create_task(self._serve())

    async def stop(self) -> None:
        """Finish what was admitted, then end."""
        while self.inside and self._task is not None and not self._task.done():
            await asyncio.sleep(0.01)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown(wait=True)

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def full(self) -> bool:
        return self.inside >= self.max_queue

    def admit(self, images: int) -> None:
        """Take a request of so many images in, or raise `Busy`. Every admitted request must `leave`."""
        if self.inside + images > self.max_queue:
            raise Busy(max(1, round(self.inside / self._rate)) if self._rate > 0 else 1)
        self.inside += images

    def leave(self, images: int) -> None:
        self.inside -= images

    async def judge(self, pixels: np.ndarray, neighbours: int) -> Verdicts:
        """uint8 (n, 3, S, S) of one request -> its verdicts."""
        item = _Item(pixels, neighbours, asyncio.get_running_loop().create_future())
        self._waiting.append(item)
        self._news.set()
        return await item.answer

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = await self._collect()
            wanted = [item for item in batch if not item.answer.done()]  # whoever gave up is not waited for
            if not wanted:
                continue
            began = loop.time()
            try:
                verdicts = await loop.run_in_executor(self._thread, self._judge_all, wanted)
            except Exception as error:  # one bad batch must not end the service
                for item in wanted:
                    if not item.answer.done():
                        item.answer.set_exception(error)
                continue
            seconds, images = loop.time() - began, sum(len(item.pixels) for item in wanted)
            self._rate = images / seconds if self._rate == 0 else 0.9 * self._rate + 0.1 * images / seconds
            if self._seen is not None:
                self._seen(images, seconds)
            for item, verdict in zip(wanted, verdicts, strict=True):
                if not item.answer.done():
                    item.answer.set_result(verdict)

    async def _collect(self) -> list[_Item]:
        """The next batch: the first to come, and whoever comes within ``max_wait`` after it."""
        while not self._waiting:
            self._news.clear()
            await self._news.wait()
        loop = asyncio.get_running_loop()
        until = loop.time() + self.max_wait
        while sum(len(item.pixels) for item in self._waiting) < self.max_batch:
            left = until - loop.time()
            # A lone request after a lone request: nobody else is in the house, so waiting would only cost time.
            alone = self._last == 1 and len(self._waiting) == 1 and len(self._waiting[0].pixels) >= self.inside
            if left <= 0 or alone:
                break
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), left)
            except (TimeoutError, asyncio.TimeoutError):
                break
        batch: list[_Item] = []
        images = 0
        while self._waiting and (not batch or images + len(self._waiting[0].pixels) <= self.max_batch):
            item = self._waiting.popleft()
            batch.append(item)
            images += len(item.pixels)
        self._last = len(batch)
        return batch

    def _judge_all(self, items: list[_Item]) -> list[Verdicts]:
        """One pass for all; each request gets its own rows, and as many neighbours as it asked for."""
        pixels = items[0].pixels if len(items) == 1 else np.concatenate([item.pixels for item in items])
        joint = self._decide(pixels, max(item.neighbours for item in items))
        out, start = [], 0
        for item in items:
            out.append(joint.rows(slice(start, start + len(item.pixels)), item.neighbours))
            start += len(item.pixels)
        return out
