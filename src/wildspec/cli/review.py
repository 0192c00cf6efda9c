"""``wildspec review``: which wild samples to ask a person about, and a model that has learned from the answers."""

from pathlib import Path
from shlex import quote  # a name with a space must survive being typed
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared

app = typer.Typer()


@app.command(
    "review",
    epilog="Example:  wildspec review MODEL --ask 20 --out ask.csv   |   "
    "wildspec review MODEL --answers ask.csv --out MODEL2",
)
def review(
    model: Annotated[Path, typer.Argument(help="Bundle of wildspec fit (on a frozen backbone) or embed-fit.")],
    out: Annotated[Path, typer.Option(help="Table to write (--ask), or bundle to write (--answers).")],
    ask: Annotated[int | None, typer.Option(min=1, help="Write as many questions.")] = None,
    answers: Annotated[Path | None, typer.Option(help="That table with its column class filled in.")] = None,
    rule: Annotated[str, typer.Option(help="groups, boundary, most_unlike, entropy, margin or random.")] = "groups",
    as_json: shared.AsJson = False,
) -> None:
    """Ask a person about wild samples and learn from the answers: a known class, unknown, a new name; empty: no answer."""
    from wildspec.errors import InputError
    from wildspec.loading import load
    from wildspec.serving import review as tables

    if (ask is None) == (answers is None):
        raise InputError("review needs either --ask N, to write questions, or --answers FILE, to learn from them")
    estimator = load(model)
    pool = estimator.review()
    if ask is not None:
        written = tables.write_questions(pool, ask, rule, out)
        _say(as_json, {"out": str(out), "questions": written}, f"{out}: {written} questions; fill in the column class, then "
             f"run:  wildspec review {quote(str(model))} --answers {quote(str(out))} --out MODEL2")  # fmt: skip
        return
    from wildspec.bundle import check_target

    assert answers is not None
    check_target(out)
    given = tables.read_answers(pool, answers)
    before = pool.facts()
    pool.answer(given)
    pool.refit()
    estimator.take(pool).save(out)
    after = pool.facts()
    new = after["classes"][len(before["classes"]) :]
    told = f"; new classes: {', '.join(map(str, new))}" if new else ""
    _say(
        as_json, {"out": str(out), "answers": len(given), "before": before, "after": after},
        f"{out}: learned from {len(given)} answers; rejected of the wild pool: {before['rejected']:,} before, "
        f"{after['rejected']:,} now of {after['wild']:,}{told}",
    )  # fmt: skip


def _say(as_json: bool, record: dict[str, Any], text: str) -> None:
    import json

    typer.echo(json.dumps(record, indent=2) if as_json else text)
