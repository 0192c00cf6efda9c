"""What strangers may do to the service: slow, endless, huge and hostile requests cost them their connection, nobody else."""

import io
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image
from service import Client, multipart, running

import tiny_model
from wildspec.data.headers import FORMATS
from wildspec.errors import InputError
from wildspec.serving import bodies
from wildspec.serving.app import Limits, create_app
from wildspec.serving.engine import BundleEngine

POST, HEALTH = (line + b" HTTP/1.1\r\nHost: localhost\r\n" for line in (b"POST /v1/predict", b"GET /healthz"))


def _png(image: np.ndarray, side: int | None = None) -> bytes:
    stream = io.BytesIO()
    picture = Image.fromarray(image)
    (picture if side is None else picture.resize((side, side))).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture(scope="module")
def image() -> np.ndarray:
    return tiny_model.pictures({"disc": 1}, 123)[0][0]


@pytest.fixture(scope="module")
def engine() -> BundleEngine:
    return BundleEngine(tiny_model.fitted(), "shapes")


@pytest.fixture(scope="module")
def client(engine: BundleEngine) -> Iterator[Client]:
    with running(engine, Limits(max_images=8, max_body_mb=1.0, max_pixels=1_000_000, seconds=1.0)) as one:
        yield one


def _until_closed(connection: socket.socket) -> bytes:
    """All that the other side has to say before it hangs up."""
    said = b""
    try:
        while block := connection.recv(4096):
            said += block
    except ConnectionResetError:
        pass
    return said


def _connect(client: Client) -> socket.socket:
    return socket.create_connection(("127.0.0.1", client.port), timeout=30)


@pytest.mark.parametrize(
    ("said", "answer"), [(b"", b""), (HEALTH + b"X-Slow: ", b"HTTP/1.1 408 Request Timeout\r\n")]
)
def test_a_connection_that_never_gets_to_its_request_is_closed(client: Client, said: bytes, answer: bytes) -> None:
    with _connect(client) as silent:
        silent.sendall(said)
        told = _until_closed(silent)
    assert told.splitlines(keepends=True)[:1] == ([answer] if answer else [])


def test_so_is_one_that_had_an_answer_and_begins_again(client: Client) -> None:
    with _connect(client) as slow:
        slow.sendall(HEALTH + b"\r\n")
        assert slow.recv(4096).startswith(b"HTTP/1.1 200 ")
        slow.sendall(b"GET /hea")
        assert _until_closed(slow).startswith(b"HTTP/1.1 408 ")


def test_a_request_whose_head_comes_in_pieces_is_answered(client: Client) -> None:
    with _connect(client) as patient:
        for piece in (b"GET /hea", b"lthz HTTP/1.1\r\nHo", b"st: x\r\nConnection: close\r\n\r\n"):
            patient.sendall(piece)
            time.sleep(0.05)
        assert b'{"status":"ok"}' in _until_closed(patient)


def test_a_head_without_end_is_cut_off(client: Client) -> None:
    with _connect(client) as endless:
        endless.sendall(b"GET / HTTP/1.1\r\nX: ")
        try:
            for _ in range(2000):
                endless.sendall(b"y" * 10_000)
        except (BrokenPipeError, ConnectionResetError):
            pass
        else:
            raise AssertionError("20 MB of header were taken")


def test_the_rest_of_a_refused_body_is_read_so_that_the_answer_arrives(client: Client) -> None:
    """Closing at once would reset the connection under a client that is still sending, and lose the reason."""
    status, answer, _ = client.predict(b"x" * 5_000_000)
    assert (status, answer["code"]) == (413, "too_large")


def test_a_large_body_is_taken_apart_beside_the_event_loop(
    client: Client, image: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one body is being parsed, however long that takes, others are answered."""
    go, begun, plain = threading.Event(), threading.Event(), bodies.take_images

    def slow(*given: Any) -> Any:
        begun.set()
        assert go.wait(30)
        return plain(*given)

    monkeypatch.setattr("wildspec.serving.service.take_images", slow)
    body, kind = multipart([("a.png", _png(image)), ("b.txt", b"x" * 200_000)])
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(client.predict(body, kind)))
    thread.start()
    assert begun.wait(30)
    assert client.ask("GET", "/healthz")[0] == 200
    go.set()
    thread.join(30)
    status, answer, _ = answers[0]
    assert (status, answer["images"]) == (422, [{"index": 1, "name": "b.txt", "reason": "not an image of a known format"}])


def test_nothing_that_starts_other_programs_is_opened(client: Client) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (4, 4)).save(stream, "EPS")
    status, answer, _ = client.predict(stream.getvalue(), "application/octet-stream")
    assert (status, answer["images"]) == (422, [{"index": 0, "name": "image", "reason": "not an image of a known format"}])


@pytest.mark.parametrize("kind", FORMATS)
def test_the_formats_of_image_folders_are_read(client: Client, image: np.ndarray, kind: str) -> None:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, kind)
    assert client.predict(stream.getvalue(), "application/octet-stream")[0] == 200


def test_large_images_are_counted_once(engine: BundleEngine, image: np.ndarray) -> None:
    with running(engine) as client:
        for side in (None, 600, 2000):  # decoded in passing; too many pixels for that; too many bytes
            noisy = image if side is None else np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
            assert client.predict(_png(noisy))[0] == 200
        _, text, _ = client.ask("GET", "/metrics")
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["wildspec_batch_images_sum"]) == 3 + 1, "three images, and the first pass, which is a blank one"


@pytest.mark.parametrize("token", ["", " ", "two words", "sesam\u00e9", "line\n"])
def test_a_token_that_no_header_can_carry_is_refused(engine: BundleEngine, token: str) -> None:
    with pytest.raises(InputError, match="one word of visible ASCII"):
        create_app(engine, token=token)


def test_a_body_that_trickles_is_cut_off(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as slow:
        slow.sendall(POST + b"Content-Type: image/png\r\nContent-Length: 1000\r\n\r\nx")
        answer = slow.recv(4096)
    assert b" 408 " in answer.split(b"\r\n")[0]


def test_a_body_without_length_is_counted_as_it_comes(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as sender:
        sender.sendall(POST + b"Content-Type: image/png\r\n")
        sender.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
        answer = b""
        try:
            for _ in range(40):
                sender.sendall(b"8000\r\n" + b"x" * 0x8000 + b"\r\n")
            answer = sender.recv(4096)
        except (BrokenPipeError, ConnectionResetError):
            answer = answer or sender.recv(4096)
    assert b" 413 " in answer.split(b"\r\n")[0]


def test_memory_for_bodies_is_bounded(engine: BundleEngine, image: np.ndarray) -> None:
    with running(engine, Limits(max_held_mb=0.1, max_body_mb=0.1)) as client:
        with _connect(client) as sender:  # a body that stays where it is holds most of it
            sender.sendall(POST + b"Content-Type: image/png\r\nContent-Length: 99000\r\n\r\n" + b"x" * 98_000)
            until = time.monotonic() + 20
            status = 0
            while status != 503 and time.monotonic() < until:  # it is read while we ask
                status, answer, headers = client.predict(b"x" * 5000)
            assert (status, answer["code"]) == (503, "busy")
            assert "retry-after" in headers
        until = time.monotonic() + 20
        while client.predict(_png(image))[0] == 503 and time.monotonic() < until:  # the end of the connection is seen soon
            time.sleep(0.05)
        assert client.predict(_png(image))[0] == 200, "nothing is still held"


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(client: Client) -> None:
    with _connect(client) as sender:
        sender.sendall(POST + b"Content-Type: image/png\r\nContent-Length: 1000001\r\n\r\n")
        assert b" 413 " in sender.recv(4096).split(b"\r\n")[0], "nothing of it was sent"


def test_all_memory_is_given_back_whatever_becomes_of_a_request(engine: BundleEngine, image: np.ndarray) -> None:
    """What stayed counted as held would add up, and one day everybody would be told that the service is busy."""
    with running(engine, Limits(max_body_mb=0.1, seconds=0.3)) as client:
        service = client.app.state.service
        assert client.predict(_png(image))[0] == 200
        assert client.predict(b"no image")[0] == 422
        assert client.predict(b"{", "application/json")[0] == 400
        head = POST + b"Content-Type: image/png\r\n"
        with _connect(client) as slow, _connect(client) as gone, _connect(client) as long:
            slow.sendall(head + b"Content-Length: 1000\r\n\r\n" + b"x" * 500)
            gone.sendall(head + b"Content-Length: 1000\r\n\r\n" + b"x" * 500)
            gone.close()
            long.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n" + 8 * (b"8000\r\n" + b"x" * 0x8000 + b"\r\n"))
            assert b" 408 " in slow.recv(4096).split(b"\r\n")[0]
            assert b" 413 " in long.recv(4096).split(b"\r\n")[0]
        until = time.monotonic() + 30
        while (service._memory.held or service.batcher.inside) and time.monotonic() < until:
            time.sleep(0.01)
        assert (service._memory.held, service.batcher.inside) == (0, 0)


def test_connections_opened_dropped_and_abused_harm_nobody(client: Client, image: np.ndarray) -> None:
    lines = [b"", b"\x00\xff garbage\r\n\r\n", POST + b"Content-Length: 99\r\n\r\nx",
             b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000, HEALTH + b"\r\n"]  # fmt: skip
    opened = []
    for i in range(300):
        one = socket.create_connection(("127.0.0.1", client.port), timeout=30)
        opened.append(one)
        try:
            one.sendall(lines[i % len(lines)])
        except (BrokenPipeError, ConnectionResetError):
            continue
    assert client.predict(_png(image))[0] == 200, "while they are open"
    for one in opened:
        one.close()
    assert client.predict(_png(image))[0] == 200
    assert client.ask("GET", "/readyz")[0] == 200


def test_a_part_of_many_headers_is_refused_at_once(client: Client) -> None:
    """Before python-multipart 0.0.27 they took a minute for 8 MB, and were then ignored."""
    body = b"--XX\r\n" + b"a: b\r\n" * 100_000 + b"\r\nx\r\n--XX--\r\n"
    status, answer, _ = client.predict(body, "multipart/form-data; boundary=XX")
    assert (status, answer["code"]) == (400, "bad_multipart")
