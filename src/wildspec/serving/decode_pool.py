"""Uploaded images are decoded in processes of their own: what takes too long is ended, whatever it is doing."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from wildspec.serving.decode_worker import ASKED, LENGTH, READY

WORKERS = 4
TOO_LONG, BROKE_DOWN = "the image takes too long to decode", "the image cannot be decoded"
Decoded = np.ndarray | str  # uint8 (3, S, S), or why there is none


class DecodePool:
    """At most ``workers`` requests are decoded at a time, each for at most ``seconds``. A process starts when it is needed;
    the time that takes does not count."""

    def __init__(self, size: int, max_pixels: int, seconds: float, workers: int = WORKERS) -> None:
        self.seconds = seconds
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="wildspec-decode")  # wait for the processes
        self._workers = [_Worker(size, max_pixels) for _ in range(workers)]
        self._idle: asyncio.LifoQueue[_Worker] = asyncio.LifoQueue()
        for worker in reversed(self._workers):
            self._idle.put_nowait(worker)

    @property
    def pids(self) -> list[int]:
        """Of the processes that live."""
        return [pid for worker in self._workers if (pid := worker.pid) is not None]

    async def decode(self, images: Sequence[bytes]) -> list[Decoded]:
        """What became of each image, in order; shorter where one took too long: that one is the last, with the reason.

        Whoever gives up waiting (a request whose time is over) ends the process.
        """
        worker = await self._idle.get()
        loop = asyncio.get_running_loop()
        worker.wanted = True
        timers: list[asyncio.TimerHandle] = []

        def begun() -> None:
            if not job.done():
                timers.append(loop.call_later(self.seconds, worker.end))

        def back(done: "asyncio.Future[list[Decoded]]") -> None:
            for timer in timers:
                timer.cancel()
            if not done.cancelled():
                done.exception()  # nobody may be waiting for it any more
            self._idle.put_nowait(worker)

        job = loop.run_in_executor(self._threads, worker.decode, images, lambda: loop.call_soon_threadsafe(begun))
        job.add_done_callback(back)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            worker.end()
            raise

    def close(self) -> None:
        """End all processes, in the middle of an image or not."""
        for worker in self._workers:
            worker.end(wait=True)
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Worker:
    """One process, started again after it was ended. ``decode`` is called by one thread at a time, ``end`` by any."""

    def __init__(self, size: int, max_pixels: int) -> None:
        self.size, self.max_pixels = size, max_pixels
        self.wanted = False  # False: was told to end, also before it began
        self._process: subprocess.Popen[bytes] | None = None
        self._fresh = True  # has not yet said that it is ready
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def decode(self, images: Sequence[bytes], begun: Callable[[], object]) -> list[Decoded]:
        found: list[Decoded] = []
        process = self._started()
        if process is None:
            return [TOO_LONG]
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            if self._fresh:
                self._read(process, len(READY))
                self._fresh = False
            begun()
            process.stdin.write(ASKED.pack(len(images), self.size, self.max_pixels))
            for data in images:
                process.stdin.write(LENGTH.pack(len(data)))
                process.stdin.write(data)
            process.stdin.flush()
            for _ in images:
                if self._read(process, 1) == b"\1":
                    pixels = np.frombuffer(self._read(process, 3 * self.size * self.size), np.uint8)
                    found.append(pixels.reshape(3, self.size, self.size))
                else:
                    found.append(self._read(process, LENGTH.unpack(self._read(process, LENGTH.size))[0]).decode())
        except (OSError, EOFError):  # it was ended, or a decoder took it down
            found.append(BROKE_DOWN if self.wanted else TOO_LONG)
            self.end()
            process.wait()
        return found

    def end(self, wait: bool = False) -> None:
        with self._lock:
            self.wanted = False
            if self._process is not None:
                self._process.kill()
                if wait:
                    self._process.wait()

    def _started(self) -> "subprocess.Popen[bytes] | None":
        with self._lock:
            if not self.wanted:
                return None
            if self._process is None or self._process.poll() is not None:
                self._process, self._fresh = _start(), True
            return self._process

    @staticmethod
    def _read(process: "subprocess.Popen[bytes]", count: int) -> bytes:
        assert process.stdout is not None
        data = process.stdout.read(count)
        if len(data) < count:
            raise EOFError
        return data


def _start() -> "subprocess.Popen[bytes]":
    """In a session of its own: a Ctrl-C is for the service, which still finishes what it accepted."""
    ours = str(Path(__file__).parents[2])
    paths = os.pathsep.join([ours, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "wildspec.serving.decode_worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
