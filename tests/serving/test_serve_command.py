"""What the command says before it serves, and progress in a log."""

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import command
import tiny_model
from wildspec.errors import InputError
from wildspec.serving.open_engine import open_engine
from wildspec.training import counting as progress


@pytest.mark.parametrize(("words", "warned"), [
    (["--host", "0.0.0.0"], True), (["--host", "::"], True), (["--host", "0.0.0.0", "--token", "sesame"], False),
    (["--host", "127.0.0.2"], False), (["--host", "localhost"], False), ([], False),
])  # fmt: skip
def test_a_service_open_to_the_network_without_a_token_is_warned_of(
    words: list[str], warned: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[Any] = []
    monkeypatch.setattr("wildspec.serving.run.listen", lambda host, port: socket.socket())  # nothing is opened here
    monkeypatch.setattr("wildspec.serving.run.serve", lambda *given, **more: served.append(more["listener"].close()))
    status, out, err = command.runner(monkeypatch, capsys)("serve", tiny_model.bundle(), *words)
    assert (status, out, len(served)) == (0, "", 1)
    assert ("warning: anyone who reaches" in err) == warned
    assert "3 classes; open http://" in err


@pytest.mark.parametrize("name", ["https://example.org", "example.org:8443", "example.org/photos", "*.example.org"])
def test_a_name_that_no_request_can_carry_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be allowed, and every request under the name meant refused."""
    monkeypatch.setattr("wildspec.serving.run.serve", lambda *given, **more: more["listener"].close())
    status, out, err = command.runner(monkeypatch, capsys)("serve", tiny_model.bundle(), "--port", 1, "--allow-host", name)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "--allow-host" in err
    assert name in err


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter([0.0, 4.0, 11.0, 11.0, 12.0, *[22.0] * 9])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=clock.__next__))
    with progress.counting("scoring", 4000) as advance:
        for _ in range(4):
            advance(1000)
    assert capsys.readouterr().err.startswith("scoring 2,000/4,000")
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=iter(range(0, 1000, 100)).__next__))
    with progress.counting("scoring", 4000, show=False) as advance:
        advance(4000)
    assert capsys.readouterr().err == ""


def test_a_graph_is_not_served_from_a_device_that_it_does_not_run_on(tmp_path: Path) -> None:
    for device in ("cuda", "nonsense"):
        with pytest.raises(InputError, match=f"--device {device}"):
            open_engine(tmp_path / "model.onnx", device)
