"""``wildspec review``: which wild samples to ask a person about, and a model that has learned from the answers."""

from itertools import chain, count
from pathlib import Path
from shlex import quote  # a name with a space must survive being typed
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_next
from wildspec.cli.typed import counts_only

app = typer.Typer()


@app.command(
    "review",
    epilog="Example:\n\nwildspec review MODEL\n\nwildspec review MODEL --ask 20 --out ask.csv\n\n"
    "wildspec review MODEL --answers ask.csv --out MODEL2",
)
def review(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="Bundle of wildspec fit (on a frozen backbone) or embed-fit.")],
    out: Annotated[
        Path | None, typer.Option(help="Table to write (--ask), or bundle to write; of the page: MODEL.reviewed by default.")
    ] = None,
    ask: Annotated[int | None, typer.Option(min=1, help="Write this many questions to --out.")] = None,
    answers: Annotated[Path | None, typer.Option(help="The table of --ask with its column class filled in.")] = None,
    rule: Annotated[
        str, typer.Option(help="groups, boundary, most_unlike, entropy, margin, or random (for --promise and shares).")
    ] = "groups",
    promise: Annotated[
        float | None,
        typer.Option(help="Of shifted samples of known classes reject at most this share: promised from answers drawn at "
                     "random (--rule random; the page asks for them first), which then teach nothing."),
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Page: where every answer is written at once; default MODEL.answers.csv.")
    ] = None,
    wild: Annotated[
        str | None,
        typer.Option(help="The wild samples that the model was fitted on: shown on the page; with --ask, names of rows."),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Page: folder with the image files that a column of that table names.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Page: port on this machine; 0: any that is free.")] = 0,
    browser: Annotated[bool, typer.Option(help="Page: open it in the browser?")] = True,
    as_json: shared.AsJson = False,
) -> None:
    """Ask a person about wild samples and learn from the answers: a known class, unknown, or a new name.

    Alone it opens a page in the browser, one sample after the other, answered with a key.

    Every answer is on disk before the next sample shows; the same command goes on where it stopped.

    With --ask and --answers the same by way of a table.
    """
    from wildspec.bundle.manifest import check_bundle, check_outside
    from wildspec.checks import open_fraction
    from wildspec.errors import InputError
    from wildspec.files import check_out

    check_bundle(model)  # before anything heavy is loaded
    if ask is not None or answers is not None:
        counts_only(context, "on the page, without --ask and --answers", "images", "log", "port", "browser")
    if answers is not None and ask is None:
        counts_only(context, "on the page and with --ask", "wild", "rule")
    from wildspec.loading import load
    from wildspec.serving import review as tables
    from wildspec.serving.review_words import changed

    if promise is not None:
        promise = open_fraction("--promise", promise)
        if ask is not None:
            raise InputError("--promise goes with the page, or with --answers FILE, those to --ask N --rule random")
    if ask is None and answers is None:
        _page(model, out, log, wild, images, rule, promise, port, browser, as_json)
        return
    if (ask is None) == (answers is None):
        raise InputError("review takes --ask N, to write questions, or --answers FILE, to learn from them, not both")
    if out is None:
        raise InputError("review needs --out: the table of questions (--ask), or the model to write (--answers)")
    if ask is not None:
        check_outside(out)
        check_out(out, wild)
        tables.check_questions(out)
    estimator = load(model)
    if ask is not None and hasattr(estimator, "fitted_"):
        counts_only(context, "on the page or for a model of embeddings: images have their names", "wild")
    pool = estimator.review()
    if ask is not None:
        names = None
        if wild is not None:
            from wildspec.data.embeddings import EmbeddingTable

            names = EmbeddingTable(wild).names()
        written = tables.write_questions(pool, ask, rule, out, names)
        whole = " from the top (a line that you leave empty may be anything)" if rule == "random" else ""
        then = f"wildspec review {quote(str(model))} --answers {quote(str(out))} --out MODEL2"
        told = f"{out}: {written} questions; fill in the column class{whole}, then run:  {then}"
        _say(as_json, {"out": str(out), "questions": written}, told)
        return
    from wildspec.bundle import check_target
    from wildspec.decision.answers import NEW_CLASS
    from wildspec.files import plain

    assert answers is not None
    check_target(out)
    given, skipped = tables.read_answers(pool, answers)
    before, decided, at_first = pool.facts(), pool.learned.rejected, pool.learned.thresholds.shifted
    pool.skip(skipped)
    pool.answer(given)
    if promise is not None:
        pool.promise = promise
    pool.refit()
    estimator.take(pool).save(out)
    after = pool.facts()
    new = after["classes"][len(before["classes"]) :]
    first, now = tables.tallies(pool, given, decided)
    learned, promised = pool.learned, pool.learned.thresholds.promise
    taught = sum(place in learned.taught for place in pool.places(given))
    told = f"{out}: {changed(taught, first, now, after, [plain(str(name)) for name in new])}"
    if promised is not None:
        told += f"\n{len(promised.given):,} answers drawn at random set the threshold of shifted samples, and teach nothing."
        if promised.threshold > at_first and now.found < first.found:
            told += " To keep what is promised it rose, so more unknown samples are kept, too."
    unlisted = tables.new_names(pool)
    if unlisted:
        listed = ", ".join(f"{plain(name)} ({count})" for name, count in unlisted.items())
        told += f"\nNames that no class has (unknown until {NEW_CLASS} samples share one): {listed}."
    answered = {"known": now.known, "known_kept": now.kept, "known_kept_before": first.kept, "unknown": now.unknown,
                "unknown_rejected": now.found, "unknown_rejected_before": first.found}  # fmt: skip
    record = {"out": str(out), "answers": len(given), "answered": answered, "new_names": unlisted, "before": before,
              "after": after}  # fmt: skip
    _say(as_json, record, "\n".join([told, *tables.drawn_in_words(pool), "Next:"]))
    if not as_json:
        print_next(out, "report {} --out report.html", f"review {{}} --ask 20 --out {_free()}")


def _free() -> str:
    """A name for the next table of questions; the last one holds answers."""
    names = chain(["more.csv"], (f"more{i}.csv" for i in count(2)))
    return next(name for name in names if not Path(name).exists())


def _page(
    model: Path, out: Path | None, log: Path | None, wild: str | None, images: Path | None, rule: str,
    promise: float | None, port: int, browser: bool, as_json: bool,
) -> None:  # fmt: skip
    from wildspec.bundle import check_target
    from wildspec.bundle.manifest import check_outside
    from wildspec.checks import choice, require

    for package in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        require(package, "serve", "wildspec review in the browser")
    from wildspec.decision.questions import QUESTION_RULES
    from wildspec.loading import load
    from wildspec.serving.review_open import open_room
    from wildspec.serving.review_run import run_review

    choice("question rule", rule, sorted(QUESTION_RULES))
    named = model.resolve() if model.name in ("", "..") else model  # beside the folder, not in it: of "." too
    out = Path(f"{named}.reviewed") if out is None else out
    check_target(out)
    if log is not None:
        check_outside(log, "--log")
    room, told_first = open_room(load(model), named, out, log=log, wild=wild, images=images, rule=rule, promise=promise)
    if told_first:
        typer.echo(told_first, err=True)
    told = run_review(room, port=port, browser=browser, say=lambda line: typer.echo(line, err=True))
    if not told["written"]:
        _say(as_json, {"out": None, "answers": 0}, f"{told['said']} Next:  wildspec review {quote(str(model))}")
        return
    _say(
        as_json, {"out": str(out), "answers": told["samples"], "log": str(room.log.path), "after": told["facts"]},
        f"{told['said']} {told['line']}\nNext:  {told['next']}   or go on:  wildspec review {quote(str(model))}",
    )  # fmt: skip


def _say(as_json: bool, record: dict[str, Any], text: str) -> None:
    import json

    typer.echo(json.dumps(record, indent=2) if as_json else text)
