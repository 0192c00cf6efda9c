"""The ``wildspec`` program. Command modules import only typer at the top, so every ``--help`` is instant."""

import os
import sys
from typing import Annotated

import typer

from wildspec._version import __version__
from wildspec.cli import (
    bench,
    demo,
    detectors,
    embed_fit,
    evaluate,
    export,
    fit,
    methods,
    report,
    score,
    serve,
    theory,
    train,
)
from wildspec.errors import WildspecError

app = typer.Typer(
    name="wildspec",
    help="Classify known classes under any conditions, refuse unknown ones; learned from labelled plus wild data.",
    epilog="First steps:  wildspec demo   |   wildspec theory   |   wildspec COMMAND --help",
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


app.add_typer(demo.app)
app.add_typer(fit.app)
app.add_typer(embed_fit.app)
app.add_typer(score.app)
app.add_typer(report.app)
app.add_typer(serve.app)
app.add_typer(export.app)
app.add_typer(bench.app, name="bench")
app.add_typer(detectors.app)
app.add_typer(methods.app)
app.add_typer(train.app)
app.add_typer(evaluate.app)
app.add_typer(theory.app)


INTERRUPTED = 130  # 128 + the number of the signal


def main() -> None:
    """Run the program: a user's mistake is one line on stderr and exit status 2, never a traceback."""
    # Threads that wait for each other sleep instead of spinning: beside other work on the machine a training step is several
    # times faster, alone it is as fast. Read when torch is loaded, which no command has done yet; what was set stays.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app()
    except WildspecError as error:
        message = " ".join(str(error).split())
        print(f"wildspec: {message}", file=sys.stderr)
        sys.exit(2)
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:  # typer takes the Ctrl-C itself, and says nothing
            print("wildspec: interrupted", file=sys.stderr)
        raise
    except BrokenPipeError:
        sys.exit(1)
