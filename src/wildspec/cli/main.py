"""The ``wildspec`` program. Command modules import only typer at the top, so every ``--help`` is instant."""

import io
import os
import re
import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer

from wildspec._version import __version__
from wildspec.cli import (
    backbones,
    bench,
    demo,
    detectors,
    embed,
    embed_fit,
    evaluate,
    export,
    fit,
    methods,
    report,
    review,
    score,
    serve,
    theory,
    train,
)
from wildspec.errors import WildspecError
from wildspec.files import plain

app = typer.Typer(
    name="wildspec",
    help="Classify known classes under any conditions, reject unknown ones; learned from labelled plus wild data.",
    epilog="First steps:\n\nwildspec demo\n\nwildspec fit --labelled DIR --wild DIR --out MODEL\n\nwildspec COMMAND --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"wildspec {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


COMMANDS = (demo, fit, embed, embed_fit, score, report, review, serve, export, bench, detectors, backbones, methods, train,
            evaluate, theory)  # in the order of the help  # fmt: skip
for command in COMMANDS:
    app.add_typer(command.app)


CPU_MEMORY = "DefaultCPUAllocator: "  # in the plain RuntimeError with which torch says so
INTERRUPTED = 130  # 128 + the number of the signal
DEFECT = 70  # EX_SOFTWARE of sysexits.h: neither done (0, 1) nor a user's mistake (2)


def main() -> None:
    """Run the program: a user's mistake is one line on stderr and exit status 2, a defect of ours one line and 70."""
    # Threads that wait for each other sleep instead of spinning: beside other work on the machine a training step is several
    # times faster, alone it is as fast. Read when torch is loaded, which no command has done yet; what was set stays.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr does: a name may be none of its letters
    plain, warnings.formatwarning = warnings.formatwarning, _one_line  # by default two lines, with a place in our code
    try:
        _run()
    finally:
        warnings.formatwarning = plain


def _run() -> NoReturn:
    try:
        status = app(standalone_mode=False)  # else typer shows mistakes itself, in a box of many lines
    except WildspecError as error:
        _leave(str(error))
    except BrokenPipeError:
        sys.exit(1)
    except KeyboardInterrupt:  # before typer takes it, in the first half of a second
        status = INTERRUPTED
    except OSError as error:  # a disk or a device that nobody foresaw
        _leave(str(error))
    except Exception as error:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if "ClickException" in kinds:  # of typer or of click, by its version
            _leave(_mistake(error))
        if "Abort" in kinds:
            status = INTERRUPTED
        elif kinds & {"MemoryError", "OutOfMemoryError"} or CPU_MEMORY in str(error):
            _leave(f"out of memory: {str(error).rpartition(CPU_MEMORY)[2] or 'less data or a smaller network may fit'}")
        else:
            _own_up(error)
    if status == INTERRUPTED:  # typer takes the Ctrl-C itself, and says nothing
        print("wildspec: interrupted", file=sys.stderr)
    sys.exit(status or 0)


def _one_line(message: Warning | str, *place: object, **more: object) -> str:
    return f"warning: {plain(' '.join(str(message).split()))}\n"


def _mistake(error: Any) -> str:
    """What is wrong with the words that were typed; nothing where help was printed instead."""
    said = error.format_message().rstrip(".?")
    where = error.ctx.command_path if getattr(error, "ctx", None) else "wildspec"
    if found := re.match(r"got unexpected extra argument\S* \((.*)\)", said, re.IGNORECASE | re.DOTALL):
        extra = [word for word in sys.argv[1:] if f" {word} " in f" {found[1]} "]
        if len(extra) > 1:  # a shell has put names in the place of a pattern: they may be thousands
            said = f"{len(extra):,} extra words, first {extra[0]}; to give many files, give the folder they are in"
    return said and f"{said[:1].lower()}{said[1:]}; see: {where} --help"


def _leave(message: str, status: int = 2) -> NoReturn:
    if message:
        print(f"wildspec: {plain(' '.join(message.split()))}", file=sys.stderr)
    sys.exit(status)


def _own_up(error: Exception) -> NoReturn:
    """A defect of ours: what it is in a line, all the rest in a file that can be sent."""
    import tempfile
    import traceback

    told = f"a defect of wildspec {__version__}, not of what you gave it: {type(error).__name__}: {str(error)[:200]}"
    try:
        handle, path = tempfile.mkstemp(prefix="wildspec-defect-", suffix=".txt", text=True)
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"wildspec {__version__}, Python {sys.version}, {sys.platform}\n{sys.argv}\n")
            stream.write("".join(traceback.format_exception(error)))
        told += f"; please report it with {path} (CONTRIBUTING.md says where)"
    except OSError:  # no room for a file: then here
        traceback.print_exception(error)
        told += "; please report it with the lines above (CONTRIBUTING.md says where)"
    _leave(told, DEFECT)
