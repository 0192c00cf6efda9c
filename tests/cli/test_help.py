"""Help is instant: the program, its version and every command's help answer without loading torch or its kin.

Commands are found by walking the program itself, so a new one is covered the day it is registered.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from wildspec import __version__
from wildspec.cli.main import app

HEAVY = ("torch", "numpy", "scipy", "sklearn", "faiss", "pyarrow", "PIL", "matplotlib", "ray", "fastapi")

# Runs the program with an import hook that refuses the heavy packages, and says so on the exit.
GUARDED = """
import sys
heavy = set(sys.argv.pop(1).split(","))
class Guard:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in heavy:
            raise AssertionError(f"{name} was imported to print help")
        return None
sys.meta_path.insert(0, Guard())
sys.argv[0] = "wildspec"
from wildspec.cli.main import main
main()
"""


def _walk(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command and group as the words one types after ``wildspec``."""
    found = [path] if path else []
    for name, child in sorted(getattr(command, "commands", {}).items()):
        found += _walk(child, (*path, name))
    return found


COMMANDS = _walk(typer.main.get_command(app))


def _run(*words: str, columns: int = 300, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb", **variables}
    return subprocess.run(
        [sys.executable, "-c", GUARDED, ",".join(HEAVY), *words],
        capture_output=True, text=True, env=environment, timeout=120,
    )


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "--labelled", "{none}", "--out", "{free}"),
        ("fit", "--labelled", "{some}", "--wild", "{none}", "--out", "{free}"),
        ("fit", "--labelled", "{some}", "--out", "{taken}"),
        ("fit", "--from-embeddings", "--labelled", "{none}", "--out", "{free}"),
        ("score", "{none}", "{some}", "--out", "{free}.csv"),
        ("score", "{bundle}", "{none}", "--out", "{free}.csv"),
        ("report", "{none}", "--out", "{free}.html"),
        ("report", "{bundle}", "--data", "{none}", "--out", "{free}.html"),
        ("serve", "{none}"),
        ("export", "{none}", "--onnx", "{free}.onnx"),
        ("embed", "{none}", "--out", "{free}.parquet"),
    ],
)
def test_a_mistyped_path_is_told_without_loading_anything(words: tuple[str, ...], tmp_path: Path) -> None:
    """Seconds, else: torch alone takes two."""
    places = {name: tmp_path / name for name in ("none", "some", "free", "taken", "bundle")}
    (places["some"] / "cat").mkdir(parents=True)
    for name, file in (("taken", "mine.txt"), ("bundle", "manifest.json")):
        places[name].mkdir()
        (places[name] / file).write_text("{}")
    done = _run(*(word.format(**places) for word in words))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("wildspec: ")
    assert done.stderr.count("\n") == 1
    assert "does not exist" in done.stderr or "exists and is not a wildspec bundle" in done.stderr


def test_the_guard_itself_can_fail() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GUARDED.replace("main()", "import torch"), ",".join(HEAVY)],
        capture_output=True, text=True, timeout=120,
    )
    assert done.returncode != 0
    assert "torch was imported" in done.stderr


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_program_help(flag: str) -> None:
    done = _run(flag)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    for path in COMMANDS:
        if len(path) == 1:
            assert path[0] in done.stdout


def test_version() -> None:
    done = _run("--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"wildspec {__version__}"


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_command_help_is_light_and_has_an_example(path: tuple[str, ...]) -> None:
    done = _run(*path, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    _, marker, example = done.stdout.partition("Example")
    assert marker, f"the help of 'wildspec {' '.join(path)}' has no example"
    assert f"wildspec {' '.join(path)}" in example.replace("\\n", " "), "the example must show the command itself"


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_nothing_is_cut_off_in_a_narrow_window(path: tuple[str, ...]) -> None:
    """An option whose name ends in three dots cannot be typed."""
    shown = _run(*path, "--help", columns=80).stdout
    assert not [line for line in shown.splitlines() if "…" in line]


@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in (("serve",), ("bench",))], ids=" ".join)
def test_every_command_speaks_json(path: tuple[str, ...]) -> None:
    """But a service, which answers over HTTP, and groups."""
    assert re.search(r"--json\b", _run(*path, "--help").stdout)


def test_shells_complete_commands_and_options() -> None:
    """As typer's script for bash asks: without loading anything heavy, or every Tab would take seconds."""
    asked = {"_WILDSPEC_COMPLETE": "complete_bash"}
    done = _run(**asked, COMP_WORDS="wildspec e", COMP_CWORD="1")
    assert (done.returncode, done.stdout.split()) == (0, ["embed", "embed-fit", "export", "evaluate"]), done.stderr
    done = _run(**asked, COMP_WORDS="wildspec score --n", COMP_CWORD="2")
    assert (done.returncode, done.stdout.split()) == (0, ["--neighbours"]), done.stderr


def test_what_tells_recipes_apart_is_whole() -> None:
    from types import SimpleNamespace

    from wildspec.cli.bench import _apart

    recipes = ("fast, sigma=[0.1, 2.0], x=1", "fast, x=1")
    rows = [SimpleNamespace(name="m", detector="d", recipe=recipe) for recipe in recipes]
    assert _apart(rows[0], rows) == ["sigma=[0.1, 2.0]"]
    assert _apart(rows[1], rows) == []


def test_reasons_with_brackets_are_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """rich takes [/x] for the end of a style, and [serve] for a style."""
    from wildspec.cli.evaluate import _tell

    refused = {"detector": "knn", "evaluation": None, "refused": "pip install 'w[serve]' in [/x]"}
    _tell({"method": "erm", "known": "test", "detectors": [refused]})
    assert capsys.readouterr().out.strip() == "knn cannot be used here: pip install 'w[serve]' in [/x]"


def test_unknown_command_is_status_2() -> None:
    done = _run("no-such-command")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["fit", "score", "report", "serve", "export"])
def test_names_in_brackets_are_shown(name: str) -> None:
    """rich takes [ray] for markup and drops it, unless it is escaped."""
    command: Any = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    texts = [command.help, command.epilog, *(getattr(option, "help", None) for option in command.params)]
    assert not [text for text in texts if re.search(r"(?<!\\)\[[a-z_]+\]", text or "")]
    if name == "score":
        assert "(extra [ray])" in _run(name, "--help").stdout
