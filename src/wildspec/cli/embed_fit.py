"""``wildspec embed-fit``: tables of labelled and wild embeddings, of any size, to a model bundle."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

app = typer.Typer()


@app.command(
    "embed-fit",
    epilog="Example:  wildspec embed-fit LABELLED.parquet WILD.parquet --out MODEL   |   "
    "wildspec score MODEL DATA.parquet --out scores.parquet",
)
def embed_fit(
    labelled: Annotated[Path, typer.Argument(help="Labelled embeddings: parquet, .npz; column label.")],
    wild: Annotated[Path, typer.Argument(help="Wild embeddings: parquet (a file or a folder), .npz, .npy.")],
    out: Annotated[Path, typer.Option(help="Bundle to write; one that is there is replaced.")],
    max_rows: Annotated[
        int, typer.Option(min=100, help="Samples kept of each table: a larger one is streamed and sampled.")
    ] = 1_000_000,
    alpha: Annotated[float, typer.Option(help="Share of known samples that may be rejected by mistake.")] = 0.05,
    neighbors: Annotated[int, typer.Option(min=2, help="Neighbours in the graph, the sample counted.")] = 10,
    components: Annotated[
        int | None, typer.Option(min=1, help="Leading eigenvectors kept; default: twice the classes, 16 to 128.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray (extra \\[ray]).")] = "local",
    seed: Annotated[int, typer.Option(min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Learn to classify and to reject from embeddings; no training. No more than --max-rows of a table is in memory."""
    from wildspec.bundle import check_target
    from wildspec.cli.fit import finite
    from wildspec.data.embeddings import EmbeddingTable
    from wildspec.data.sampled_rows import sample_rows
    from wildspec.errors import InputError
    from wildspec.estimators.spectral_classifier import SpectralClassifier

    check_target(out)
    known, pool = EmbeddingTable(labelled), EmbeddingTable(wild)
    if known.labels is None:
        raise InputError(f"{labelled} has no labels; expected a column or array named label")
    if known.width != pool.width:
        widths = f"{labelled} holds vectors of {known.width} numbers, {wild} of {pool.width}"
        raise InputError(f"{widths}; use one model for both")
    rows, places = sample_rows(known, max_rows, seed)
    extra, _ = sample_rows(pool, max_rows, seed + 1)
    model = SpectralClassifier(
        n_components=components, n_neighbors=neighbors, alpha=alpha, engine=engine, random_state=seed
    ).fit(rows, known.labels[places], X_wild=extra)
    model.save(out)
    record: dict[str, Any] = {
        "out": str(out), "classes": [str(name) for name in model.classes_.tolist()], "labelled": len(known),
        "labelled_used": len(rows), "wild": len(pool), "wild_used": len(extra), "threshold": finite(model.threshold_),
        "shifted_share": model.shifted_share_, "unknown_share": model.unknown_share_, "recall": model.recall_,
    }  # fmt: skip
    if as_json:
        import json

        typer.echo(json.dumps(record, indent=2))
        return
    typer.echo(f"{len(rows):,} of {len(known):,} labelled samples, {len(extra):,} of {len(pool):,} wild ones")
    typer.echo(
        f"estimated: {model.shifted_share_:.0%} of the wild ones are shifted, "
        f"{model.unknown_share_:.0%} are of no known class"
    )
    typer.echo(f"{out} written. Next:  wildspec score {quote(str(out))} DATA.parquet --out scores.parquet")
