"""Every benchmark command in the documentation exists, with the options it is shown with."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from tests.bench.making import ran

from wildspec.bench.editions import recipe_hash
from wildspec.bench.records import load_records
from wildspec.cli.bench import app
from wildspec.training.recipe import Recipe, parse_changes

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("docs/benchmark.md", "docs/results/index.md", "README.md")
LINES = sorted({
    match.group(0).split("#")[0].strip()
    for page in PAGES
    for match in re.finditer(r"^wildspec bench .*$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
})  # fmt: skip


def test_the_run_that_meets_the_papers_numbers_is_what_the_records_ran() -> None:
    """Also after a preset has changed: the documented settings still give the recipe of committed seeds."""
    text = (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8")
    part = text.split("## The run that meets the paper's numbers")[1].split("## Reading")[0]
    lines = [shlex.split(line)[2:] for line in part.splitlines() if line.startswith("wildspec bench ")]
    assert len(lines) == 4
    records = load_records([ROOT / "docs" / "results" / "records"])
    for command, *arguments in lines:
        given = typer.main.get_command(app).commands[command].make_context(command, arguments).params  # type: ignore[attr-defined]
        recipe = Recipe(given["preset"], given["scale"], parse_changes(given["change"]))
        code = recipe_hash(ran(recipe, semantic=given["semantic"], mirror=given["mirror"]))
        seeds = {r["seed"] for r in records if r["semantic"] == given["semantic"] and recipe_hash(r) == code}
        assert seeds >= set(range(given["seeds"]))


def test_there_are_examples() -> None:
    assert len(LINES) > 10


@pytest.mark.parametrize("line", LINES)
def test_documented_command_exists(line: str) -> None:
    command, *arguments = shlex.split(line)[2:]
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert command in known
    context = known[command].make_context(command, list(arguments))  # parses; a wrong option or value raises
    assert context.params
