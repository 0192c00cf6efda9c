"""A running service on loopback, in a thread of this process, and a plain client."""

import http.client
import json
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wildspec.serving.app import Limits, create_app
from wildspec.serving.run import make_server


class Client:
    """One request at a time, a new connection each: nothing is shared between tests."""

    def __init__(self, port: int, app: Any) -> None:
        self.port, self.app = port, app

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 60
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, body (parsed when it is JSON), headers in lower case."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            content = answer.read()
            found = {key.lower(): value for key, value in answer.getheaders()}
            is_json = content and found.get("content-type", "").startswith("application/json")
            return answer.status, json.loads(content) if is_json else content.decode(), found
        finally:
            connection.close()

    def predict(self, body: bytes, kind: str = "image/png", path: str = "/v1/predict", **headers: str) -> Any:
        return self.ask("POST", path, body, {"Content-Type": kind, **headers})


@contextmanager
def running(
    engine: Any, limits: Limits | None = None, token: str | None = None, hosts: tuple[str, ...] = ()
) -> Iterator[Client]:
    """The service, ready."""
    with running_app(create_app(engine, limits, token=token, hosts=hosts), limits) as client:
        yield client


@contextmanager
def running_app(app: Any, limits: Limits | None = None) -> Iterator[Client]:
    """Any app of ours, ready."""
    server = make_server(app, limits or Limits(), "error")
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [holder]}, daemon=True)
    thread.start()
    until = time.monotonic() + 60
    while not server.started:
        assert time.monotonic() < until, "the service did not start"
        assert thread.is_alive(), "the service ended while starting"
        time.sleep(0.01)
    try:
        yield Client(holder.getsockname()[1], app)
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), "the service did not stop"


def multipart(files: list[tuple[str, bytes]], boundary: str = "XX-boundary") -> tuple[bytes, str]:
    """Body and content type of an upload."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="images"; filename="{name}"\r\n'
        f"Content-Type: application/octet-stream\r\n\r\n".encode() + data + b"\r\n"
        for name, data in files
    ]
    return b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def bomb(side: int = 30_000) -> bytes:
    """A PNG of 900 million pixels in some hundred bytes, were it ever decoded."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
