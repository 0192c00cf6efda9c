"""Data sets decoded once: each parquet shard becomes one array on disk, and shards may arrive one call after another.

    CACHE/cifar10/train-00000-of-00003.32.npy            (n, 3, 32, 32) uint8
    CACHE/cifar10/train-00000-of-00003.32.labels.npy     (n,) int64
    CACHE/cifar10/train-00000-of-00003.32.json           source, size, sha256, classes, other columns; written last

A shard whose JSON is there is whole. Once decoded, the parquet file itself is no longer needed.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wildspec.data import ImageArrays, concat
from wildspec.errors import DataError
from wildspec.files import read_json, replacing, sha256_file, write_json

_SHARD = re.compile(r"^(?P<split>[A-Za-z0-9_]+)-(?P<number>\d+)-of-(?P<count>\d+)$")
EXTRA_COLUMNS = ("domain",)


@dataclass(frozen=True)
class Shard:
    """One shard of a split: where its parquet file is (None: only the decoded array is there)."""

    name: str  # file name without its ending
    split: str
    number: int
    count: int
    path: Path | None


class Store:
    """Data sets below ``data`` (one folder each, ``<split>-00000-of-00003.parquet``), decoded into ``cache``."""

    def __init__(self, data: str | Path, cache: str | Path) -> None:
        self.data, self.cache = Path(data), Path(cache)

    def shards(self, name: str, split: str) -> list[Shard]:
        """What is there of a split, as parquet or decoded, in order."""
        found: dict[str, Shard] = {}
        for path in sorted((self.cache / name).glob("*.json")) if (self.cache / name).is_dir() else []:
            self._add(found, path.name.rsplit(".", 2)[0], split, None)
        folder = self.data / name
        for path in sorted(folder.glob("*.parquet")) if folder.is_dir() else []:
            self._add(found, path.stem, split, path)
        return sorted(found.values(), key=lambda shard: shard.number)

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
            lacking = self.missing(name, split)
            here = len(self.shards(name, split))
            if not here:
                raise DataError(_where_to_get(name, split, self.data))
            raise DataError(
                f"{name} {split}: {here} of {here + len(lacking)} shards are here; put {', '.join(lacking)} into "
                f"{self.data / name} and run again (decoded shards are kept in {self.cache / name})"
            )
        parts = [self._read(name, shard, size) for shard in self.shards(name, split)]
        return parts[0] if len(parts) == 1 else concat(*parts)

    def column(self, name: str, split: str, size: int, column: str) -> np.ndarray:
        """(n,) text values of another column of a split, e.g. ``domain``."""
        self.decode(name, split, size)
        values: list[Any] = []
        for shard in self.shards(name, split):
            extra = read_json(self._base(name, shard, size, ".json"))["columns"]
            if column not in extra:
                raise DataError(f"{name} {split} has no column {column!r}; the protocol needs it to tell domains apart")
            values += extra[column]
        return np.asarray(values)

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

    def _decode(self, name: str, shard: Shard, size: int) -> bool:
        note = self._base(name, shard, size, ".json")
        if note.exists() and (shard.path is None or read_json(note)["bytes"] == shard.path.stat().st_size):
            return False
        if shard.path is None:
            raise DataError(
                f"{name}/{shard.name} was decoded at another size than {size}; "
                f"put {shard.name}.parquet into {self.data / name}"
            )
        from wildspec.data.load import load_images
        from wildspec.data.parquet import ParquetSource

        source = ParquetSource(shard.path)
        images = load_images(source, size, max_unreadable=0.0)
        for ending, array in ((".npy", images.images.numpy()), (".labels.npy", images.labels.numpy())):
            with replacing(self._base(name, shard, size, ending)) as temporary, open(temporary, "wb") as stream:
                np.save(stream, array)
        columns = {key: [str(v) for v in source.column(key)] for key in EXTRA_COLUMNS if _has(source, key)}
        write_json(note, {
            "source": shard.path.name, "bytes": shard.path.stat().st_size, "sha256": sha256_file(shard.path),
            "count": len(images), "size": size, "classes": list(images.classes), "columns": columns,
        })  # fmt: skip
        return True

    def _read(self, name: str, shard: Shard, size: int) -> ImageArrays:
        note = read_json(self._base(name, shard, size, ".json"))
        try:
            pixels = np.load(self._base(name, shard, size, ".npy"), allow_pickle=False)
            labels = np.load(self._base(name, shard, size, ".labels.npy"), allow_pickle=False)
        except (OSError, ValueError) as error:
            raise DataError(f"{self.cache / name} is damaged ({error}); remove it and run again") from error
        names = [f"{shard.name}#{i}" for i in range(len(labels))]
        return ImageArrays(torch.from_numpy(pixels), torch.from_numpy(labels), tuple(note["classes"]), names)


def _has(source: Any, column: str) -> bool:
    try:
        source.column(column)
    except DataError:
        return False
    return True


def _where_to_get(name: str, split: str, data: Path) -> str:
    return (
        f"the data set {name} ({split}) is not in {data}; put its parquet shards into {data / name} as "
        f"{split}-00000-of-0000N.parquet"
    )
