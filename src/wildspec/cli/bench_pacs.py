"""``wildspec bench pacs-embeddings`` and ``pacs-open-set``: rows or images, every pair of domains, one table."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_json

Data = Annotated[Path | None, typer.Option(help="The .npz file with features, labels, domain.")]
Out = Annotated[Path | None, typer.Option(help="JSON with all records; give it again to resume.")]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds.")]
Table = Annotated[Path | None, typer.Option(help="Print the tables of this JSON and run nothing.")]
Records = list[dict[str, Any]]


def pacs_embeddings(
    data: Data = None,
    out: Out = None,
    seeds: Seeds = 5,
    mixture: Annotated[str, typer.Option(help="all, paper, or both separated by a comma.")] = "all,paper",
    methods: Annotated[str | None, typer.Option(help="Some methods only, separated by commas.")] = None,
    table: Table = None,
    as_json: shared.AsJson = False,
) -> None:
    """Known classes in one domain, the same and unknown ones in another: every pair, every baseline, one table."""
    from wildspec.bench.pacs_embeddings import run

    more = {"seeds": range(seeds), "mixtures": shared.words(mixture), "methods": shared.words(methods) or None}
    _show(_records(run, data, out, table, more), as_json)


def pacs_open_set(
    data: Annotated[
        Path | None,
        typer.Option(help="The .npz file with features, labels, domain; or the folder that holds pacs160: networks."),
    ] = None,
    out: Out = None,
    seeds: Seeds = 3,
    choices: Annotated[int, typer.Option(min=1, max=3, help="How many choices of known classes.")] = 3,
    setting: Annotated[str, typer.Option(help="transductive, inductive, or both separated by a comma.")] = (
        "transductive,inductive"
    ),
    systems: Annotated[str | None, typer.Option(help="Some systems only, separated by commas.")] = None,
    again: Annotated[
        str | None, typer.Option(help="Systems whose records are thrown away and made again, separated by commas.")
    ] = None,
    device: shared.Device = "auto",
    scale: Annotated[float, typer.Option(help="Of networks: factor on the epochs of every stage.")] = 1.0,
    cache: Annotated[Path | None, typer.Option(help="Of networks: where decoded images are kept.")] = None,
    table: Table = None,
    as_json: shared.AsJson = False,
) -> None:
    """Known classes in one domain, the same and unknown ones in another, each system by its own decision: OS*, UNK, HOS."""
    from wildspec.bench.open_set_networks import TaskTrainer, network_systems
    from wildspec.bench.open_set_systems import SYSTEMS
    from wildspec.bench.pacs_images import load_pacs_images
    from wildspec.bench.pacs_open_set import CHOICES, run
    from wildspec.checks import choice

    known, load, factor = SYSTEMS, None, 1.0  # rows have no epochs
    if data is not None and out is not None and data.is_dir():
        factor, known = scale, network_systems(TaskTrainer(device, scale))
        load = partial(load_pacs_images, cache=cache or out.with_suffix(".images"))
    more = {
        "seeds": range(seeds), "settings": shared.words(setting), "systems": shared.words(systems) or None,
        "choices": CHOICES[:choices], "known": known, "scale": factor,
    }  # fmt: skip
    thrown = [choice("system", name, known) for name in shared.words(again)]
    _show(_records(run, data, out, table, more, thrown, load), as_json)


def _records(
    run: Callable[..., Records], data: Path | None, out: Path | None, table: Path | None, more: dict[str, Any],
    thrown: Sequence[str] = (), load: Callable[[Path], Any] | None = None,
) -> Records:  # fmt: skip
    """Those of ``table``, or those of ``out`` and what is missing in it; without those of the systems ``thrown`` that are of
    the scale that is run. ``load``: reads the data, where they are no rows."""
    from wildspec.bench.pacs_embeddings import load_embeddings
    from wildspec.errors import DataError, InputError
    from wildspec.files import write_json
    from wildspec.provenance import environment

    if table is not None:
        return _kept(table)["records"]
    if data is None or out is None:
        raise InputError("give --data FILE.npz and --out RESULTS.json to run, or --table RESULTS.json to print tables")
    source = (load or load_embeddings)(data)
    earlier = _kept(out) if out.exists() else {"data_sha256": source.sha256, "records": []}
    if earlier.get("data_sha256") != source.sha256:
        raise DataError(f"{out} holds results of another data file; choose another --out")
    document = {**earlier, "environment": environment()}
    scale = more.get("scale", 1)
    kept = [one for one in earlier["records"] if one.get("system") not in thrown or one.get("scale", 1) != scale]
    return run(
        source, **more, done=kept,
        keep=lambda records: write_json(out, {**document, "records": records}),
        say=lambda text: typer.echo(text, err=True),
    )  # fmt: skip


def _kept(path: Path) -> dict[str, Any]:
    """What an earlier run wrote."""
    from wildspec.errors import DataError
    from wildspec.files import read_json

    found = read_json(path)
    records = found.get("records") if isinstance(found, dict) else None
    if not isinstance(records, list) or not all(map(_is_record, records)):
        raise DataError(f"{path} holds no results of this bench (a list under records); give a file that its --out wrote")
    kept: dict[str, Any] = found
    return kept


def _is_record(value: Any) -> bool:
    named = ({"method", "mixture"}, {"system", "setting"})
    return isinstance(value, dict) and {"seed", "metrics"} <= value.keys() and any(one <= value.keys() for one in named)


def _show(records: Records, as_json: bool) -> None:
    from wildspec.bench.pacs_tables import markdown, parts, summarize

    if as_json:
        means = {
            part: {name: {metric: mean for metric, (mean, _) in row.items()} for name, row in found.items()}
            for part, found in ((each, summarize(records, each)) for each in parts(records))
        }
        print_json({"means": means})
        return
    for part in parts(records):
        typer.echo(f"## {part}\n\n{markdown(records, part)}")
