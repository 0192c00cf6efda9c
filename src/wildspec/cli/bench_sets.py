"""``wildspec bench sets``: the data sets of the paper's experiments: where they come from, layout, number, checksums."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wildspec.cli import options as shared
from wildspec.cli.printing import print_json

if TYPE_CHECKING:
    from wildspec.bench.protocols import Protocol


def sets(
    names: Annotated[list[str] | None, typer.Argument(help="Protocols or data sets; default: every data set.")] = None,
    data: Annotated[Path | None, typer.Option(help="Also say which are in this folder.")] = None,
    own: Annotated[
        Path | None, typer.Option("--protocol", help="JSON file with what differs from the protocol named, as for a run.")
    ] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Say where each data set comes from, how to lay it out, how many images it has, and its checksums."""
    from wildspec.bench.store import Store

    store = None if data is None else Store(data, data / "no-cache")
    rows = [_row(name, splits) for name, splits in _chosen(names or [], own).items()]
    for row in rows if store is not None else ():
        for split, facts in row["splits"].items():
            facts["there"] = store.available(row["set"], split)  # type: ignore[union-attr]
    if as_json:
        print_json(rows)
    else:
        typer.echo("\n\n".join(map(_text, rows)))


def _row(name: str, read: list[str]) -> dict[str, Any]:
    """What is known of a set; ``read``: splits that a protocol reads, of which the catalog may lack some, or the set."""
    from wildspec.data import data_sets

    entry = data_sets().get(name)
    row: dict[str, Any] = {
        "set": name, "title": "a set of your own", "source": "you: it is not in the catalog", "splits": {}, "checksums": {},
        "note": "Number and checksums of the files read are kept in the records.",
    }  # fmt: skip
    if entry is not None:
        row |= {"title": entry.title, "source": entry.source, "note": entry.note}
        row["checksums"] = {file: digest for split in entry.splits for file, digest in entry.checksums(split).items()}
        row["splits"] = {
            split: {"layout": entry.layout(split), "images": [version.count for version in info.versions]}
            for split, info in entry.splits.items()
        }
    for split in read:
        anywhere = f"{split}-*.parquet (columns image, label) or image files in {split}/, {split}/<class>/"
        row["splits"].setdefault(split, {"layout": anywhere, "images": []})
    return row


def _chosen(names: list[str], own: Path | None) -> dict[str, list[str]]:
    """Set -> splits; names of protocols stand for the sets they read, ``own`` for one based on the protocol named."""
    from wildspec.bench.own_protocol import own_protocol
    from wildspec.bench.protocols import protocol_names
    from wildspec.checks import choice
    from wildspec.data import data_sets
    from wildspec.errors import InputError

    if own is not None and len(names) != 1:
        raise InputError(
            f"--protocol needs the one protocol it is based on, as in: bench sets cifar10 --protocol {own}; "
            f"got {' '.join(names) or 'none'}"
        )
    found: dict[str, list[str]] = {} if names else {name: [] for name in data_sets()}
    for name in names:
        choice("name", name, [*protocol_names(), *(other for other in data_sets() if other not in protocol_names())])
        # cifar10 and office-home are both a protocol and a set: the protocol reads the set
        found |= _splits(own_protocol(own, name)) if own is not None or name in protocol_names() else {name: []}
    return found


def _splits(made: "Protocol") -> dict[str, list[str]]:
    from wildspec.bench.prepare import needed_splits

    found: dict[str, list[str]] = {}
    for entry in made.semantic:
        for name, split in needed_splits(made, entry.name):
            splits = found.setdefault(name, [])
            splits += [split] if split not in splits else []
    return found


def _text(row: dict[str, Any]) -> str:
    lines = [f"{row['set']}: {row['title']}", f"  from    {row['source']}"]
    for info in row["splits"].values():
        count = " or ".join(f"{number:,}" for number in info["images"]) or "any number of"
        there = {True: ", here", False: ", not here", None: ""}[info.get("there")]
        lines.append(f"  layout  {row['set']}/ with {info['layout']}: {count} images{there}")
    lines += [f"  sum     {name}  {digest}" for name, digest in row["checksums"].items()]
    return "\n".join([*lines, f"  note    {row['note']}"])
