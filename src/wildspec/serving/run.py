"""Run the service: uvicorn with limits, and a stop that finishes what was accepted."""

import contextlib
import logging
import os
import socket
import time
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from wildspec.errors import InputError, one_line
from wildspec.serving.app import Limits, create_app
from wildspec.serving.connections import HEAD_SECONDS, guarded
from wildspec.serving.engine import Engine

if TYPE_CHECKING:
    import uvicorn

MOST_CONNECTIONS = 4096
BACKLOG = 2048


def serve(
    engine: Engine, *, host: str = "127.0.0.1", port: int = 8000, limits: Limits | None = None, token: str | None = None,
    quiet: bool = False, listener: socket.socket | None = None, hosts: Iterable[str] = (),
) -> None:  # fmt: skip
    """Serve until SIGTERM or SIGINT; then take no more, finish what was accepted, and return. ``listener``: of `listen`;
    ``hosts``: further names under which requests are answered."""
    limits = limits or Limits()
    app = create_app(engine, limits, token=token, hosts=(host, *hosts))
    _allow_open_files()
    _share_cores(engine.passes)
    logging.getLogger("uvicorn.error").addFilter(Seldom())
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it has a line for every malformed body,
    warnings.filterwarnings("ignore", module=r"PIL\.")  # and Pillow one for every strange image
    with listener or listen(host, port) as taken, contextlib.suppress(KeyboardInterrupt):
        server = make_server(app, limits, "warning" if quiet else "info")
        server.run(sockets=[taken])
        if not server.started:
            raise InputError("the service could not start; the lines above say why")
    if app.state.service.batcher.stuck:  # Python would wait for the thread, without end
        logging.getLogger("wildspec.serve").error("a pass through the network did not end in time; leaving it")
        os._exit(0)


def make_server(app: Any, limits: Limits, log_level: str = "info") -> "uvicorn.Server":
    """uvicorn as the service needs it."""
    import uvicorn

    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=guarded(min(HEAD_SECONDS, limits.seconds), read_seconds=limits.seconds),
            ws="none",
            log_level=log_level,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=int(2 * limits.seconds) + 1,
        )
    )


def listen(host: str, port: int) -> socket.socket:
    """The address taken, so that a busy port is known before a model is loaded; nobody can connect yet."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        taken = socket.socket(family, kind, protocol)
        try:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(address)
        except OSError:
            taken.close()
            raise
        return taken
    except (OSError, UnicodeError) as error:  # UnicodeError: a name of a host that no name can be
        reason = getattr(error, "strerror", None) or one_line(error)
        raise InputError(
            f"cannot listen on {host} port {port}: {reason[:1].lower() + reason[1:]}; choose another --port or --host"
        ) from error


def address_of(host: str, port: int) -> str:
    """What to type into a browser on this machine."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}/"


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
