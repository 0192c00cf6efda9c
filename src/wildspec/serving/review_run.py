"""Run a review in the browser, until its Done or Ctrl-C; then write the model."""

import contextlib
import logging
import os
import secrets
import signal
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wildspec.serving.hosts import is_local
from wildspec.serving.review_app import create_review
from wildspec.serving.review_room import ReviewRoom
from wildspec.serving.run import Seldom, address_of, listen, make_server
from wildspec.serving.service import Limits

HOST = "127.0.0.1"
Say = Callable[[str], None]


def run_review(room: ReviewRoom, *, port: int = 0, browser: bool = True, say: Say = print) -> dict[str, Any]:
    """Serve until the page says it is done, or Ctrl-C; what `ReviewRoom.finish` tells. ``port`` 0: any that is free."""
    assert is_local(HOST)
    token = secrets.token_urlsafe(24)
    logging.getLogger("uvicorn.error").addFilter(Seldom())
    server: Any = None

    def stop() -> None:
        server.should_exit = True

    with listen(HOST, port) as taken:
        address = f"{address_of(HOST, taken.getsockname()[1])}#token={token}"
        taken.listen()  # whoever follows the address at once waits, and is not turned away
        server = make_server(create_review(room, token, stop), Limits(), "warning")
        shown = _opened(address) if browser else contextlib.nullcontext()
        with _ended_by(stop):
            say(f"review of {room.name}: open {address}  (Ctrl-C or its Done ends it; answers go to {room.log.path})")
            with shown:
                server.run(sockets=[taken])
    if room.told is None or room.behind:  # another window may have answered after the Done of this one
        return room.finish()
    return room.told


@contextlib.contextmanager
def _ended_by(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM call ``stop`` from now on, whatever is being done. (An exception could be lost on its way.)"""
    before = {number: signal.signal(number, lambda *given: stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _opened(address: str) -> Iterator[None]:
    """Open the page in the browser, where there is a screen. By way of a file that only this user may read: the words with
    which a program is started can be read by everybody on the machine, and the address holds the token."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        yield
        return
    handle, name = tempfile.mkstemp(prefix="wildspec-review-", suffix=".html")  # mode 0600
    path = Path(name)
    try:
        with open(handle, "w", encoding="utf-8") as stream:
            stream.write(f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}">')
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(path.as_uri())
        yield
    finally:
        path.unlink(missing_ok=True)
