"""Run the service: uvicorn with limits, and a stop that finishes what was accepted."""

import contextlib

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


def _allow_open_files() -> None:
    """As many open connections as the system lets us have: the default of 1,024 is soon used up by idle clients."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536) if hard > 0 else 65536, hard))
