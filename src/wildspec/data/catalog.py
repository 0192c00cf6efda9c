"""The data sets of the paper's experiments: where one gets them, in which layout, how many images. Entries: catalog.json.

Layout below a root: ``<root>/<name>/<split>-*.parquet``, or folders of images, ``<root>/<name>/<split>/...``.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path

from wildspec.checks import choice
from wildspec.data.folder import DomainFolderSource, FolderSource
from wildspec.data.parquet import ParquetSource
from wildspec.data.source import ImageSource
from wildspec.errors import DataError
from wildspec.files import sha256_file


@dataclass(frozen=True)
class Version:
    """One known version of a split. ``sha256``: of the parquet shards our results were made with, by file name."""

    count: int
    sha256: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SplitEntry:
    """``folders``: where images may lie when not in parquet, below the set's folder. ``versions``: empty = not fixed."""

    folders: tuple[str, ...]
    versions: tuple[Version, ...]


@dataclass(frozen=True)
class DataSetEntry:
    """One data set. ``classes``: their number, None where labels are not used. ``domains``: names, where it has them."""

    name: str
    title: str
    classes: int | None
    source: str
    splits: Mapping[str, SplitEntry]
    note: str = ""
    domains: tuple[str, ...] = ()


@cache
def data_sets() -> Mapping[str, DataSetEntry]:
    """All entries by name."""
    rows = json.loads(files("wildspec.data").joinpath("catalog.json").read_text(encoding="utf-8"))
    entries = {}
    for row in rows:
        splits = {
            name: SplitEntry(tuple(split["folders"]), tuple(Version(**version) for version in split["versions"]))
            for name, split in row.pop("splits").items()
        }
        domains = tuple(row.pop("domains", ()))
        entries[row["name"]] = DataSetEntry(splits=splits, domains=domains, **row)
    return entries


def locate(
    name: str, root: str | PathLike[str], *, splits: Iterable[str] | None = None, verify: bool = False
) -> dict[str, ImageSource]:
    """Split name -> source, for the data set ``name`` below ``root``.

    ``splits``: those wanted, all by default. A set that is not there is a DataError that says where to get it and how to
    lay it out. ``verify=True`` insists on a known version: its number of images, and the checksums of its shards where
    the catalog has them.
    """
    entry = data_sets()[choice("data set", name, data_sets())]
    wanted = list(entry.splits) if splits is None else [choice("split", split, entry.splits) for split in splits]
    return {split: _open_split(entry, split, Path(root), verify) for split in wanted}


def how_to_get(entry: DataSetEntry, split: str, root: Path) -> str:
    """One line: what was looked for, and how a user brings the data."""
    home = root / entry.name
    below = "<domain>/<class>/" if entry.domains else "<class>/" if entry.classes else ""
    count = f", {_counts(entry.splits[split])} images" if entry.splits[split].versions else ""
    return (
        f"{entry.title} ({split}) is not in {home}: expected {split}-*.parquet (columns image, label) or image files in "
        f"{split}/{below}{count}; get it from {entry.source}. {entry.note}".rstrip()
    )


def _open_split(entry: DataSetEntry, split: str, root: Path, verify: bool) -> ImageSource:
    home, info = root / entry.name, entry.splits[split]
    shards = sorted([*home.glob(f"{split}-*.parquet"), *home.glob(f"{split}.parquet")])
    if shards:
        source: ImageSource = ParquetSource(shards)
    else:
        folder = next((home / inner for inner in info.folders if (home / inner).is_dir() and _holds(home / inner)), None)
        if folder is None:
            raise DataError(how_to_get(entry, split, root))
        if entry.domains:
            source = DomainFolderSource(folder, entry.domains)
        else:
            source = FolderSource(folder, labelled=entry.classes is not None)
    if verify and info.versions:
        _verify(entry, info, len(source), home, shards)
    return source


def _holds(folder: Path) -> bool:
    return any(not path.name.startswith(".") for path in folder.iterdir())


def _counts(info: SplitEntry) -> str:
    return " or ".join(f"{version.count:,}" for version in info.versions)


def _verify(entry: DataSetEntry, info: SplitEntry, found: int, home: Path, shards: list[Path]) -> None:
    version = next((version for version in info.versions if version.count == found), None)
    if version is None:
        raise DataError(f"{home} must have {_counts(info)} images, found {found:,}; get it again from {entry.source}")
    for shard in shards:
        if shard.name in version.sha256 and sha256_file(shard) != version.sha256[shard.name]:
            raise DataError(
                f"{shard} has another sha256 than the file known under that name; if it is another version of "
                f"{entry.title}, use it with verify=False"
            )
