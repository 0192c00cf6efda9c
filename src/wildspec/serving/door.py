"""Connections that never get to a request: uvicorn waits for the head of a request without end and keeps all of it.

Whoever opens a connection has some seconds to say what is wanted, in so many bytes; then it is closed. Otherwise a few
thousand silent connections would keep everybody else out, and one endless header would fill the memory. Bodies have limits
of their own (`wildspec.serving.bodies`).
"""

import asyncio
from typing import Any

HEAD_SECONDS = 15.0
HEAD_BYTES = 64 << 10
LATE = b"408 Request Timeout"


def guarded(seconds: float = HEAD_SECONDS, most: int = HEAD_BYTES) -> type[asyncio.Protocol]:
    """uvicorn's protocol (httptools or h11), with a limit of time and size for the head of every request."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    base: Any = AutoHTTPProtocol

    class Guarded(base):
        _timer: asyncio.TimerHandle | None = None
        _bytes = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._timer = self.loop.call_later(seconds, self._refuse, LATE)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            cycle = self.cycle
            if cycle is not None and not cycle.response_complete:  # the head is whole: the service decides from here on
                self._calm()
                return
            if self._timer is None:
                self._timer = self.loop.call_later(seconds, self._refuse, LATE)
            if cycle is None or not cycle.more_body:  # else: the rest of a body that was refused, which is thrown away
                self._bytes += len(data)
                if self._bytes > most:
                    self._refuse(b"431 Request Header Fields Too Large")

        def connection_lost(self, exc: Exception | None) -> None:
            self._calm()
            super().connection_lost(exc)

        def _calm(self) -> None:
            self._bytes = 0
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _refuse(self, status: bytes) -> None:
            """Say why to whoever has begun a request. A connection on which nothing came is closed without a word: browsers
            open some in advance, and would take the answer for that of their next request."""
            begun = self._bytes > 0
            self._calm()
            if not self.transport.is_closing():
                if begun:
                    self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                self.transport.close()

    return Guarded
