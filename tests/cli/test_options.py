"""One word, one meaning: an option that several commands have is the same option in each."""

from typing import Any

import typer

from wildspec.cli.main import app

SHARED = ("--device", "--json", "--preset", "--epochs", "--init", "--flip", "--held-out", "--max-unreadable", "--pictures",
          "--minutes-limit", "--test", "--shifted")  # fmt: skip


def options(command: Any) -> list[tuple[str, str]]:
    """(name, help) of every option of a command and of those below it."""
    found = [(param.opts[0], param.help) for param in command.params if getattr(param, "help", None) is not None]
    for child in getattr(command, "commands", {}).values():
        found += options(child)
    return found


def test_shared_options_are_the_same_everywhere() -> None:
    found = options(typer.main.get_command(app))
    for name in SHARED:
        meanings = {text for option, text in found if option == name}
        count = sum(option == name for option, _ in found)
        assert count > 1, f"{name} is in {count} command: it needs no sharing"
        assert len(meanings) == 1, (name, meanings)
