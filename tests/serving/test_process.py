"""``wildspec serve`` as a process: says where it listens, answers, and on SIGTERM finishes what it accepted."""

import io
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from service import Client, bomb, multipart

import command
import tiny_model


def _free_port() -> int:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return int(holder.getsockname()[1])


def _start(*words: object, port: int) -> "subprocess.Popen[str]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "wildspec", "serve", *map(str, words), "--port", str(port)],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment,
    )  # fmt: skip


def _wait(client: Client, process: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        try:
            if client.ask("GET", "/readyz", timeout=5)[0] == 200:
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the service did not start")


def _accepted(client: Client, answered: int, images: int) -> float:
    """Requests that were answered before the call, and those inside now. Each has that many images."""
    (inside,) = re.findall(r"^wildspec_images_inside (\S+)$", client.ask("GET", "/metrics")[1], re.MULTILINE)
    return answered + float(inside) / images


def test_sigterm_finishes_what_was_accepted() -> None:
    port = _free_port()
    process = _start(tiny_model.bundle(), "--device", "cpu", port=port)
    client = Client(port, None)
    try:
        _wait(client, process)
        for strange in (b"no image", bomb(10_000)):  # Pillow warns of the second
            assert client.predict(strange)[0] == 422
        images, _ = tiny_model.pictures({"bar": 8}, 5)
        files = []
        for i, image in enumerate(images):
            stream = io.BytesIO()
            Image.fromarray(image).resize((900, 900)).save(stream, "PNG")  # takes a moment to decode
            files.append((f"{i}.png", stream.getvalue()))
        body, kind = multipart(files)
        answers: list[Any] = []
        threads = [threading.Thread(target=lambda: answers.append(client.predict(body, kind)[0])) for _ in range(6)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 60
        while _accepted(client, len(answers), len(files)) < len(threads):  # a request still on its way may be turned away
            assert time.monotonic() < until, "the requests were not accepted"
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(120)
        status = process.wait(120)
    finally:
        process.kill()
    assert answers == [200] * 6
    assert status in (0, -signal.SIGTERM), "ended by its own will, or by the signal it re-raised after the work was done"
    said = process.stderr.read() if process.stderr else ""
    assert f"open http://127.0.0.1:{port}/" in said
    assert "Traceback" not in said
    assert "Warning" not in said, "strangers cannot fill the log"
    with pytest.raises(OSError):
        client.ask("GET", "/healthz", timeout=5)


def test_a_service_from_onnx_survives_thousands_of_connections_opened_and_dropped() -> None:
    """More at once than the 1,024 files that a process may usually open."""
    model = tiny_model.fitted()
    images, _ = tiny_model.pictures({"disc": 1, "stripes": 1}, 40)
    port = _free_port()
    process = _start(tiny_model.graph(), port=port)
    client = Client(port, None)
    try:
        _wait(client, process)
        opened, waiting = [], 3000
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 5000), hard))
        at_once = min(waiting, min(hard, 5000) - 1000)  # the rest follows where a system allows fewer at once
        while waiting:
            for i in range(min(waiting, at_once)):
                one = socket.create_connection(("127.0.0.1", port), timeout=60)
                if i % 2:
                    one.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: 127.1.1.1\r\nContent-Length: 9999\r\n\r\nhalf")
                opened.append(one)
            waiting -= len(opened)
            for one in opened:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, no farewell
                one.close()
            opened.clear()
        for image, wanted in zip(images, model.explain(images), strict=True):
            status, answer, _ = _asked(client, image)
            assert status == 200
            assert answer["results"][0]["decision"] == wanted.decision
            assert answer["results"][0]["ood_score"] == pytest.approx(wanted.ood_score, abs=1e-4)
        assert client.ask("GET", "/readyz")[0] == 200
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.wait(120)
    finally:
        process.kill()
    assert "Traceback" not in (process.stderr.read() if process.stderr else "")


def _asked(client: Client, image: np.ndarray) -> Any:
    """An answer; while the service still clears the corpses away it may say 503 or cut a connection short."""
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG")
    until = time.monotonic() + 60
    while True:
        try:
            answer = client.predict(stream.getvalue())
            if answer[0] not in (429, 503) or time.monotonic() > until:
                return answer
        except OSError:
            if time.monotonic() > until:
                raise
        time.sleep(0.1)


def test_what_cannot_be_served_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    run = command.runner(monkeypatch, capsys)
    (tmp_path / "x.onnx").write_bytes(b"not a graph")
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "manifest.json").write_text("{}")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = taken.getsockname()[1]
        for model, token, port, message in (
            ("none", "x", _free_port(), "does not exist"),
            ("x.onnx", "x", _free_port(), "is not an ONNX file of wildspec"),
            ("some", "x", busy, "address already in use; choose another --port"),
            ("some", "", _free_port(), "the token must be one word"),
        ):
            monkeypatch.setenv("WILDSPEC_TOKEN", token)  # set but empty is a slip
            status, out, said = run("serve", tmp_path / model, "--port", port)
            assert (status, out, said.count("\n")) == (2, "", 1)
            assert said.startswith("wildspec: ")
            assert message in said


def test_the_same_warning_is_logged_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    import logging

    from wildspec.serving.run import Seldom

    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    seldom = Seldom()

    def passes(level: int, text: str) -> bool:
        return seldom.filter(logging.LogRecord("x", level, "f", 1, text, (), None))

    assert [passes(logging.WARNING, "full") for _ in range(3)] == [True, False, False]
    assert passes(logging.WARNING, "other")
    assert [passes(logging.ERROR, "full") for _ in range(2)] == [True, True]
    now[0] += 61
    assert passes(logging.WARNING, "full")
