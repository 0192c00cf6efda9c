"""What a user sees when something goes wrong: one line and a status, never a traceback."""

import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import command
from wildspec import errors
from wildspec.cli.main import app
from wildspec.errors import WildspecError

SUBCLASSES = [
    value for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, WildspecError) and value is not WildspecError
]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable[..., tuple[int, str, str]]:
    return command.runner(monkeypatch, capsys)


@pytest.fixture
def ends(run: Callable[..., tuple[int, str, str]]) -> Iterator[Callable[[Callable[[], Any]], tuple[int, str, str]]]:
    """How the program ends, and what it says, when a command of it does this."""

    def ended(act: Callable[[], Any]) -> tuple[int, str, str]:
        app.command("break")(lambda: act())
        return run("break")

    before = list(app.registered_commands)
    yield ended
    app.registered_commands[:] = before


def throw(error: BaseException) -> Callable[[], None]:
    def broken() -> None:
        raise error

    return broken


@pytest.mark.parametrize("cls", [*SUBCLASSES, WildspecError])
def test_an_error_of_ours_is_one_line_and_status_2(cls: type[WildspecError], ends: Any) -> None:
    told = ends(throw(cls("k must be below N,\n   got 7; use a smaller k")))
    assert told == (2, "", "wildspec: k must be below N, got 7; use a smaller k\n")


def test_interrupt_is_one_line_and_status_130(ends: Any) -> None:
    assert ends(throw(KeyboardInterrupt())) == (130, "", "wildspec: interrupted\n")


def test_so_it_is_before_the_words_are_read(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def still_starting(**how: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wildspec.cli.main.app", still_starting)
    assert run("detectors") == (130, "", "wildspec: interrupted\n")


@pytest.mark.parametrize(("error", "said"), [
    (PermissionError(13, "Permission denied", "/x"), "[Errno 13] Permission denied: '/x'"),
    (MemoryError(), "out of memory: less data or a smaller network may fit"),
    (torch.OutOfMemoryError("tried to\n allocate 2 GiB"), "out of memory: tried to allocate 2 GiB"),
    (RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: 12 bytes"),
     "out of memory: can't allocate memory: 12 bytes"),  # torch on a CPU
])  # fmt: skip
def test_what_the_machine_refuses_is_one_line_and_status_2(error: Exception, said: str, ends: Any) -> None:
    assert ends(throw(error)) == (2, "", f"wildspec: {said}\n")


def test_a_warning_is_one_line_without_a_place_in_our_code() -> None:
    """In a process of its own: pytest takes warnings for itself."""
    program = (
        "import sys, warnings; from wildspec.cli.main import app, main\n"
        "@app.command('break')\ndef _break(): warnings.warn('few\\n  samples')\n"
        "sys.argv = ['wildspec', 'break']; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "warning: few samples\n")


@pytest.mark.parametrize(("words", "said"), [
    (["fit"], "missing option '--labelled'; see: wildspec fit --help"),
    (["fit", "--minuts", "3"], "no such option:? '?--minuts"),  # by the version of typer
    (["serve", "m", "--port", "0"], "invalid value for '--port': "),
    (["bench", "paper", "--table"], "option '--table' requires an argument; see: wildspec"),
    (["nope"], "no such command 'nope'; see: wildspec --help"),
])  # fmt: skip
def test_a_mistyped_command_is_one_line_and_status_2(words: list[str], said: str, run: Any) -> None:
    status, out, told = run(*words)
    assert (status, out, told.count("\n")) == (2, "", 1)
    assert re.match(f"wildspec: {said}", told.replace("python -m pytest.", ""))


def test_the_program_alone_shows_its_help(run: Any) -> None:
    status, out, told = run()
    assert (status, told) == (2, "")
    assert "Usage" in out


def test_a_process_ends_with_the_status_and_the_line() -> None:
    done = subprocess.run([sys.executable, "-m", "wildspec", "nope"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "no such command 'nope'" in done.stderr


def test_a_defect_of_ours_is_one_line_with_a_file_to_report_and_a_status_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: Any
) -> None:
    """1 would read as done with a negative answer, 2 as a mistake of whoever typed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    status, _, told = ends(throw(ZeroDivisionError("ours\n and long")))
    assert (status, told.count("\n")) == (70, 1)
    (report,) = tmp_path.iterdir()
    for word in ("defect", "ZeroDivisionError: ours and long", "report", str(report)):
        assert word in told
    assert "Traceback" in report.read_text()
    assert "in broken" in report.read_text()


@pytest.mark.parametrize("cls", SUBCLASSES)
def test_every_error_is_also_a_standard_one(cls: type[Exception]) -> None:
    """So that ``except ValueError`` and friends keep working for people who do not know our names."""
    assert any(base.__module__ == "builtins" and base not in (Exception, BaseException, object) for base in cls.__mro__)


def test_a_name_that_the_terminal_has_no_letters_for_is_shown_all_the_same(ends: Any, monkeypatch: Any) -> None:
    for encoding in ("utf-8", "latin-1"):
        screen = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
        monkeypatch.setattr(sys, "stdout", screen)
        status, _, err = ends(lambda: print("caf\udce9 \u732b written"))
        assert (status, err) == (0, "")
        screen.flush()
        assert b"caf\\udce9" in screen.buffer.getvalue()  # type: ignore[attr-defined]
        assert b"written" in screen.buffer.getvalue()  # type: ignore[attr-defined]
