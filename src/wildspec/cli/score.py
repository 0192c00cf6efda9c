"""``wildspec score``: a bundle and any number of images to a table of decisions."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_json
from wildspec.files import plain

app = typer.Typer()
SHOWN = 50  # rows that are printed where no file is asked for


@app.command(
    "score",
    epilog="Example:\n\nwildspec score MODEL photo.jpg\n\nwildspec score MODEL DIR --out scores.csv\n\n"
    "wildspec score MODEL DIR --top-k 50 --out review.csv\n\n"
    "wildspec score MODEL a.jpg b.png c.parquet --out scores.parquet\n\n"
    "wildspec score MODEL embeddings.parquet --out scores.parquet",
)
def score(
    model: shared.Model,
    images: Annotated[list[str], typer.Argument(help="Image files, folders, parquet; for a model of embeddings tables.")],
    out: Annotated[
        Path | None, typer.Option(help="Table to write: .csv or .parquet. Without it decisions are printed.")
    ] = None,
    neighbours: Annotated[int, typer.Option(min=0, help="How many of the nearest labelled samples to name.")] = 3,
    neighbors: Annotated[int | None, typer.Option(min=0, hidden=True)] = None,  # as scikit-learn spells it
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Write only this many rows: what is most unlike the labelled samples, first.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray: many machines, same rows (extra \\[ray]).")] = "local",
    device: shared.Device = "auto",
    as_json: shared.AsJson = False,
) -> None:
    """Decide about every image, or row of embeddings: a class or rejected, with score, p-value and nearest neighbours.

    Rows come in the order given, and memory does not grow with their number. --top-k 50: a list of what to look at first.

    Exit status 0: done; 1: some inputs could not be read; 2: could not do it; 70: a defect of wildspec.
    """
    from wildspec.bundle.manifest import check_bundle, check_outside, is_bundle
    from wildspec.checks import choice
    from wildspec.data.paths import check_there
    from wildspec.errors import InputError

    if not is_bundle(model) and any(is_bundle(Path(item)) for item in images):
        raise InputError(f"score takes the model first, then the images; {model} is no model, one of the others is")
    check_bundle(model)
    for item in images:
        check_there(item, files=True)
    choice("engine", engine, ("local", "ray"))
    if out is not None:
        from wildspec.files import check_out
        from wildspec.serving.rows import check_output

        check_outside(check_output(out))
        check_out(out, *images)
    neighbours = neighbours if neighbors is None else neighbors
    from wildspec.loading import load
    from wildspec.serving.rows import row_writer

    estimator = load(model, device=device)
    total, blocks = _blocks(model, estimator, images, neighbours, engine, device)
    rows = _Printed(None if as_json else SHOWN)
    counts, unread = _write(blocks, total, nullcontext(rows) if out is None else row_writer(out), top_k, show=not as_json)
    if as_json:
        print_json({"out": str(out), **counts} if out is not None else {"out": None, **counts, "results": rows.kept})
    else:
        rows.show()
        if hasattr(estimator, "fitted_"):
            from wildspec.data.folder import not_read
            from wildspec.data.inputs import in_words, passed_over

            if told := in_words([path for item in images for path in not_read(item)], "file"):
                typer.echo(told)
            if told := passed_over(images):
                typer.echo(told)
        if unread is not None:
            first = "first " if counts["unreadable"] > 1 else ""
            typer.echo(f"{first}not read: {plain(unread['image'])}: {unread['error']}")
        total = counts["rows"]
        many = f"{total:,} row{'' if total == 1 else 's'}"
        found = f"{counts['kept']:,} kept, {counts['rejected']:,} rejected, {counts['unreadable']:,} unreadable"
        said = f"{many}, {found}"
        if top_k is not None:
            said = f"the {counts['written']:,} most unlike the labelled ones of {many} ({found})"
        typer.echo(f"{out}: {said}" if out is not None else said)
        if out is None and rows.left:
            typer.echo(f"the first {SHOWN} are shown; --out scores.csv writes all")
    raise typer.Exit(1 if counts["unreadable"] else 0)


def _blocks(
    bundle: Path, estimator: Any, given: list[str], neighbours: int, engine: str, device: str
) -> tuple[int, Iterator[list[dict[str, Any]]]]:
    """How many rows there will be, and the rows, block by block."""
    from wildspec.serving import bulk
    from wildspec.serving.inputs import open_embeddings, open_inputs

    if not hasattr(estimator, "fitted_"):
        tables = open_embeddings(given, estimator.n_features_in_)
        if engine == "ray":
            from wildspec.serving.ray_bulk import score_tables_on_ray

            return sum(map(len, tables)), score_tables_on_ray(bundle, tables, neighbours=neighbours)
        return sum(map(len, tables)), bulk.score_tables(estimator, tables, neighbours=neighbours)
    if engine == "ray":
        from wildspec.serving.ray_bulk import plan, score_on_ray

        total = sum(block.last - block.first for block in plan(given))
        return total, score_on_ray(bundle, given, neighbours=neighbours, device=device)
    sources = open_inputs(given)
    return sum(map(len, sources)), bulk.score_sources(estimator, sources, neighbours=neighbours)


def _write(
    blocks: Iterator[list[dict[str, Any]]], total: int, target: Any, top_k: int | None, *, show: bool
) -> tuple[dict[str, int], dict[str, Any] | None]:
    """How many rows there were of each kind, and the first that could not be read."""
    from wildspec.serving.rows import top_rows
    from wildspec.training.counting import counting

    counts = {"rows": 0, "kept": 0, "rejected": 0, "unreadable": 0}
    chosen: list[dict[str, Any]] = []
    unread = None
    with target as writer, counting("scoring", total, show) as advance:
        for rows in blocks:
            if top_k is None:
                writer.write(rows)
            else:
                chosen += rows
                if len(chosen) > 2 * top_k:  # not after every block: top_k may be large
                    chosen = top_rows(chosen, top_k)
            counts["rows"] += len(rows)
            for row in rows:
                kind = "unreadable" if row["error"] is not None else "rejected" if row["decision"] == "rejected" else "kept"
                counts[kind] += 1
                unread = row if unread is None and kind == "unreadable" else unread
            advance(len(rows))
        if top_k is not None:
            chosen = top_rows(chosen, top_k)
            writer.write(chosen)
            counts["written"] = len(chosen)
    return counts, unread


class _Printed:
    """Rows to be printed, at most ``limit`` of them; ``left``: how many more there were."""

    def __init__(self, limit: int | None) -> None:
        self.limit, self.left = limit, 0
        self.kept: list[dict[str, Any]] = []

    def write(self, rows: list[dict[str, Any]]) -> None:
        room = len(rows) if self.limit is None else self.limit - len(self.kept)
        self.kept += rows[:room]
        self.left += max(0, len(rows) - room)

    def show(self) -> None:
        """One line a row, its name last, so that it is never broken; those that could not be read are told elsewhere."""
        good = [row for row in self.kept if row["error"] is None]
        if not good:
            return
        titles = ("decision", "likely class", "probability", "score", "p-value")
        lines = [
            (plain(row["decision"]), plain(row["likely"]), f"{row['probability']:.2f}", f"{row['ood_score']:.2f}",
             f"{row['p_value']:.3f}")
            for row in good
        ]
        widths = [max(map(len, column)) for column in zip(titles, *lines, strict=True)]
        for cells, name in zip([titles, *lines], ["image", *(plain(row["image"]) for row in good)], strict=True):
            words = [cell.ljust(width) for cell, width in zip(cells[:2], widths, strict=False)]
            figures = [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True)]
            typer.echo("  ".join([*words, *figures, name]))
