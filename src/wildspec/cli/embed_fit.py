"""``wildspec embed-fit``: tables of labelled and wild embeddings, of any size, to a model bundle."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared

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
    per_class: shared.PerClass = False,
    neighbors: Annotated[int, typer.Option(min=2, help="Neighbours in the graph, the sample counted.")] = 10,
    components: Annotated[
        int | None, typer.Option(min=1, help="Leading eigenvectors kept; default: twice the classes, 16 to 128.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray (extra \\[ray]).")] = "local",
    seed: Annotated[int, typer.Option(min=0)] = 0,
    answers: shared.Answers = None,
    as_json: shared.AsJson = False,
) -> None:
    """Learn to classify and to reject from embeddings; no training. No more than --max-rows of a table is in memory."""
    from wildspec.bundle.target import check_target
    from wildspec.cli.answers import EarlierAnswers
    from wildspec.data.paths import EMBEDDINGS, check_there

    check_target(out)
    for item in (labelled, wild):
        check_there(item, EMBEDDINGS)
    earlier = EarlierAnswers(answers, "row", wild)
    from wildspec.cli.fit import class_words, finite
    from wildspec.data.embeddings import EmbeddingTable
    from wildspec.decision.shift import FEWEST
    from wildspec.embeddings.table_fit import fit_tables, shares_in_words

    known, pool = EmbeddingTable(labelled), EmbeddingTable(wild)
    found = fit_tables(
        known, pool, max_rows, seed, n_components=components, n_neighbors=neighbors, alpha=alpha, engine=engine,
        per_class=per_class,
    )  # fmt: skip
    model = found.model
    taught = earlier.teach(model, out, lambda: model.save(out))
    model.save(out)
    record: dict[str, Any] = {
        "out": str(out), "classes": [str(name) for name in model.classes_.tolist()], "labelled": len(known),
        "labelled_used": found.labelled_used, "wild": len(pool), "wild_used": found.wild_used,
        "threshold": finite(model.threshold_), "shifted_share": model.shifted_share_,
        "unknown_share": model.unknown_share_, "recall": model.recall_, **earlier.counts(),
        "per_class": per_class, "held_out_classes": [one.to_json() for one in model.class_rates_ or ()],
    }  # fmt: skip
    if as_json:
        import json

        typer.echo(json.dumps(record, indent=2))
        return
    typer.echo(
        f"{found.labelled_used:,} of {len(known):,} labelled samples, {found.wild_used:,} of {len(pool):,} wild ones"
    )
    for told in (found.left_out(), taught):
        if told:
            typer.echo(told)
    typer.echo(f"wild samples, estimated: {shares_in_words(model)}")
    typer.echo(class_words(model.class_rates_ or [], model.calibration_, alpha, "samples"))
    typer.echo(f"{out} written. Next:")
    typer.echo(f"  wildspec score {quote(str(out))} DATA.parquet --out scores.parquet")
    if model.n_wild_ >= FEWEST:
        typer.echo(f"  wildspec review {quote(str(out))} --wild {quote(str(wild))}")
