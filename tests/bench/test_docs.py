"""Every benchmark command in the documentation exists, with the options it is shown with."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from wildspec.cli.bench import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("docs/benchmark.md", "docs/results/index.md", "README.md")
LINES = sorted({
    match.group(0).split("#")[0].strip()
    for page in PAGES
    for match in re.finditer(r"^wildspec bench .*$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
})  # fmt: skip


def test_there_are_examples() -> None:
    assert len(LINES) > 10


@pytest.mark.parametrize("line", LINES)
def test_documented_command_exists(line: str) -> None:
    command, *arguments = shlex.split(line)[2:]
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert command in known
    context = known[command].make_context(command, list(arguments))  # parses; a wrong option or value raises
    assert context.params
