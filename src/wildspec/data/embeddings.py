"""Embeddings in files: parquet with a column of vectors, or numpy arrays, read block by block; CSV (`number_columns`).

    column of vectors   list or fixed-size list of numbers; ``features``, ``embedding``, ``embeddings``, ``vector``,
                        ``x`` or ``X``, else the only one there is
    labels              ``label``, ``labels``, ``class`` or ``y``: whole numbers (-1 = wild) or names (null = wild)
    names               ``name``, ``id``, ``path``, ``file``, ``filename`` or ``image``: text or whole numbers; else FILE#ROW
    pictures            ``picture`` or ``thumbnail``: a small encoded image (bytes), of parquet alone; as written by
                        `wildspec embed`

An .npz holds arrays under the same names, an .npy the vectors alone. CSV, and parquet without a column of vectors, have one
column for each number.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wildspec.checks import integer
from wildspec.data.number_columns import numbers_of, read_csv
from wildspec.data.numpy_files import read_arrays
from wildspec.data.parquet import THUMBNAILS, find_shards, holds_shards
from wildspec.errors import DataError, one_line

VECTORS = ("features", "embedding", "embeddings", "vector", "x", "X")
LABELS = ("label", "labels", "class", "y")
NAMES = ("name", "id", "path", "file", "filename", "image")
BLOCK = 4096
LARGEST_PICTURE = 1 << 16  # bytes: a thumbnail, not a photograph
CSV = (".csv", ".tsv", ".txt")
FEW = 8  # columns that an error names


class EmbeddingTable:
    """Vectors of one ``width``, in order. ``labels``: None where there are none. ``blocks()``, or ``read()`` for all.
    ``of_lists``: parquet with a column of vectors, whose other columns may be shown. ``columns``: names of the columns of
    numbers, where the file has one for each."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.suffix.lower() in (".npy", ".npz"):
            self._parts: list[Any] = [_open_numpy(self.path)]
        elif self.path.is_file() and self.path.suffix.lower() in CSV:
            self._parts = [_in_columns(self.path, read_csv(self.path, LABELS, NAMES))]
        elif self.path.is_dir() and not holds_shards(self.path):
            raise DataError(
                f"{self.path} holds no *.parquet with embeddings; of images make one with: wildspec embed {self.path} --out "
                "TABLE.parquet"
            )
        else:
            self._parts = [_open_parquet(shard) for shard in find_shards(self.path)]
        self.of_lists = all(isinstance(part, _ParquetFile) for part in self._parts)
        widths = {part.width for part in self._parts}
        if len(widths) > 1:
            raise DataError(f"{self.path} holds vectors of different widths: {sorted(widths)}; keep one model's together")
        self.width: int = widths.pop()
        self.columns: list[str] | None = self._parts[0].columns

    @cached_property
    def labels(self) -> np.ndarray | None:
        """(n,) labels, read when they are asked for; scoring never does."""
        found = [part.labels for part in self._parts]
        labelled = [labels for labels in found if labels is not None]
        if 0 < len(labelled) < len(found):
            lacking = next(part.path for part, labels in zip(self._parts, found, strict=True) if labels is None)
            raise DataError(f"{lacking} has no labels, other shards have; add them (null or -1 = wild) or keep them apart")
        if len({labels.dtype.kind for labels in labelled}) > 1:
            raise DataError(f"the shards of {self.path} label by number and by name; keep to one of them")
        return np.concatenate(labelled) if labelled else None

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def blocks(self, rows: int = BLOCK) -> Iterator[tuple[list[str], np.ndarray]]:
        """(names, (b, d) float32), at most ``rows`` at a time, in order."""
        for part in self._parts:
            yield from part.blocks(integer("rows", rows, 1))

    def between(self, first: int, last: int, rows: int = BLOCK) -> Iterator[tuple[list[str], np.ndarray]]:
        """The same for rows ``first`` to ``last`` - 1 alone; of parquet only the row groups that hold them are read."""
        start = 0
        for part in self._parts:
            low, high = max(first - start, 0), min(last - start, len(part))
            if low < high:
                yield from part.blocks(integer("rows", rows, 1), low, high)
            start += len(part)

    def cuts(self, size: int) -> list[int]:
        """Rows at which to cut the table into pieces of about ``size`` rows, 0 and its length included.

        Parquet is cut between row groups, and inside one only where it holds more than twice ``size``.
        """
        found, start = [0], 0
        for part in self._parts:
            for end in part.edges(integer("size", size, 1)):
                if start + end - found[-1] >= size or end == len(part):
                    found.append(start + end)
            start += len(part)
        return sorted(set(found))

    def names(self) -> list[str] | None:
        """What all rows are called; None where they have no names of their own."""
        found = [part.named() for part in self._parts]
        return None if None in found else [name for names in found for name in names or ()]

    def pictures(self, rows: np.ndarray) -> dict[int, bytes]:
        """Encoded images of some rows, of those that have one."""
        found: dict[int, bytes] = {}
        start = 0
        for part in self._parts:
            mine = rows[(rows >= start) & (rows < start + len(part))] - start
            found |= {start + row: picture for row, picture in part.pictures(mine).items()}
            start += len(part)
        return found

    def read(self) -> np.ndarray:
        """(n, d) float32."""
        found = [block for _, block in self.blocks()]
        return np.concatenate(found) if found else np.empty((0, self.width), np.float32)


def holds_embeddings(path: str | PathLike[str]) -> bool:
    """Whether a file or folder is a table of embeddings."""
    try:
        EmbeddingTable(path)
    except (DataError, OSError):
        return False
    return True


class _Arrays:
    columns: list[str] | None = None

    def __init__(self, path: Path, vectors: np.ndarray, labels: np.ndarray | None, names: np.ndarray | None) -> None:
        if vectors.ndim != 2 or vectors.dtype.kind not in "fiu":
            raise DataError(f"{path} must hold vectors (n, d) of numbers, got {vectors.dtype} {vectors.shape}")
        for what, given in (("labels", labels), ("names", names)):
            if given is not None and given.shape != (len(vectors),):
                raise DataError(f"{path}: {what} must have one entry per vector ({len(vectors)}), got shape {given.shape}")
        if labels is not None and labels.dtype.kind not in "iufbU":
            raise DataError(f"{path}: labels must be whole numbers or names, got {labels.dtype}; write them as text")
        self.path, self.vectors, self.labels, self._names = path, vectors, labels, names
        self.width = vectors.shape[1]

    def __len__(self) -> int:
        return len(self.vectors)

    def named(self) -> list[str] | None:
        return None if self._names is None else [str(name) for name in self._names.tolist()]

    def pictures(self, rows: np.ndarray) -> dict[int, bytes]:
        return {}

    def edges(self, size: int) -> Iterator[int]:
        yield from range(size, len(self), size)
        yield len(self)

    def blocks(self, rows: int, first: int = 0, last: int | None = None) -> Iterator[tuple[list[str], np.ndarray]]:
        end = len(self) if last is None else last
        for start in range(first, end, rows):
            stop = min(start + rows, end)
            numbers = range(start, stop)
            names = [f"{self.path.name}#{i}" if self._names is None else str(self._names[i]) for i in numbers]
            yield names, np.asarray(self.vectors[start:stop], dtype=np.float32)


def _open_parquet(path: Path) -> "_ParquetFile | _Arrays":
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        why = one_line(error).rstrip(".")
        raise DataError(f"{path} is not a readable parquet file: {why}; write it as parquet, CSV, .npz or .npy") from error
    kinds = [field.type for field in file.schema_arrow]
    if len(kinds) > FEW and not any(pa.types.is_nested(kind) or pa.types.is_binary(kind) for kind in kinds):
        with _one_line(path):
            return _in_columns(path, file.read())
    return _ParquetFile(path, file)


def _in_columns(path: Path, table: pa.Table) -> _Arrays:
    found = numbers_of(path, table, LABELS, NAMES)
    given = None if found.names is None else found.names.to_pylist()
    names = None if given is None else np.array(
        [f"{path.name}#{row}" if name in (None, "") else str(name) for row, name in enumerate(given)]
    )
    part = _Arrays(path, found.vectors, None, names)
    part.columns = found.columns
    part.labels = None if found.labels is None else _labels(path, found.labels)
    return part


class _ParquetFile:
    columns = None

    def __init__(self, path: Path, file: pq.ParquetFile) -> None:
        self.path, self._file = path, file
        schema = self._file.schema_arrow
        self._vectors = _vector_column(path, schema)
        self._names = next((n for n in NAMES if n in schema.names and _holds_names(schema.field(n).type)), None)
        self._label = next((name for name in LABELS if name in schema.names), None)
        self._picture = next((n for n in THUMBNAILS if n in schema.names and pa.types.is_binary(schema.field(n).type)), None)
        self.width = self._find_width(schema.field(self._vectors).type)

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    @property
    def labels(self) -> np.ndarray | None:
        if self._label is None:
            return None
        with _one_line(self.path):
            return _labels(self.path, self._file.read(columns=[self._label]).column(0))

    def named(self) -> list[str] | None:
        if self._names is None:
            return None
        with _one_line(self.path):
            values = self._file.read(columns=[self._names]).column(0).to_pylist()
        return [f"{self.path.name}#{row}" if value is None else str(value) for row, value in enumerate(values)]

    def pictures(self, rows: np.ndarray) -> dict[int, bytes]:
        if self._picture is None or not len(rows):
            return {}
        found, start = {}, 0
        for batch in self._batches(batch_size=BLOCK, columns=[self._picture]):
            column = batch.column(0)
            for row in rows[(rows >= start) & (rows < start + len(column))].tolist():
                value = column[row - start].as_py()
                if value is not None and 0 < len(value) <= LARGEST_PICTURE:
                    found[row] = value
            start += len(column)
        return found

    def edges(self, size: int) -> Iterator[int]:
        start = 0
        for count in self._groups():
            yield from range(start + size, start + count, size) if count > 2 * size else ()
            start += count
            yield start

    def blocks(self, rows: int, first: int = 0, last: int | None = None) -> Iterator[tuple[list[str], np.ndarray]]:
        end = len(self) if last is None else last
        columns = [self._vectors] + ([self._names] if self._names else [])
        sizes = self._groups()
        starts = np.cumsum([0, *sizes])
        wanted = [g for g, count in enumerate(sizes) if starts[g] < end and starts[g] + count > first]
        if not wanted:
            return
        start = int(starts[wanted[0]])
        for whole in self._batches(batch_size=rows, columns=columns, row_groups=wanted):
            low, high = max(first - start, 0), min(end - start, len(whole))
            batch = whole.slice(low, high - low) if low < high else whole.slice(0, 0)
            if len(batch):
                at = start + low
                values = self._matrix(batch.column(0), at)
                named = batch.column(1).to_pylist() if self._names else [None] * len(values)
                yield [f"{self.path.name}#{at + i}" if n is None else str(n) for i, n in enumerate(named)], values
            start += len(whole)

    def _batches(self, **wanted: Any) -> Iterator[pa.RecordBatch]:
        batches = iter(self._file.iter_batches(**wanted))
        while True:
            with _one_line(self.path):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _groups(self) -> list[int]:
        """Rows of each row group."""
        metadata = self._file.metadata
        return [int(metadata.row_group(g).num_rows) for g in range(metadata.num_row_groups)]

    def _matrix(self, column: pa.Array, start: int) -> np.ndarray:
        """(b, d); a missing vector becomes a row of NaN, one of another length is an error."""
        lengths = np.full(len(column), self.width) if pa.types.is_fixed_size_list(column.type) else (
            np.diff(column.offsets.to_numpy())
        )
        present = column.is_valid().to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(present & (lengths != self.width))
        if len(wrong):
            raise DataError(
                f"{self.path}: row {start + int(wrong[0])} holds {int(lengths[wrong[0]])} numbers, others {self.width}"
            )
        out = np.full((len(column), self.width), np.nan, dtype=np.float32)
        if present.any():
            values = column.drop_null().flatten().to_numpy(zero_copy_only=False)
            out[present] = np.asarray(values, dtype=np.float32).reshape(-1, self.width)
        return out

    def _find_width(self, kind: pa.DataType) -> int:
        if pa.types.is_fixed_size_list(kind):
            return int(kind.list_size)
        for batch in self._batches(batch_size=64, columns=[self._vectors]):
            for value in batch.column(0):
                if value.is_valid:
                    return len(value)
        raise DataError(f"{self.path} holds no vector in column {self._vectors!r}")


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """A page is damaged, or this pyarrow cannot read it (before 26: missing vectors in lists of fixed size)."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        why = one_line(error)
        raise DataError(f"{path} cannot be read: {why}; write it again, vectors as lists of no fixed size") from error


def _vector_column(path: Path, schema: pa.Schema) -> str:
    def holds_vectors(name: str) -> bool:
        kind = schema.field(name).type
        is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
        return is_list and (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))

    found = [name for name in schema.names if holds_vectors(name)]
    named = next((name for name in VECTORS if name in found), None)
    if named is None and len(found) == 1:
        named = found[0]
    if named is None:
        has = ", ".join(schema.names[:FEW])
        if len(schema.names) > FEW:
            has += f" and {len(schema.names) - FEW} more"
        raise DataError(f"{path} has no column of vectors named {', '.join(VECTORS)}; it has {has}")
    return named


def _holds_names(kind: pa.DataType) -> bool:
    """Text in any of its encodings, or whole numbers."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)


def _labels(path: Path, column: pa.ChunkedArray) -> np.ndarray:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.int64()).fill_null(-1).to_numpy()
    known = (pa.types.is_string, pa.types.is_large_string, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    if not any(fits(kind) for fits in known):
        raise DataError(f"{path}: labels must be whole numbers or names, got {column.type}; write them as text")
    return np.array(column.to_pylist(), dtype=object)


def _open_numpy(path: Path) -> _Arrays:
    if not path.is_file():
        raise DataError(f"{path} does not exist; expected parquet, CSV, .npz or .npy with embeddings")
    found, keys = read_arrays(path, VECTORS, LABELS, NAMES, mapped=True)
    if found[0] is None:
        raise DataError(f"{path} must hold an array named {' or '.join(VECTORS)}, it has {keys}")
    return _Arrays(path, found[0], found[1], found[2])
