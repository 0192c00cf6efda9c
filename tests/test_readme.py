"""The README's tour works as it stands there: every command line is run, word for word, on folders of small images."""

import re
import shlex
import socket
from pathlib import Path
from typing import Any

import pytest

import command
import tiny_model

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def _lines(heading: str) -> list[str]:
    """The command lines of the first code block after a heading, without their comments."""
    block = README.split(heading, 1)[1].split("```", 2)[1]
    return [line for row in block.splitlines() if (line := row.split("#")[0].strip())]


def test_your_images(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    served: list[tuple[str, int]] = []

    def run_at_once(server: Any, sockets: list[socket.socket]) -> None:
        server.started = True

    def listen(host: str, port: int) -> socket.socket:  # port 8000 may be taken where this runs
        served.append((host, port))
        return socket.socket()

    monkeypatch.setattr("uvicorn.Server.run", run_at_once)
    monkeypatch.setattr("wildspec.serving.run.listen", listen)
    monkeypatch.setattr("wildspec.images.frozen_network.SMALL_PICTURES", 32)  # quick here
    monkeypatch.chdir(tmp_path)
    tiny_model.write_folders(tmp_path)
    lines = _lines("**Your images.**")
    assert [line.split()[1] for line in lines] == ["fit", "score", "report", "serve"]
    run = command.runner(monkeypatch, capsys)
    said = {}
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "wildspec"
        status, out, err = run(*words)
        assert status == 0, f"{line}: {err}"
        said[words[0]] = out + err
    assert re.search(r"of 84 images look like none of your 3 classes", said["fit"])
    assert len((tmp_path / "scores.csv").read_text().splitlines()) == 1 + 84
    assert "look like none of your 3 classes" in (tmp_path / "report.html").read_text()
    assert served == [("127.0.0.1", 8000)]
    assert "open http://127.0.0.1:8000/" in said["serve"]


def test_it_is_short_and_its_table_is_the_pages() -> None:
    """Two minutes to read; the figures are those of the results page, which is made from the record."""
    assert len(README.splitlines()) <= 80
    page = (Path(__file__).parent.parent / "docs" / "results" / "front-door.md").read_text(encoding="utf-8")
    once = page.split("## Written down first", 1)[1].split("## ", 1)[0]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in once.splitlines() if line.startswith("|")]
    rows = {name: rest for name, *rest in cells}
    shown = [line for line in README.splitlines() if line.startswith("| ") and "kept" not in line]
    assert len(shown) >= 4
    for line in shown:
        name, *figures = (cell.strip() for cell in line.strip("|").split("|"))
        apart, known, shifted, unknown, _ = rows[name]
        assert figures == [known, shifted, unknown, apart], name


def test_your_embeddings() -> None:
    import numpy as np
    from sklearn.datasets import load_digits

    block = README.split("**Your embeddings.**", 1)[1].split("```python", 1)[1].split("```")[0]
    rows, labels = load_digits(return_X_y=True)
    known = labels < 6
    first = known & (np.random.default_rng(0).random(len(rows)) < 0.5)
    names: dict[str, Any] = {"X": rows[first], "y": labels[first], "X_wild": rows[~first], "X_new": rows[~first]}
    exec(block, names)
    predicted, truth = names["model"].predict(rows[~first]), labels[~first]
    assert set(predicted.tolist()) <= {-1, *range(6)}
    assert (predicted == truth)[truth < 6].mean() > 0.7
    assert (predicted[truth >= 6] == -1).mean() > (predicted[truth < 6] == -1).mean()  # no seed is set here: no more is sure


@pytest.mark.parametrize("heading", ["## What to type next"])
def test_every_other_command_exists_with_its_options(heading: str) -> None:
    from typer.main import get_command

    from wildspec.cli.main import app

    commands = get_command(app).commands  # type: ignore[attr-defined]
    for line in _lines(heading):
        program, name, *words = shlex.split(line)
        assert program == "wildspec"
        known = {option for one in commands[name].params for option in (*one.opts, *one.secondary_opts)}
        if hasattr(commands[name], "commands"):  # a group: the next word is its command
            inner = commands[name].commands[words[0]]
            known = {option for one in inner.params for option in (*one.opts, *one.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= known, line
