"""``wildspec bench pacs-embeddings``: the embeddings route against scikit-learn and detectors, all pairs of domains."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared


def pacs_embeddings(
    data: Annotated[Path | None, typer.Option(help="The .npz file with features, labels, domain.")] = None,
    out: Annotated[Path | None, typer.Option(help="JSON with all records; give it again to resume.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 5,
    mixture: Annotated[str, typer.Option(help="all, paper, or both separated by a comma.")] = "all,paper",
    methods: Annotated[
        str | None, typer.Option(help="Some methods only, separated by commas; spectral:NAME=VALUE+... changes parameters.")
    ] = None,
    table: Annotated[Path | None, typer.Option(help="Print the tables of this JSON and run nothing.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Known classes in one domain, the same and unknown ones in another: every pair, every baseline, one table."""
    from wildspec.bench.embedding_tables import markdown, summarize
    from wildspec.errors import InputError
    from wildspec.files import read_json

    if table is None:
        if data is None or out is None:
            raise InputError("give --data FILE.npz and --out RESULTS.json to run, or --table RESULTS.json to print tables")
        records = _run(data, out, seeds, mixture.split(","), methods)
    else:
        records = read_json(table)["records"]
    mixtures = list(dict.fromkeys(record["mixture"] for record in records))
    if as_json:
        means = {
            name: {method: {metric: mean for metric, (mean, _) in row.items()} for method, row in found.items()}
            for name, found in ((each, summarize(records, each)) for each in mixtures)
        }
        typer.echo(json.dumps({"means": means}, indent=2))
        return
    for name in mixtures:
        typer.echo(f"## Mixture: {name}\n\n{markdown(records, name)}")


def _run(data: Path, out: Path, seeds: int, mixtures: list[str], methods: str | None) -> list[dict[str, Any]]:
    from wildspec.bench.pacs_embeddings import load_embeddings, run
    from wildspec.errors import DataError
    from wildspec.files import read_json, write_json
    from wildspec.provenance import environment

    embeddings = load_embeddings(data)
    earlier: dict[str, Any] = {"records": []}
    if out.exists():
        earlier = read_json(out)
        if earlier.get("data_sha256") != embeddings.sha256:
            raise DataError(f"{out} holds results of another data file; choose another --out")

    def keep(records: list[dict[str, Any]]) -> None:
        write_json(out, {**earlier, "environment": environment(), "data_sha256": embeddings.sha256, "records": records})

    names = None if methods is None else [name.strip() for name in methods.split(",")]
    return run(
        embeddings, seeds=range(seeds), mixtures=[m.strip() for m in mixtures], methods=names, done=earlier["records"],
        keep=keep, say=lambda text: typer.echo(text, err=True),
    )  # fmt: skip
