"""Run the program in this process, as typed."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from wildspec.cli.main import main


def runner(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Callable[..., tuple[int, str, str]]:
    """A function of the words after ``wildspec`` -> exit status, stdout, stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["wildspec", *map(str, words)])
        with pytest.raises(SystemExit) as done:
            main()
        out = capsys.readouterr()
        return 0 if done.value.code is None else int(done.value.code), out.out, out.err

    return run
