"""Clients that do not read their answers: they count in the memory bound and lose their connection, nobody else does."""

import io
import json
import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image
from service import Client, multipart, running

import tiny_model
from wildspec.serving.app import Limits
from wildspec.serving.engine import BundleEngine

PICTURE = "data:," + "x" * 120_000  # an answer with 8 x 20 of them has 19 MB, more than a socket's buffers hold


class Wordy(BundleEngine):
    """A model whose answers are long."""

    def picture_of(self, row: int) -> str | None:
        return PICTURE


@pytest.fixture
def client() -> Iterator[Client]:
    with running(Wordy(tiny_model.fitted(), "shapes"), Limits(seconds=2.0, max_held_mb=30, max_body_mb=30)) as one:
        yield one


def upload() -> tuple[bytes, str]:
    images, _ = tiny_model.pictures({"disc": 8}, 3)
    files = []
    for i, image in enumerate(images):
        stream = io.BytesIO()
        Image.fromarray(image).save(stream, "PNG")
        files.append((f"{i}.png", stream.getvalue()))
    return multipart(files)


def ask_without_reading(client: Client) -> socket.socket:
    body, kind = upload()
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.settimeout(30)
    one.connect(("127.0.0.1", client.port))
    head = f"POST /v1/predict?neighbours=20&pictures=true HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
    one.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert one.recv(8, socket.MSG_PEEK) == b"HTTP/1.1"
    return one


def read_all(one: socket.socket) -> int:
    """Bytes that still come before the other side hangs up."""
    total = 0
    try:
        while block := one.recv(1 << 20):
            total += len(block)
    except ConnectionResetError:
        pass
    return total


def test_an_answer_that_is_not_read_is_given_up(client: Client) -> None:
    with ask_without_reading(client) as lazy:
        time.sleep(3.0)
        assert read_all(lazy) < 19_000_000
    assert client.app.state.service.batcher.inside == 0


def test_answers_count_in_the_memory_that_is_held(client: Client) -> None:
    body, kind = upload()
    with ask_without_reading(client):
        status, answer, headers = client.predict(body, kind, "/v1/predict?neighbours=20&pictures=true")
        assert (status, answer["code"]) == (503, "busy")
        assert "retry-after" in headers
        assert client.predict(body, kind)[0] == 200, "a short answer has room"
    until = time.monotonic() + 30
    while client.predict(body, kind, "/v1/predict?neighbours=20&pictures=true")[0] != 200:
        assert time.monotonic() < until, "the memory was not given back"
        time.sleep(0.1)


def test_a_long_answer_arrives_whole_at_a_client_that_reads(client: Client) -> None:
    body, kind = upload()
    status, answer, headers = client.predict(body, kind, "/v1/predict?neighbours=20&pictures=true")
    assert status == 200
    assert int(headers["content-length"]) == len(json.dumps(answer))
    assert {near["picture"] for found in answer["results"] for near in found["neighbours"]} == {PICTURE}
    assert np.isfinite([found["ood_score"] for found in answer["results"]]).all()
