"""Data sets decoded once: each parquet shard becomes one array on disk, and shards may arrive one call after another.

    CACHE/cifar10/train-00000-of-00003.32.npy            (n, 3, 32, 32) uint8
    CACHE/cifar10/train-00000-of-00003.32.labels.npy     (n,) int64
    CACHE/cifar10/train-00000-of-00003.32.json           source, mark, sha256, classes, other columns; written last

A shard whose JSON is there is whole. Once decoded, the parquet file itself is no longer needed. A folder of images, laid out
as ``wildspec.data.catalog`` says, is one shard; its sha256 is that of the decoded images.

A file that is there is the decoded one if its mark is (`ImageSource.fingerprint`: place, size, time of the last change).
With another mark it may be the same file copied anew: then the sha256 of all its bytes tells, once.
"""

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wildspec.data import ImageArrays, concat
from wildspec.data.catalog import data_sets, how_to_get, locate
from wildspec.data.folder import DomainFolderSource, FolderSource, is_left_out
from wildspec.data.load import load_images
from wildspec.data.parquet import ParquetSource
from wildspec.data.source import ImageSource
from wildspec.errors import DataError
from wildspec.files import read_json, replacing, sha256_file, write_json

_SHARD = re.compile(r"^(?P<split>[A-Za-z0-9_]+)-(?P<number>\d+)-of-(?P<count>\d+)$")
EXTRA_COLUMNS = ("domain",)
UNREADABLE = 0.001  # share of broken files that is passed over; they are counted in the record


@dataclass(frozen=True)
class Shard:
    """One shard of a split: its parquet file, or its folder of images; None: only the decoded array is there."""

    name: str  # file name without its ending
    split: str
    number: int
    count: int
    path: Path | None


def content_hash(images: ImageArrays) -> str:
    """sha256 over the shape, the pixels and the labels."""
    digest = hashlib.sha256(repr(tuple(images.images.shape)).encode())
    digest.update(np.ascontiguousarray(images.images.cpu().numpy()).data)
    digest.update(np.ascontiguousarray(images.labels.cpu().numpy()).data)
    return digest.hexdigest()


class Store:
    """Data sets below ``data`` (one folder each, ``<split>-00000-of-00003.parquet``), decoded into ``cache``."""

    def __init__(self, data: str | Path, cache: str | Path) -> None:
        self.data, self.cache = Path(data), Path(cache)
        self._folders: dict[tuple[str, str], ImageSource] = {}  # listed once: a folder of a million files takes a while

    def shards(self, name: str, split: str) -> list[Shard]:
        """What is there of a split, as parquet or decoded, in order."""
        found: dict[str, Shard] = {}
        for path in sorted((self.cache / name).glob("*.json")) if (self.cache / name).is_dir() else []:
            self._add(found, path.name.rsplit(".", 2)[0], split, None)
        folder = self.data / name
        for path in sorted(folder.glob("*.parquet")) if folder.is_dir() else []:
            self._add(found, path.stem, split, path)
        known = {(shard.name, shard.path) for shard in found.values()}
        if known <= {(split, None)} and self._folder(name, split) is not None:  # nothing yet, or the folder's own arrays
            found[split] = Shard(split, split, 0, 1, folder)
        return _one_division(list(found.values()))

    def available(self, name: str, split: str) -> bool:
        """True when every shard of the split is there."""
        found = self.shards(name, split)
        return bool(found) and len(found) == found[0].count

    def missing(self, name: str, split: str) -> list[str]:
        """Names of the shards that are not there; one guess when nothing is."""
        found = self.shards(name, split)
        if not found:
            return [f"{split}-00000-of-00001.parquet"]
        have, count = {shard.number for shard in found}, found[0].count
        return [f"{split}-{n:05d}-of-{count:05d}.parquet" for n in range(count) if n not in have]

    def what_is_missing(self, name: str, split: str) -> str:
        """One line for a split that is not all there: where to get it, or which shards to add."""
        here, lacking = len(self.shards(name, split)), self.missing(name, split)
        if not here:
            return _where_to_get(name, split, self.data)
        return (
            f"{name} {split}: {here} of {here + len(lacking)} shards are here; put {', '.join(lacking)} into "
            f"{self.data / name} and run again (decoded shards are kept in {self.cache / name})"
        )

    def decode(self, name: str, split: str, size: int) -> int:
        """Decode the shards that are there and not yet decoded; returns how many were decoded now."""
        done = 0
        for shard in self.shards(name, split):
            done += self._decode(name, shard, size)
        return done

    def load(self, name: str, split: str, size: int) -> ImageArrays:
        """The whole split as one image set; a shard that is nowhere is an error that names it."""
        self.decode(name, split, size)
        if not self.available(name, split):
            raise DataError(self.what_is_missing(name, split))
        parts = [self._read(name, shard, size) for shard in self.shards(name, split)]
        return parts[0] if len(parts) == 1 else concat(*parts)

    def column(self, name: str, split: str, size: int, column: str) -> np.ndarray:
        """(n,) text values of another column of a split, e.g. ``domain``."""
        self.decode(name, split, size)
        values: list[Any] = []
        for note in self._notes(name, split, size):
            if column not in note["columns"]:
                raise DataError(f"{name} {split} has no column {column!r}; the protocol needs it to tell domains apart")
            values += note["columns"][column]
        return np.asarray(values)

    def describe(self, name: str, split: str, size: int) -> dict[str, Any]:
        """Number of images, checksums of the files they came from (of a folder: of its decoded images), and whether the
        catalog knows exactly these files."""
        notes = self._notes(name, split, size)
        sums = {note["source"]: note["sha256"] for note in notes if note["sha256"]}
        entry = data_sets().get(name)
        known = entry is not None and split in entry.splits and any(
            version.sha256 and dict(version.sha256) == sums for version in entry.splits[split].versions
        )
        counts = {"images": sum(note["count"] for note in notes), "unreadable": sum(note["unreadable"] for note in notes)}
        return {**counts, "sha256": sums, "in_catalog": known}

    def another_version(self, name: str, split: str, size: int) -> str | None:
        """One line where a decoded split is none of the catalog's versions, by its number of images or its checksums."""
        entry, notes = data_sets().get(name), self._notes(name, split, size)
        if entry is None or split not in entry.splits or not entry.splits[split].versions:
            return None
        count = sum(note["count"] + note["unreadable"] for note in notes)
        same = [version for version in entry.splits[split].versions if version.count == count]
        if not same:
            return f"{name} {split} has {count:,} images, the catalog knows {entry.counts(split)}"
        sums = {note["source"]: note["sha256"] for note in notes if note["sha256"]}
        wrong = [shard for v in same for shard, digest in v.sha256.items() if sums.get(shard, digest) != digest]
        return f"{name} {split} has other files than the catalog's under the names {', '.join(wrong)}" if wrong else None

    # -- inside --------------------------------------------------------------------------------------------------------
    @staticmethod
    def _add(found: dict[str, Shard], stem: str, split: str, path: Path | None) -> None:
        match = _SHARD.match(stem)
        if match and match["split"] == split:
            found[stem] = Shard(stem, split, int(match["number"]), int(match["count"]), path)
        elif stem == split:
            found[stem] = Shard(stem, split, 0, 1, path)

    def _base(self, name: str, shard: Shard, size: int, ending: str) -> Path:
        return self.cache / name / f"{shard.name}.{size}{ending}"

    def _notes(self, name: str, split: str, size: int) -> list[dict[str, Any]]:
        return [read_json(self._base(name, shard, size, ".json")) for shard in self.shards(name, split)]

    def _folder(self, name: str, split: str) -> ImageSource | None:
        """The split as a folder of images, where it is one."""
        entry = data_sets().get(name)
        if not (self.data / name).is_dir():
            return None
        if (name, split) not in self._folders:
            found: ImageSource | None = None
            if entry is None or split not in entry.splits:
                found = _own_folder(self.data / name, split)
            else:
                with suppress(DataError):
                    found = locate(name, self.data, splits=[split])[split]
            if found is None:
                return None
            self._folders[name, split] = found
        return self._folders[name, split]

    def _decode(self, name: str, shard: Shard, size: int) -> bool:
        note = self._base(name, shard, size, ".json")
        if shard.path is None:
            if note.exists():
                return False
            raise DataError(
                f"{name}/{shard.name} was decoded at another size than {size}; "
                f"put {shard.name}.parquet into {self.data / name}"
            )
        source: ImageSource | None = ParquetSource(shard.path) if shard.path.is_file() else self._folder(name, shard.split)
        assert source is not None
        mark, digest = source.fingerprint(), None
        before = read_json(note) if note.exists() else {}
        if before.get("mark") == mark:
            return False
        if shard.path.is_file():
            digest = sha256_file(shard.path)
            if before.get("sha256") == digest:
                with suppress(DataError):  # so that it need not be read again; a cache that cannot be written serves too
                    write_json(note, {**before, "mark": mark})
                return False
        images = load_images(source, size, max_unreadable=UNREADABLE)
        if source.fingerprint() != mark:
            raise DataError(f"{shard.path} changed while it was read; run again when it is all there")
        note.unlink(missing_ok=True)  # a kill between the arrays must not leave old and new ones under one note
        for ending, array in ((".npy", images.images.numpy()), (".labels.npy", images.labels.numpy())):
            with replacing(self._base(name, shard, size, ending)) as temporary, open(temporary, "wb") as stream:
                np.save(stream, array)
        columns = {key: [str(v) for v in source.column(key)[images.kept]] for key in EXTRA_COLUMNS if _has(source, key)}  # type: ignore[attr-defined]
        write_json(note, {
            "source": shard.path.name, "mark": mark, "sha256": digest or content_hash(images),
            "count": len(images), "unreadable": len(images.unreadable), "size": size, "classes": list(images.classes),
            "columns": columns,
        })  # fmt: skip
        return True

    def _read(self, name: str, shard: Shard, size: int) -> ImageArrays:
        note = read_json(self._base(name, shard, size, ".json"))
        try:  # copy-on-write: a subset of a set larger than memory reads only its own pages
            pixels = np.load(self._base(name, shard, size, ".npy"), mmap_mode="c", allow_pickle=False)
            labels = np.load(self._base(name, shard, size, ".labels.npy"), allow_pickle=False)
        except (OSError, ValueError) as error:
            raise DataError(f"{self.cache / name} is damaged ({error}); remove it and run again") from error
        names = [f"{shard.name}#{i}" for i in range(len(labels))]
        return ImageArrays(torch.from_numpy(pixels), torch.from_numpy(labels), tuple(note["classes"]), names)


def _one_division(shards: list[Shard]) -> list[Shard]:
    """In order, of one division into shards: a set published anew in another number of them (or as one file) must not be
    mixed with what is left of the old one. A whole division goes before one with gaps, files before arrays alone."""
    divisions: dict[tuple[int, bool], list[Shard]] = {}
    for shard in shards:
        divisions.setdefault((shard.count, shard.name == shard.split), []).append(shard)

    def worth(division: list[Shard]) -> tuple[bool, int, int]:
        here = sum(shard.path is not None for shard in division)
        return len(division) == division[0].count, here, len(division)

    best = max(divisions.values(), key=worth, default=[])
    return sorted(best, key=lambda shard: shard.number)


def _has(source: Any, column: str) -> bool:
    try:
        source.column(column)
    except (DataError, AttributeError):
        return False
    return True


def _where_to_get(name: str, split: str, data: Path) -> str:
    entry = data_sets().get(name)
    if entry is not None and split in entry.splits:
        return how_to_get(entry, split, data)
    return (
        f"the data set {name} ({split}) is not in {data}; put images into {data / name / split}/CLASS/, or shards as "
        f"{data / name / split}-00000-of-0000N.parquet"
    )


def _own_folder(home: Path, split: str) -> ImageSource | None:
    """A set that the catalog does not have: SPLIT/CLASS/images, SPLIT/DOMAIN/CLASS/images, or SPLIT/images; for the one
    split ``all`` also without the folder of that name."""
    root = home / split if (home / split).is_dir() else home
    if root == home and split != "all":
        return None
    parts = [path for path in sorted(root.iterdir()) if path.is_dir() and not is_left_out(path.name)]
    if any(inner.is_dir() and not is_left_out(inner.name) for part in parts[:1] for inner in part.iterdir()):
        return DomainFolderSource(root)
    return FolderSource(root, labelled=bool(parts))
