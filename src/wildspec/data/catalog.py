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
from wildspec.data.parquet import ParquetSource, shards_in
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
    """One data set. ``classes``: their number, None where labels are not used. ``domains``: names, where it has them.

    ``md5``: of the files one downloads, by name, as their publishers or the libraries that fetch them give it; stated, not
    checked, since what is read here is what was unpacked.
    """

    name: str
    title: str
    classes: int | None
    source: str
    splits: Mapping[str, SplitEntry]
    note: str = ""
    domains: tuple[str, ...] = ()
    md5: Mapping[str, str] = field(default_factory=dict)

    def layout(self, split: str) -> str:
        """Where the images of a split are looked for, below the set's folder."""
        below = "<domain>/<class>/" if self.domains else "<class>/" if self.classes else ""
        return f"{split}-*.parquet (columns image, label) or image files in {split}/{below}"

    def counts(self, split: str) -> str:
        """"50,000" or "36,500 or 10,000": images of the known versions; empty where the number is not fixed."""
        return " or ".join(f"{version.count:,}" for version in self.splits[split].versions)

    def checksums(self, split: str) -> dict[str, str]:
        """File name -> "md5 ..." or "sha256 ..."."""
        shards = {name: f"sha256 {digest}" for v in self.splits[split].versions for name, digest in v.sha256.items()}
        return {name: f"md5 {digest}" for name, digest in self.md5.items()} | shards


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
    count = f", {entry.counts(split)} images" if entry.counts(split) else ""
    verb = "it is" if entry.source.startswith("made") else "get it from"
    sums = ", ".join(f"{name} {digest}" for name, digest in entry.checksums(split).items())
    return (
        f"{entry.title} ({split}) is not in {root / entry.name}: expected {entry.layout(split)}{count}; {verb} "
        f"{entry.source}{f'; checksums: {sums}' if sums else ''}. {entry.note}".rstrip()
    )


def _open_split(entry: DataSetEntry, split: str, root: Path, verify: bool) -> ImageSource:
    home, info = root / entry.name, entry.splits[split]
    shards = sorted(shards_in(home, split))
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
        _verify(entry, split, len(source), home, shards)
    return source


def _holds(folder: Path) -> bool:
    return any(not path.name.startswith(".") for path in folder.iterdir())


def _verify(entry: DataSetEntry, split: str, found: int, home: Path, shards: list[Path]) -> None:
    version = next((version for version in entry.splits[split].versions if version.count == found), None)
    if version is None:
        raise DataError(f"{home} must have {entry.counts(split)} images, found {found:,}; get it again from {entry.source}")
    for shard in shards:
        if shard.name in version.sha256 and sha256_file(shard) != version.sha256[shard.name]:
            raise DataError(
                f"{shard} has another sha256 than the file known under that name; if it is another version of "
                f"{entry.title}, use it with verify=False"
            )
