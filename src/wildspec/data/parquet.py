"""Images in parquet, Hugging Face layout: ``image`` struct{bytes, path}, ``label``, class names in the schema."""

import json
import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wildspec.data.decode import decode
from wildspec.data.folder import images_under
from wildspec.data.headers import EXTENSIONS, look
from wildspec.data.images import UNLABELLED
from wildspec.data.source import ImageSource, files_fingerprint, number_labels
from wildspec.errors import DataError, InputError, one_line

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]
TOO_LARGE = ("for chunked array outputs", "offset overflow")  # what pyarrow says of more than 2 GiB in one array
STEP = 4  # rows that are read at a time then: of the largest images (`wildspec.data.folder.MAX_BYTES`) they are fewer bytes
THUMBNAILS = ("picture", "thumbnail")  # beside embeddings: to be shown, too small to be judged


class ParquetSource(ImageSource):
    """One shard, several, or a directory of them (``split`` keeps those named ``<split>-*``). Rows keep their order.

    Row groups are read when an image of theirs is asked for; at most ``cache_bytes`` of encoded images are kept.
    ``image_column``: struct or plain binary; None takes ``image``, ``img`` or the only column of such a type. Without
    ``label_column`` in the file the images are unlabelled; ``labelled=False`` ignores it. Other columns:
    ``column("domain")``.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        split: str | None = None,
        image_column: str | None = None,
        label_column: str = "label",
        labelled: bool | None = None,
        cache_bytes: int = 256 << 20,
    ) -> None:
        self.shards = find_shards(paths, split)
        self._cache_bytes = cache_bytes
        self._files = [_open(path) for path in self.shards]
        self._image = image_column or _find_image_column(self.shards[0], self._files[0].schema_arrow)
        self._starts: list[int] = []  # first image number of each row group
        self._places: list[tuple[int, int]] = []  # (shard, row group)
        total = 0
        for number, (path, file) in enumerate(zip(self.shards, self._files, strict=True)):
            _check_image_column(path, file.schema_arrow, self._image)
            for group in range(file.num_row_groups):
                self._starts.append(total)
                self._places.append((number, group))
                total += file.metadata.row_group(group).num_rows
        self._firsts = np.concatenate([[0], np.cumsum([file.metadata.num_rows for file in self._files])])
        self._cache: OrderedDict[int, pa.ChunkedArray] = OrderedDict()
        self._lock = threading.Lock()
        without = [
            path for path, file in zip(self.shards, self._files, strict=True) if label_column not in file.schema_arrow.names
        ]
        has_labels = not without
        if labelled and not has_labels:
            raise DataError(f"{self.shards[0]} has no column {label_column!r}; it has {self._columns()}")
        if labelled is None and 0 < len(without) < len(self.shards):
            raise DataError(
                f"{without[0]} has no column {label_column!r}, other shards have; add it (null = unlabelled) or keep "
                "them apart"
            )
        if has_labels and labelled is not False:
            self.labels, self.classes = self._read_labels(label_column)
        else:
            self.labels, self.classes = np.full(total, UNLABELLED, dtype=np.int64), ()

    def name(self, i: int) -> str:
        """Shard and row: ``train-00000-of-00003.parquet#17``."""
        shard = bisect_right(self._firsts, i) - 1
        return f"{self.shards[shard].name}#{i - int(self._firsts[shard])}"

    def load(self, i: int) -> np.ndarray:
        return decode(self._bytes(i))

    def reduced(self, i: int, side: int) -> np.ndarray:
        return decode(self._bytes(i), side=side)

    def shorter_side(self, i: int) -> int:
        return look(self._bytes(i)).shorter_side

    def _bytes(self, i: int) -> bytes:
        if not 0 <= i < len(self):
            raise InputError(f"image number must lie in [0, {len(self)}), got {i}")
        group = bisect_right(self._starts, i) - 1
        data = self._encoded(group)[i - self._starts[group]].as_py()
        if data is None:
            raise DataError("the row holds no image bytes")
        return bytes(data)

    def fingerprint(self) -> str | None:
        return files_fingerprint(self.shards)

    def column(self, name: str) -> np.ndarray:
        """(n,) values of another column, e.g. ``domain``."""
        if not all(name in file.schema_arrow.names for file in self._files):
            raise DataError(f"{self.shards[0]} has no column {name!r}; it has {self._columns()}")
        return np.concatenate([self._read(shard, name).to_numpy() for shard in range(len(self.shards))])

    def _columns(self) -> str:
        return ", ".join(self._files[0].schema_arrow.names)

    def _encoded(self, group: int) -> pa.ChunkedArray:
        """The encoded images of a row group, from the cache or the file; in pieces, as one array holds 2 GiB at most."""
        with self._lock:
            found = self._cache.get(group)
            if found is not None:
                self._cache.move_to_end(group)
                return found
            column = self._read(self._places[group][0], self._image, self._places[group][1])
            if pa.types.is_struct(column.type):
                kind = column.type.field("bytes").type
                column = pa.chunked_array([chunk.field("bytes") for chunk in column.chunks], kind)
            self._cache[group] = column
            while len(self._cache) > 1 and sum(kept.nbytes for kept in self._cache.values()) > self._cache_bytes:
                self._cache.popitem(last=False)
            return column

    def _read(self, shard: int, column: str, group: int | None = None) -> pa.ChunkedArray:
        """One column of a shard, or of one of its row groups."""
        file = self._files[shard]
        try:
            table = file.read(columns=[column]) if group is None else file.read_row_group(group, columns=[column])
        except (pa.ArrowException, OSError) as error:
            if any(words in str(error) for words in TOO_LARGE):
                return self._read_in_steps(shard, column, group)
            raise DataError(f"{self.shards[shard].name} is damaged: {one_line(error)}") from error
        return table.column(0)

    def _read_in_steps(self, shard: int, column: str, group: int | None) -> pa.ChunkedArray:
        """The same a few rows at a time, where together they are more than pyarrow puts into one array."""
        groups = None if group is None else [group]
        try:
            batches = list(self._files[shard].iter_batches(batch_size=STEP, row_groups=groups, columns=[column]))
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"{self.shards[shard].name} is sound, but its row groups are too large to be read (2 GiB at most); write it "
                "again with row_group_size=1000"
            ) from error
        return pa.Table.from_batches(batches).column(0)

    def _read_labels(self, column: str) -> tuple[np.ndarray, tuple[str, ...]]:
        lists = {_class_names(file.schema_arrow, column) for file in self._files}
        if len(lists) > 1:
            raise DataError(
                f"the shards beside {self.shards[0]} name different classes; keep each data set in a folder of its own"
            )
        values: list[Any] = []
        for number, (path, file) in enumerate(zip(self.shards, self._files, strict=True)):
            kind = file.schema_arrow.field(column).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                raise DataError(f"{path}: column {column!r} must hold whole numbers or names, got {kind}")
            wide = pa.int64() if pa.types.is_integer(kind) else pa.large_string()  # shards may differ in width
            try:
                values.append(self._read(number, column).cast(wide))
            except pa.ArrowException as error:  # a number beyond 64 bits with a sign
                raise DataError(f"{path}: column {column!r} must hold class numbers: {one_line(error)}") from error
        if len({part.type for part in values}) > 1:
            raise DataError(f"the shards beside {self.shards[0]} label by number and by name; keep to one of them")
        joined = pa.chunked_array([chunk for part in values for chunk in part.chunks], type=values[0].type)
        if pa.types.is_integer(joined.type):
            joined = joined.fill_null(UNLABELLED)
        try:
            return number_labels(joined.to_numpy(), lists.pop())
        except InputError as error:
            raise DataError(f"{self.shards[0]}: {error}") from error


def find_shards(paths: Paths, split: str | None = None) -> list[Path]:
    """Files as given; of a directory its ``*.parquet``, or ``<split>-*.parquet`` and ``<split>.parquet``; sorted."""
    given = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
    found: list[Path] = []
    for entry in map(Path, given):
        if entry.is_dir():
            inside = sorted(shards_in(entry, split))
            if not inside:
                raise DataError(f"{entry} holds no {f'{split}-*.parquet or {split}.parquet' if split else '*.parquet'}")
            found += inside
        elif entry.is_file():
            found.append(entry)
        else:
            raise DataError(f"{entry} does not exist; expected a parquet file or a directory of them")
    if not found:
        raise DataError("no parquet file given")
    return found


def holds_parquet(folder: Path) -> bool:
    """Whether a folder is one of shards, and not of images: a table that lies among images, as of their scores, does not
    make it one. What else lies beside shards, a card or JSON, does not count."""
    return holds_shards(folder) and not any(path.suffix.lower() in EXTENSIONS for path in images_under(folder))


def holds_shards(folder: Path) -> bool:
    """Whether a folder holds parquet, images beside it or not; hidden files, as a Mac puts into archives, do not count."""
    return next(shards_in(folder), None) is not None


def shards_in(folder: Path, split: str | None = None) -> Iterator[Path]:
    """Parquet files of a folder, in no order, or those of a split; none where it is no folder, or cannot be listed."""
    try:
        names = os.listdir(folder)
    except OSError:  # who wants its images is told so
        return
    for path in (folder / name for name in names if name.lower().endswith(".parquet") and not name.startswith(".")):
        if split is None or path.stem == split or path.stem.startswith(f"{split}-"):
            yield path


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is not a readable parquet file: {one_line(error)}; get it again") from error


def _holds_images(kind: pa.DataType) -> bool:
    inner = kind.field("bytes").type if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 else kind
    return pa.types.is_binary(inner) or pa.types.is_large_binary(inner)


def _holds_vectors(kind: pa.DataType) -> bool:
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return lists and pa.types.is_floating(kind.value_type)


def _find_image_column(path: Path, schema: pa.Schema) -> str:
    named = [name for name in ("image", "img") if name in schema.names]
    fitting = named or [field.name for field in schema if _holds_images(field.type)]
    if fitting and set(fitting) <= set(THUMBNAILS) and any(_holds_vectors(field.type) for field in schema):
        raise DataError(f"{path} holds embeddings and thumbnails; give the images themselves, or fit --from-embeddings")
    if not named and len(fitting) != 1:
        raise DataError(
            f"{path} must have a column 'image' with image files in it, it has {', '.join(schema.names)}; "
            "call the right one 'image', or name it with image_column= in Python; of embeddings: --from-embeddings"
        )
    return fitting[0]


def _check_image_column(path: Path, schema: pa.Schema, column: str) -> None:
    if column not in schema.names:
        raise DataError(f"{path} has no column {column!r}; it has {', '.join(schema.names)}")
    kind = schema.field(column).type
    if not _holds_images(kind):
        raise DataError(f"{path}: column {column!r} must be struct<bytes: binary, path: string> or binary, got {kind}")


def _class_names(schema: pa.Schema, column: str) -> tuple[str, ...] | None:
    """Names of the ClassLabel feature in the schema's ``huggingface`` metadata; None where there are none."""
    try:
        info = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        names = info["info"]["features"][column]["names"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return tuple(str(name) for name in names) or None if isinstance(names, list) else None
