"""``wildspec bench pacs-open-set``: open-set domain adaptation, rows or images, all pairs of domains, choices of classes."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared


def pacs_open_set(
    data: Annotated[
        Path | None,
        typer.Option(help="The .npz file with features, labels, domain; or the folder that holds pacs160: networks."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="JSON with all records; give it again to resume.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 3,
    choices: Annotated[int, typer.Option(min=1, max=3, help="How many choices of known classes.")] = 3,
    setting: Annotated[str, typer.Option(help="transductive, inductive, or both separated by a comma.")] = (
        "transductive,inductive"
    ),
    systems: Annotated[str | None, typer.Option(help="Some systems only, separated by commas.")] = None,
    again: Annotated[
        str | None, typer.Option(help="Systems whose records are thrown away and made again, separated by commas.")
    ] = None,
    device: Annotated[str, typer.Option(help="Of networks: auto, cpu, cuda or cuda:N.")] = "auto",
    scale: Annotated[float, typer.Option(help="Of networks: factor on the epochs of every stage.")] = 1.0,
    cache: Annotated[Path | None, typer.Option(help="Of networks: where decoded images are kept.")] = None,
    table: Annotated[Path | None, typer.Option(help="Print the tables of this JSON and run nothing.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Known classes in one domain, the same and unknown ones in another, each system by its own decision: OS*, UNK, HOS."""
    from wildspec.bench.open_set_tables import markdown, summarize
    from wildspec.errors import InputError
    from wildspec.files import read_json

    if table is None:
        if data is None or out is None:
            raise InputError("give --data FILE.npz and --out RESULTS.json to run, or --table RESULTS.json to print tables")
        source, known = _source(data, cache or out.with_suffix(".images"), device, scale)
        records = _run(source, known, out, seeds, choices, _words(setting), systems, _words(again))
    else:
        records = read_json(table)["records"]
    settings = list(dict.fromkeys(record["setting"] for record in records))
    if as_json:
        means = {
            name: {system: {metric: mean for metric, (mean, _) in row.items()} for system, row in found.items()}
            for name, found in ((each, summarize(records, each)) for each in settings)
        }
        typer.echo(json.dumps({"means": means}, indent=2))
    else:
        for name in settings:
            typer.echo(f"## {name}\n\n{markdown(records, name)}")


def _words(text: str | None) -> list[str]:
    return [] if text is None else [word.strip() for word in text.split(",")]


def _source(data: Path, cache: Path, device: str, scale: float) -> tuple[Any, dict[str, Any]]:
    """Rows and the systems for rows, or images and the systems for images."""
    if data.is_dir():
        from wildspec.bench.open_set_networks import TaskTrainer, network_systems
        from wildspec.bench.pacs_images import load_pacs_images

        return load_pacs_images(data, cache), network_systems(TaskTrainer(device, scale))
    from wildspec.bench.open_set_systems import SYSTEMS
    from wildspec.bench.pacs_embeddings import load_embeddings

    return load_embeddings(data), SYSTEMS


def _run(
    source: Any, known: dict[str, Any], out: Path, seeds: int, choices: int, settings: list[str], systems: str | None,
    again: list[str],
) -> list[dict[str, Any]]:  # fmt: skip
    from wildspec.bench.pacs_open_set import CHOICES, run
    from wildspec.checks import choice
    from wildspec.errors import DataError
    from wildspec.files import read_json, write_json
    from wildspec.provenance import environment

    done = []
    if out.exists():
        earlier = read_json(out)
        if earlier.get("data_sha256") != source.sha256:
            raise DataError(f"{out} holds results of another data file; choose another --out")
        done = [record for record in earlier["records"] if record["system"] not in again]
    for name in again:
        choice("system", name, known)

    document = {"environment": environment(), "data_sha256": source.sha256}

    def keep(records: list[dict[str, Any]]) -> None:
        write_json(out, {**document, "records": records})

    return run(
        source, seeds=range(seeds), settings=settings, systems=_words(systems) or None, known=known,
        choices=CHOICES[:choices], done=done, keep=keep, say=lambda text: typer.echo(text, err=True),
    )  # fmt: skip
