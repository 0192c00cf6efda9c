"""``wildspec score``: a bundle and any number of images to a table of decisions."""

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer()


@app.command(
    "score",
    epilog="Example:  wildspec score MODEL DIR --out scores.csv   |   wildspec score MODEL a.jpg b.png c.parquet "
    "--out scores.parquet   |   wildspec score MODEL embeddings.parquet --out scores.parquet",
)
def score(
    model: Annotated[Path, typer.Argument(help="Bundle of wildspec fit.")],
    images: Annotated[list[str], typer.Argument(help="Image files, folders, parquet; embeddings for such a model.")],
    out: Annotated[Path, typer.Option(help="Table to write: .csv or .parquet.")],
    neighbours: Annotated[int, typer.Option(min=0, help="Nearest labelled training images to name.")] = 3,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Decide about every image: class or rejected, score, p-value, nearest neighbours; order kept, memory bounded.

    Exit status 0: done; 1: done, but some inputs could not be read (their rows say why); 2: could not do it.
    """
    from wildspec.bundle import load
    from wildspec.serving.rows import check_output

    check_output(out)
    estimator = load(model, device=device)
    counts = _score(estimator, images, out, neighbours, show=not as_json)
    if as_json:
        import json

        typer.echo(json.dumps({"out": str(out), **counts}, indent=2))
    else:
        total = counts["rows"]
        typer.echo(
            f"{out}: {total:,} rows, {counts['kept']:,} kept, {counts['rejected']:,} rejected, "
            f"{counts['unreadable']:,} unreadable"
        )
    raise typer.Exit(1 if counts["unreadable"] else 0)


def _score(estimator: Any, given: list[str], out: Path, neighbours: int, *, show: bool) -> dict[str, int]:
    from wildspec.cli.progress import counting
    from wildspec.serving import bulk
    from wildspec.serving.inputs import open_embeddings, open_inputs
    from wildspec.serving.rows import row_writer

    on_images = hasattr(estimator, "fitted_")
    sources: list[Any] = list(open_inputs(given) if on_images else open_embeddings(given, estimator.n_features_in_))
    score = bulk.score_sources if on_images else bulk.score_tables
    counts = {"rows": 0, "kept": 0, "rejected": 0, "unreadable": 0}
    with row_writer(out) as writer, counting("scoring", sum(map(len, sources)), show) as advance:
        for rows in score(estimator, sources, neighbours=neighbours):
            writer.write(rows)
            counts["rows"] += len(rows)
            for row in rows:
                kind = "unreadable" if row["error"] is not None else "rejected" if row["decision"] == "rejected" else "kept"
                counts[kind] += 1
            advance(len(rows))
    return counts
