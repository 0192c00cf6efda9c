"""Help is instant: the program, its version and every command's help answer without loading torch or its kin.

Commands are found by walking the program itself, so a new one is covered the day it is registered.
"""

import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from wildspec import __version__
from wildspec.cli.main import app

HEAVY = ("torch", "numpy", "scipy", "sklearn", "faiss", "pyarrow", "PIL", "matplotlib", "ray", "fastapi")

# Runs one program after another in a process whose import hook refuses the heavy packages: what each gave back and said.
GUARDED = """
import contextlib, io, json, os, sys
heavy, runs = json.load(sys.stdin)
class Guard:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in heavy:
            raise AssertionError(f"{name} was imported to print help")
        return None
sys.meta_path.insert(0, Guard())
from wildspec.cli.main import main
found = []
for words, variables in runs:
    sys.argv = ["wildspec", *words]
    os.environ.update(variables)
    out, err, status = io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as done:
            status = done.code or 0
    for name in variables:
        del os.environ[name]
    found.append((status, out.getvalue(), err.getvalue()))
print(json.dumps(found))
"""


class Said(NamedTuple):
    status: int
    out: str
    err: str


def _run(*runs: Sequence[str], program: str = GUARDED, columns: int = 300, **variables: str) -> list[Said]:
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "dumb"}
    given = json.dumps([HEAVY, [(words, {"COLUMNS": str(columns), **variables}) for words in runs]])
    done = subprocess.run(
        [sys.executable, "-c", program], input=given, capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return [Said(*one) for one in json.loads(done.stdout)]


def _walk(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command and group as the words one types after ``wildspec``."""
    found = [path] if path else []
    for name, child in sorted(getattr(command, "commands", {}).items()):
        found += _walk(child, (*path, name))
    return found


COMMANDS = _walk(typer.main.get_command(app))


@functools.cache
def shown(columns: int = 300) -> dict[tuple[str, ...], str]:
    """The help of every command."""
    helps = _run(*([*path, "--help"] for path in COMMANDS), columns=columns)
    assert [said.status for said in helps] == [0] * len(COMMANDS), helps
    return {path: said.out for path, said in zip(COMMANDS, helps, strict=True)}


MISTYPED = (
    "fit --labelled {none} --out {free}",
    "fit --labelled {some} --wild {none} --out {free}",
    "fit --labelled {some} --out {taken}",
    "fit --from-embeddings --labelled {none} --out {free}",
    "score {none} {some} --out {free}.csv",
    "score {bundle} {none} --out {free}.csv",
    "report {none} --out {free}.html",
    "report {bundle} --data {none} --out {free}.html",
    "serve {none}",
    "evaluate {none}",
    "evaluate {bundle} --test {none}",
    "review {none} --ask 5 --out {free}.csv",
    "train --method erm --labelled {none} --out {free}",
    "export {none} --onnx {free}.onnx",
    "embed {none} --out {free}.parquet",
)


def test_a_mistyped_path_is_told_without_loading_anything(tmp_path: Path) -> None:
    """Seconds, else: torch alone takes two."""
    places = {name: str(tmp_path / name) for name in ("none", "some", "free", "taken", "bundle")}
    (tmp_path / "some" / "cat").mkdir(parents=True)
    for name, file in (("taken", "mine.txt"), ("bundle", "manifest.json")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("{}")
    runs = [[word.format(**places) for word in line.split()] for line in MISTYPED]
    for line, said in zip(MISTYPED, _run(*runs), strict=True):
        assert (said.status, said.out) == (2, ""), line
        assert said.err.startswith("wildspec: "), line
        assert said.err.count("\n") == 1, line
        assert "does not exist" in said.err or "is not a wildspec bundle" in said.err, line


def test_the_guard_itself_can_fail() -> None:
    with pytest.raises(AssertionError, match="torch was imported"):
        _run(["--help"], program=GUARDED.replace("main()", "import torch"))


def test_program_help_and_version() -> None:
    *helps, version, wrong = _run(["--help"], ["-h"], ["--version"], ["no-such-command"])
    for said in helps:
        assert said.status == 0, said.err
        assert {"Usage", *(path[0] for path in COMMANDS)} <= set(re.findall(r"[\w-]+", said.out))
    assert (version.status, version.out.strip()) == (0, f"wildspec {__version__}")
    assert wrong.status == 2
    assert "Traceback" not in wrong.err


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_command_help_is_light_and_has_an_example(path: tuple[str, ...]) -> None:
    said = shown()[path]
    assert "Usage" in said
    _, marker, example = said.partition("Example")
    assert marker, f"the help of 'wildspec {' '.join(path)}' has no example"
    assert f"wildspec {' '.join(path)}" in example.replace("\\n", " "), "the example must show the command itself"
    if path not in (("serve",), ("bench",)):  # a service answers over HTTP, a group does nothing itself
        assert re.search(r"--json\b", said)


def test_nothing_is_cut_off_in_a_narrow_window() -> None:
    """An option whose name ends in three dots cannot be typed."""
    assert not [line for said in shown(columns=80).values() for line in said.splitlines() if "…" in line]


def test_shells_complete_commands_and_options() -> None:
    """As typer's script for bash asks: without loading anything heavy, or every Tab would take seconds."""
    asked = {"_WILDSPEC_COMPLETE": "complete_bash"}
    (said,) = _run([], **asked, COMP_WORDS="wildspec e", COMP_CWORD="1")
    assert (said.status, said.out.split()) == (0, ["embed", "embed-fit", "export", "evaluate"]), said.err
    (said,) = _run([], **asked, COMP_WORDS="wildspec score --n", COMP_CWORD="2")
    assert (said.status, said.out.split()) == (0, ["--neighbours"]), said.err


def test_reasons_with_brackets_are_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """rich takes [/x] for the end of a style, and [serve] for a style."""
    from wildspec.cli.evaluate import _tell

    refused = {"detector": "knn", "evaluation": None, "refused": "pip install 'w[serve]' in [/x]"}
    _tell({"method": "erm", "known": "test", "detectors": [refused]})
    assert capsys.readouterr().out.strip() == "knn cannot be used here: pip install 'w[serve]' in [/x]"


@pytest.mark.parametrize("name", ["fit", "score", "report", "serve", "export"])
def test_names_in_brackets_are_shown(name: str) -> None:
    """rich takes [ray] for markup and drops it, unless it is escaped."""
    command: Any = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    texts = [command.help, command.epilog, *(getattr(option, "help", None) for option in command.params)]
    assert not [text for text in texts if re.search(r"(?<!\\)\[[a-z_]+\]", text or "")]
    if name == "score":
        assert "(extra [ray])" in shown()[name,]
