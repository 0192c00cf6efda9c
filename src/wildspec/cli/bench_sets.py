"""``wildspec bench sets``: the data sets of the paper's experiments: where they come from, layout, number, checksums."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def sets(
    names: Annotated[list[str] | None, typer.Argument(help="Protocols or data sets; default: every data set.")] = None,
    data: Annotated[Path | None, typer.Option(help="Also say which are in this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Say where each data set comes from, how to lay it out, how many images it has, and its checksums."""
    from wildspec.benchmark.store import Store
    from wildspec.data import data_sets

    store = None if data is None else Store(data, data / "no-cache")
    entries = [data_sets()[name] for name in _chosen(names or [])]
    rows: list[dict[str, Any]] = []
    for entry in entries:
        splits = {
            split: {
                "layout": entry.layout(split), "images": [version.count for version in info.versions],
                **({} if store is None else {"there": store.available(entry.name, split)}),
            }
            for split, info in entry.splits.items()
        }  # fmt: skip
        sums = {name: digest for split in entry.splits for name, digest in entry.checksums(split).items()}
        rows.append({
            "set": entry.name, "title": entry.title, "source": entry.source, "splits": splits, "checksums": sums,
            "note": entry.note,
        })  # fmt: skip
    typer.echo(json.dumps(rows, indent=2) if as_json else "\n\n".join(map(_text, rows)))


def _chosen(names: list[str]) -> list[str]:
    """Names of protocols stand for the sets they read."""
    from wildspec.benchmark.prepare import needed_splits
    from wildspec.benchmark.protocols import protocol, protocol_names
    from wildspec.checks import choice
    from wildspec.data import data_sets

    found: list[str] = [] if names else list(data_sets())
    for name in names:
        choice("name", name, [*protocol_names(), *(other for other in data_sets() if other not in protocol_names())])
        # cifar10 and office-home are both a protocol and a set: the protocol reads the set
        if name in protocol_names():
            made = protocol(name)
            found += [pair[0] for entry in made.semantic for pair in needed_splits(made, entry.name)]
        else:
            found.append(name)
    return list(dict.fromkeys(found))


def _text(row: dict[str, Any]) -> str:
    lines = [f"{row['set']}: {row['title']}", f"  from    {row['source']}"]
    for info in row["splits"].values():
        count = " or ".join(f"{number:,}" for number in info["images"]) or "any number of"
        there = {True: ", here", False: ", not here", None: ""}[info.get("there")]
        lines.append(f"  layout  {row['set']}/ with {info['layout']}: {count} images{there}")
    lines += [f"  sum     {name}  {digest}" for name, digest in row["checksums"].items()]
    return "\n".join([*lines, f"  note    {row['note']}"])
