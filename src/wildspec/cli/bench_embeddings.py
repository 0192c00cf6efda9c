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
    """Known classes in one domain, the same and unknown ones in another: every pair, every baseline, one table.

    Exit status 0: every bar of the embeddings route is met; 1: not all; 2: could not run.
    """
    from wildspec.bench.embedding_methods import METHODS
    from wildspec.bench.embedding_tables import ablation_table, bars, markdown
    from wildspec.errors import InputError
    from wildspec.files import read_json, write_json

    if table is None and (data is None or out is None):
        raise InputError("give --data FILE.npz and --out RESULTS.json to run, or --table RESULTS.json to print tables")
    if table is None:
        assert data is not None
        assert out is not None
        records = _run(data, out, seeds, mixture.split(","), methods)
    else:
        records = read_json(table)["records"]
    mixtures = list(dict.fromkeys(record["mixture"] for record in records))
    whole = all(any(r["method"] == "spectral" and r["mixture"] == m for r in records) for m in mixtures)
    rivals = any(r["method"] in METHODS and not METHODS[r["method"]].ours for r in records)
    if not rivals and any(":" in r["method"] for r in records):
        typer.echo(ablation_table(records))
        return
    if not (whole and rivals):
        typer.echo(f"{len(records)} records; a table needs the method spectral and at least one other")
        raise typer.Exit(1)
    found = {name: bars(records, name) for name in mixtures}
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        for name in mixtures:
            typer.echo(f"## Mixture: {name}\n\n{markdown(records, name)}")
    if out is not None and table is None:
        document = read_json(out)
        write_json(out, {**document, "bars": found})
    raise typer.Exit(0 if all(entry["met"] for entries in found.values() for entry in entries) else 1)


def _run(data: Path, out: Path, seeds: int, mixtures: list[str], methods: str | None) -> list[dict[str, Any]]:
    from wildspec.bench.embedding_theory import all_strengths
    from wildspec.bench.pacs_embeddings import load_embeddings, run
    from wildspec.errors import DataError
    from wildspec.files import read_json, write_json
    from wildspec.provenance import environment

    embeddings = load_embeddings(data)
    done, strengths = [], None
    if out.exists():
        earlier = read_json(out)
        if earlier.get("data_sha256") != embeddings.sha256:
            raise DataError(f"{out} holds results of another data file; choose another --out")
        done, strengths = earlier["records"], earlier.get("strengths")

    def keep(records: list[dict[str, Any]]) -> None:
        document = {"environment": environment(), "data_sha256": embeddings.sha256, "records": records}
        write_json(out, document | ({"strengths": strengths} if strengths else {}))

    names = None if methods is None else [name.strip() for name in methods.split(",")]
    if strengths is None:
        strengths = all_strengths(embeddings)
        typer.echo("alpha and beta of every pair measured", err=True)
    return run(
        embeddings, seeds=range(seeds), mixtures=[m.strip() for m in mixtures], methods=names, done=done, keep=keep,
        say=lambda text: typer.echo(text, err=True),
    )  # fmt: skip
