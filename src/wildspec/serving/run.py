"""Run the service: uvicorn with limits, and a stop that finishes what was accepted."""

import contextlib
import logging
import os
import time

from wildspec.serving.app import Limits, create_app
from wildspec.serving.engine import Engine

MOST_CONNECTIONS = 4096


def serve(
    engine: Engine, *, host: str = "127.0.0.1", port: int = 8000, limits: Limits | None = None, token: str | None = None,
    quiet: bool = False,
) -> None:  # fmt: skip
    """Serve until SIGTERM or SIGINT; then take no more, finish what was accepted, and return."""
    import uvicorn

    limits = limits or Limits()
    _allow_open_files()
    _share_cores(engine.passes)
    logging.getLogger("uvicorn.error").addFilter(Seldom())
    uvicorn.run(
        create_app(engine, limits, token=token),
        host=host,
        port=port,
        log_level="warning" if quiet else "info",
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=int(2 * limits.seconds) + 1,
    )


class Seldom(logging.Filter):
    """Lets the same warning through once a minute: a flood of bad connections must not fill the disk with lines."""

    def __init__(self, seconds: float = 60.0) -> None:
        super().__init__()
        self.seconds = seconds
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        now = time.monotonic()
        if now - self._last.get(record.msg, -self.seconds) < self.seconds:
            return False
        self._last[record.msg] = now
        return True


def _share_cores(passes: int) -> None:
    """Passes that run at the same time divide the processors among them."""
    if "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(max(1, (os.cpu_count() or 1) // passes))


def _allow_open_files() -> None:
    """As many open connections as the system lets us have: the default of 1,024 is soon used up by idle clients."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536) if hard > 0 else 65536, hard))
