"""``wildspec embed-fit``: tables of labelled and wild embeddings, of any size, to a model bundle."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.answers import EarlierAnswers
from wildspec.cli.printing import print_json, print_next

app = typer.Typer()


@app.command(
    "embed-fit",
    epilog="Example:\n\nwildspec embed-fit LABELLED.parquet WILD.parquet --out MODEL\n\n"
    "wildspec score MODEL DATA.parquet --out scores.parquet",
)
def embed_fit(
    labelled: Annotated[Path, typer.Argument(help="Labelled embeddings: parquet, CSV or .npz, with a column label.")],
    wild: Annotated[Path, typer.Argument(help="Wild embeddings: parquet (a file or a folder), CSV, .npz, .npy.")],
    out: Annotated[Path, typer.Option(help="Bundle to write; one that is there is replaced.")],
    max_rows: Annotated[
        int, typer.Option(min=100, help="Samples kept of each table: a larger one is streamed and sampled.")
    ] = 1_000_000,
    alpha: shared.Alpha = 0.05,
    shift: shared.Shift = None,
    per_class: shared.PerClass = False,
    neighbours: Annotated[
        int, typer.Option(min=2, help="Neighbours of a sample in the graph of the pool; it counts as one of them.")
    ] = 10,
    neighbors: Annotated[int | None, typer.Option(min=2, hidden=True)] = None,  # as scikit-learn spells it
    components: Annotated[
        int | None, typer.Option(min=1, help="Leading eigenvectors kept; default: two for each class, but 32 to 128.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray (extra \\[ray]).")] = "local",
    seed: Annotated[
        int, typer.Option(min=0, max=shared.MOST_SEED, help="Of the sample of a large table, and of what is held out.")
    ] = 0,
    answers: shared.Answers = None,
    as_json: shared.AsJson = False,
) -> None:
    """Learn to classify and to reject from labelled and wild embeddings; write one bundle. No network is trained.

    Tables larger than memory are streamed: no more than --max-rows of each are kept.
    """
    from wildspec.bundle.target import check_target
    from wildspec.data.paths import EMBEDDINGS, check_there

    check_target(out)
    for item in (labelled, wild):
        check_there(item, EMBEDDINGS)
    earlier = EarlierAnswers(answers, "row", wild)
    fit_embeddings(
        labelled, wild, out, earlier, as_json, max_rows, seed=seed, n_components=components,
        n_neighbors=neighbours if neighbors is None else neighbors, alpha=alpha, engine=engine, per_class=per_class,
        shift="auto" if shift is None else shift,
    )  # fmt: skip


def fit_embeddings(
    labelled: str | Path, wild: str | Path | None, out: Path, earlier: EarlierAnswers, as_json: bool,
    max_rows: int | None = None, *, seed: int, **params: Any,
) -> None:  # fmt: skip
    """Fit a `SpectralClassifier` with ``params``, save it and say what came of it; ``max_rows`` None: all rows are kept."""
    from wildspec.data.embeddings import EmbeddingTable
    from wildspec.decision.shift import FEWEST
    from wildspec.embeddings.table_fit import fit_tables, shares_in_words
    from wildspec.files import plain
    from wildspec.report.words import class_words, shift_in_words

    known, pool = EmbeddingTable(labelled), None if wild is None else EmbeddingTable(wild)
    found = fit_tables(known, pool, max_rows, seed, **params)
    model = found.model
    taught = earlier.teach(model, out, lambda: model.save(out))
    model.save(out)
    if as_json:
        rejects = abs(model.threshold_) != float("inf")  # JSON has no infinity
        print_json({
            "out": str(out), "classes": [str(name) for name in model.classes_.tolist()], "labelled": found.labelled,
            "labelled_used": found.labelled_used, "wild": found.wild, "wild_used": found.wild_used,
            "wild_rejected": found.rejected,
            "threshold": float(model.threshold_) if rejects else None, "shifted_share": model.shifted_share_,
            "unknown_share": model.unknown_share_, "recall": model.recall_, **earlier.counts(),
            "per_class": model.per_class, "held_out_classes": [one.to_json() for one in model.class_rates_ or ()],
        })  # fmt: skip
        return
    typer.echo(
        f"{found.labelled_used:,} of {found.labelled:,} labelled samples of {len(model.classes_)} classes, "
        f"{found.wild_used:,} of {found.wild:,} wild ones"
    )
    for told in (found.left_out(), taught):
        if told:
            typer.echo(told)
    if model.n_wild_:
        classes = len(model.classes_)
        typer.echo(f"wild: {found.rejected:,} of {found.wild_used:,} samples look like none of your {classes} classes")
        typer.echo(f"estimated, of all wild samples: {shares_in_words(model)}")
        if said := shift_in_words(model.thresholds_.raised(model.model_), "samples"):
            typer.echo(said)
    typer.echo(plain(class_words(model.class_rates_ or [], model.calibration_, float(model.alpha), "samples")))
    typer.echo(f"{out} written. Next:")
    asks = (f"review {{}} --wild {quote(str(wild))}",) if model.n_wild_ >= FEWEST else ()
    print_next(out, "score {} DATA.parquet --out scores.parquet", "report {} --data DATA.parquet --out report.html", *asks)
