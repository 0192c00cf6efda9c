"""``wildspec score``: a bundle and any number of images to a table of decisions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_json

app = typer.Typer()


@app.command(
    "score",
    epilog="Example:  wildspec score MODEL DIR --out scores.csv   |   wildspec score MODEL DIR --top-k 50 "
    "--out review.csv   |   wildspec score MODEL a.jpg b.png c.parquet --out scores.parquet"
    "   |   wildspec score MODEL embeddings.parquet --out scores.parquet",
)
def score(
    model: shared.Model,
    images: Annotated[list[str], typer.Argument(help="Image files, folders, parquet; embeddings for such a model.")],
    out: Annotated[Path, typer.Option(help="Table to write: .csv or .parquet.")],
    neighbours: Annotated[int, typer.Option(min=0, help="Nearest labelled training images to name.")] = 3,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Write only as many rows, the most unlike the labelled images first.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray: many machines, same rows (extra \\[ray]).")] = "local",
    device: shared.Device = "auto",
    as_json: shared.AsJson = False,
) -> None:
    """Decide about every image: class or rejected, score, p-value, nearest neighbours; order kept, memory bounded.

    With --top-k 50: a list of what to look at first.

    Exit status 0: done; 1: done, but some inputs could not be read (their rows say why); 2: could not do it; 70: a defect of
    wildspec, with a file to report it by.
    """
    from wildspec.bundle.manifest import check_bundle
    from wildspec.checks import choice
    from wildspec.data.paths import check_there

    check_bundle(model)
    for item in images:
        check_there(item, files=True)
    choice("engine", engine, ("local", "ray"))
    from wildspec.loading import load
    from wildspec.serving.rows import check_output

    check_output(out)
    estimator = load(model, device=device)
    total, blocks = _blocks(model, estimator, images, neighbours, engine, device)
    counts = _write(blocks, total, out, top_k, show=not as_json)
    if as_json:
        print_json({"out": str(out), **counts})
    else:
        if hasattr(estimator, "fitted_"):
            from wildspec.data.inputs import in_words, not_read, passed_over

            if told := in_words([path for item in images for path in not_read(item)], "file"):
                typer.echo(told)
            if told := passed_over(images):
                typer.echo(told)
        total = counts["rows"]
        rows = f"{total:,} row{'' if total == 1 else 's'}"
        found = f"{counts['kept']:,} kept, {counts['rejected']:,} rejected, {counts['unreadable']:,} unreadable"
        if top_k is None:
            typer.echo(f"{out}: {rows}, {found}")
        else:
            typer.echo(f"{out}: the {counts['written']:,} most unlike the labelled ones of {rows} ({found})")
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
    blocks: Iterator[list[dict[str, Any]]], total: int, out: Path, top_k: int | None, *, show: bool
) -> dict[str, int]:
    from wildspec.serving.rows import row_writer, top_rows
    from wildspec.training.counting import counting

    counts = {"rows": 0, "kept": 0, "rejected": 0, "unreadable": 0}
    chosen: list[dict[str, Any]] = []
    with row_writer(out) as writer, counting("scoring", total, show) as advance:
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
            advance(len(rows))
        if top_k is not None:
            chosen = top_rows(chosen, top_k)
            writer.write(chosen)
            counts["written"] = len(chosen)
    return counts
