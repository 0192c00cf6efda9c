"""Connections that never get to a request, and those that never read their answer: uvicorn waits for both without end.

Whoever opens a connection has some seconds to say what is wanted, in so many bytes; then it is closed. Otherwise a few
thousand silent connections would keep everybody else out, and one endless header would fill the memory. Whoever is answered
has some seconds to take the answer. Bodies have limits of their own (`wildspec.serving.bodies`).
"""

import asyncio
from typing import Any

HEAD_SECONDS = 15.0
HEAD_BYTES = 64 << 10
READ_SECONDS = 30.0
LATE = b"408 Request Timeout"


def guarded(
    seconds: float = HEAD_SECONDS, most: int = HEAD_BYTES, read_seconds: float = READ_SECONDS
) -> type[asyncio.Protocol]:
    """uvicorn's protocol (httptools or h11), with a limit of time and size for the head of every request, and of time in
    which its answer must have been read."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    base: Any = AutoHTTPProtocol

    class Guarded(base):
        _timer: asyncio.TimerHandle | None = None
        _bytes = 0
        _unread: asyncio.TimerHandle | None = None

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
            self._taken()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            """More than a buffer full waits to be read; from now on the whole answer has its time."""
            super().pause_writing()
            if self._unread is None:
                self._unread = self.loop.call_later(read_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self.cycle is None or self.cycle.response_complete:
                self._taken()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self.flow.write_paused:
                self._taken()
            if self.transport.is_closing():  # it waits until the rest is read
                self.loop.call_later(read_seconds, self.transport.abort)

        def timeout_keep_alive_handler(self) -> None:
            super().timeout_keep_alive_handler()
            self.loop.call_later(read_seconds, self.transport.abort)

        def _taken(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None

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
