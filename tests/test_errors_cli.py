"""What a user sees when something goes wrong: one line and a status, never a traceback."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from wildspec import errors
from wildspec.errors import WildspecError

SUBCLASSES = [
    value for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, WildspecError) and value is not WildspecError
]

PROGRAM = """
import sys
from wildspec import errors
from wildspec.cli import main as program

@program.app.command("break")
def _break() -> None:
    {statement}

sys.argv = ["wildspec", "break"]
program.main()
"""


def _run(statement: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(statement=statement)], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("name", [cls.__name__ for cls in SUBCLASSES] + ["WildspecError"])
def test_an_error_of_ours_is_one_line_and_status_2(name: str) -> None:
    done = _run(f'raise errors.{name}("k must be below N,\\n   got 7; use a smaller k")')
    assert done.returncode == 2
    assert done.stderr == "wildspec: k must be below N, got 7; use a smaller k\n"
    assert done.stdout == ""


def test_interrupt_is_one_line_and_status_130() -> None:
    done = _run("raise KeyboardInterrupt")
    assert done.returncode == 130
    assert done.stderr == "wildspec: interrupted\n"


@pytest.mark.parametrize(("statement", "said"), [
    ('raise PermissionError(13, "Permission denied", "/x")', "[Errno 13] Permission denied: '/x'"),
    ("raise MemoryError", "out of memory: less data or a smaller network may fit"),
    ('import torch; raise torch.OutOfMemoryError("tried to\\n allocate 2 GiB")', "out of memory: tried to allocate 2 GiB"),
])  # fmt: skip
def test_what_the_machine_refuses_is_one_line_and_status_2(statement: str, said: str) -> None:
    done = _run(statement)
    assert (done.returncode, done.stderr) == (2, f"wildspec: {said}\n")


def test_a_warning_is_one_line_without_a_place_in_our_code() -> None:
    done = _run('import warnings; warnings.warn("few\\n  samples")')
    assert (done.returncode, done.stderr) == (0, "warning: few samples\n")


@pytest.mark.parametrize(("words", "said"), [
    (["fit"], "missing option '--labelled'; see: wildspec fit --help"),
    (["fit", "--minuts", "3"], "no such option:? '?--minuts"),  # by the version of typer
    (["serve", "m", "--port", "0"], "invalid value for '--port': "),
    (["bench", "paper", "--table"], "option '--table' requires an argument; see: wildspec"),
    (["nope"], "no such command 'nope'; see: wildspec --help"),
])  # fmt: skip
def test_a_mistyped_command_is_one_line_and_status_2(words: list[str], said: str) -> None:
    done = subprocess.run([sys.executable, "-m", "wildspec", *words], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.match(f"wildspec: {said}", done.stderr.replace("python -m wildspec", "wildspec"))
    assert done.stderr.count("\n") == 1


def test_the_program_alone_shows_its_help() -> None:
    done = subprocess.run([sys.executable, "-m", "wildspec"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "Usage" in done.stdout
    assert done.stderr == ""


def test_a_defect_of_ours_is_one_line_with_a_file_to_report_and_a_status_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 would read as done with a negative answer, 2 as a mistake of whoever typed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = _run('raise ZeroDivisionError("ours\\n and long")')
    assert (done.returncode, done.stderr.count("\n")) == (70, 1)
    (report,) = tmp_path.iterdir()
    for word in ("defect", "ZeroDivisionError: ours and long", "report", str(report)):
        assert word in done.stderr
    assert "Traceback" in report.read_text()
    assert "in _break" in report.read_text()


@pytest.mark.parametrize("cls", SUBCLASSES)
def test_every_error_is_also_a_standard_one(cls: type[Exception]) -> None:
    """So that ``except ValueError`` and friends keep working for people who do not know our names."""
    assert any(base.__module__ == "builtins" and base not in (Exception, BaseException, object) for base in cls.__mro__)
