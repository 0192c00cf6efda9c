"""What was typed: an option that would be passed over in silence is a mistake, told in one line."""

from collections.abc import Iterable

import typer


def typed(context: typer.Context) -> dict[str, str]:
    """Parameters that stood on the command line, as they are written there: name -> ``--no-flip``, or SCENARIO."""
    found = {}
    for param in context.command.params:
        source = context.get_parameter_source(param.name or "")
        if param.name is None or source is None or source.name != "COMMANDLINE":
            continue
        off = context.params.get(param.name) is False and param.secondary_opts
        option = param.secondary_opts[0] if off else max(param.opts, key=lambda text: text.startswith("--"))
        found[param.name] = option if option.startswith("-") else option.upper()
    return found


def left_out(context: typer.Context, names: Iterable[str]) -> str:
    """Those of the parameters ``names`` that were typed, as they were typed; empty where none was."""
    found = typed(context)
    return ", ".join(found[name] for name in names if name in found)


def counts_only(context: typer.Context, where: str, *names: str) -> None:
    """An error where one of ``names`` was typed: it counts only ``where``, "with --speed" or "on the page"."""
    from wildspec.errors import InputError

    if extra := left_out(context, names):
        many = "," in extra
        raise InputError(f"{extra} count{'' if many else 's'} only {where}; leave {'them' if many else 'it'} out")
