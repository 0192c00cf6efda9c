"""The command itself: its address, kill -9 between answers, the same command again, Ctrl-C writes the model."""

import http.client
import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

import command
import wildspec
from shifted_world import make_world
from wildspec import SpectralClassifier
from wildspec.serving.review_open import open_room
from wildspec.serving.review_run import run_review

WORLD = make_world(2)
TAB = "0123456789abcdef"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("review") / "MODEL"
    names = np.array(["cat", "dog", "owl"])
    SpectralClassifier(random_state=0).fit(WORLD.labelled, names[WORLD.labels], X_wild=WORLD.wild).save(path)
    return path


class Running:
    """``wildspec review`` on a port of its own."""

    def __init__(self, bundle: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "wildspec", "review", str(bundle), "--no-browser", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = re.search(r"http://127\.0\.0\.1:(\d+)/#token=(\S+)", line)
            if found:
                self.port, self.token = int(found[1]), found[2]
                return
        raise AssertionError(f"no address; it ended with {self.process.wait()}")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        one = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        one.request(method, path, None if body is None else json.dumps(body), {"Authorization": f"Bearer {self.token}"})
        answer = one.getresponse()
        found = json.loads(answer.read())
        one.close()
        assert answer.status == 200, found
        return found

    def answer(self, number: int) -> str:
        card = self.ask("GET", f"/v1/card?tab={TAB}")["card"]
        self.ask("POST", "/v1/answer", {"tab": TAB, "act": f"act{number:06d}", "class": "unknown", "samples": [card["id"]]})
        return str(card["title"]).removeprefix("row ")

    def end(self, number: int) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, errors = self.process.communicate(timeout=120)
        return self.process.returncode, out, errors


def test_killed_started_again_and_ended(bundle: Path, tmp_path: Path) -> None:
    """By SIGTERM here, by Ctrl-C below."""
    log, out = tmp_path / "answers.csv", tmp_path / "OUT"
    first = Running(bundle, "--log", str(log), "--out", str(out))
    rows = [first.answer(i) for i in range(3)]
    assert first.end(signal.SIGKILL)[0] == -signal.SIGKILL
    assert not out.exists()
    second = Running(bundle, "--log", str(log), "--out", str(out), "--json")
    assert second.token != first.token
    assert second.ask("GET", "/v1/state")["answers"] == 3
    rows.append(second.answer(3))
    assert len(set(rows)) == 4
    status, said, errors = second.end(signal.SIGTERM)
    assert status == 0, errors
    record = json.loads(said)
    assert (record["out"], record["answers"]) == (str(out), 4)
    assert {str(row) for row in wildspec.load(out).review().answers} == set(rows)
    # what it is told to do next can be done
    lines = log.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 5


def test_the_browser_is_given_a_file_that_only_this_user_may_read(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words with which a program is started can be read by everybody on the machine: the token is not among them."""
    seen: list[Path] = []

    def opened(address: str) -> bool:
        seen.append(Path(unquote(urlsplit(address).path)))
        assert stat.S_IMODE(seen[0].stat().st_mode) == 0o600
        assert "#token=" in seen[0].read_text(encoding="utf-8")
        os.kill(os.getpid(), signal.SIGINT)  # and the review ends
        return True

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", opened)
    status, said, errors = command.runner(monkeypatch, capsys)("review", bundle, "--log", tmp_path / "answers.csv")
    assert status == 0, errors
    assert len(seen) == 1
    assert not seen[0].exists()
    assert "http://127.0.0.1:" in errors
    assert "no model was written" in said, "nothing was answered"
    assert list(tmp_path.iterdir()) == []
    assert not Path(f"{bundle}.reviewed").exists()
    seen.clear()
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    if sys.platform.startswith("linux"):  # without a screen a browser in the terminal would be in the way
        room, _ = open_room(wildspec.load(bundle), bundle, tmp_path / "OUT", log=tmp_path / "answers.csv")
        assert not run_review(room, say=lambda line: os.kill(os.getpid(), signal.SIGINT))["written"]
        assert seen == []
