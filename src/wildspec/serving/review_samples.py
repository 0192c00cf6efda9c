"""What a person can be shown of a wild sample: its name, a picture, the other columns of its row."""

import io
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from wildspec.bundle.gallery import TINY, Gallery, encode
from wildspec.data.decode import decode
from wildspec.data.embeddings import LABELS, EmbeddingTable
from wildspec.data.folder import FilesSource
from wildspec.data.headers import EXTENSIONS
from wildspec.data.parquet import find_shards
from wildspec.data.source import ImageSource
from wildspec.errors import DataError, InputError
from wildspec.files import plain

SMALL, LARGE = 128, 900  # px: side of a neighbour's picture, longer side of the one that is asked about
MOST_COLUMNS, MOST_LETTERS = 24, 400  # of a row that are shown
LOOKED_AT = 50  # values by which a column of pictures is known

Cells = list[tuple[str, str]]


class Samples(Protocol):
    """Samples 0 .. m - 1 of a review. ``pictures``: is there anything for ``load`` to load?"""

    pictures: bool

    def title(self, i: int) -> str: ...

    def cells(self, i: int) -> Cells:
        """Columns of its row and what stands in them."""
        ...

    def load(self, i: int, side: int = LARGE) -> np.ndarray:
        """uint8 (H, W, 3), of which ``side`` pixels are to be shown; DataError with a reason where it cannot be read."""
        ...

    def labelled(self, row: int) -> bytes | None:
        """A small picture, JPEG or PNG, of a labelled sample of the rule; None where there is none."""
        ...


class BareSamples:
    """Nothing is known but names."""

    pictures = False

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def title(self, i: int) -> str:
        return plain(str(self.names[i]))

    def cells(self, i: int) -> Cells:
        return []

    def load(self, i: int, side: int = LARGE) -> np.ndarray:
        raise DataError("there is no picture of it")

    def labelled(self, row: int) -> bytes | None:
        return None


class _Photographs(BareSamples):
    """``galleries``: small pictures that the bundle has kept, of some ``labelled`` and ``wild`` images."""

    pictures = True

    def __init__(self, names: Sequence[str], galleries: Mapping[str, Gallery]) -> None:
        super().__init__(names)
        self.galleries = galleries

    def labelled(self, row: int) -> bytes | None:
        return self.galleries["labelled"].get(row)


class ImageSamples(_Photographs):
    """Sample i is item ``numbers[i]`` of a source of images, -1: it is not there."""

    def __init__(
        self, names: Sequence[str], galleries: Mapping[str, Gallery], source: ImageSource, numbers: Sequence[int]
    ) -> None:
        super().__init__(names, galleries)
        self.source, self.numbers = source, numbers

    def load(self, i: int, side: int = LARGE) -> np.ndarray:
        if self.numbers[i] < 0:
            raise DataError("it is not among the wild images any more")
        return self.source.reduced(int(self.numbers[i]), side)


class GallerySamples(_Photographs):
    """Sample i is wild picture ``rows[i]`` of those that the bundle has kept."""

    def __init__(self, names: Sequence[str], galleries: Mapping[str, Gallery], rows: Sequence[int]) -> None:
        super().__init__(names, galleries)
        self.rows = rows

    def load(self, i: int, side: int = LARGE) -> np.ndarray:
        found = self.galleries["wild"].get(int(self.rows[i]))
        if found is None:
            raise DataError("the bundle has no picture of it; give the wild images with --wild")
        return decode(found, side=side)


def places_of(names: Sequence[str], source: ImageSource) -> list[int]:
    """Names of a pool, in its order, as numbers in the source that it was read from; -1: not there. Some images of the
    source may have been left out. Where two had one name, the pool's have their number behind it."""
    where: dict[str, list[int]] = {}
    for i in range(len(source)):
        where.setdefault(source.name(i), []).append(i)
    if all(name in where for name in names) or not all(name.endswith(f"#{i}") for i, name in enumerate(names)):
        return [where.get(name, [-1])[0] for name in names]
    found, at = [], 0
    for i, name in enumerate(names):
        every = where.get(name.removesuffix(f"#{i}"), [])
        place = bisect_left(every, at)  # the pool is in the order of its source
        found.append(every[place] if place < len(every) else -1)
        at = max(at, found[-1] + 1)
    return found


class TableSamples(BareSamples):
    """Sample i is row ``rows[i]`` of a table of embeddings; a column of file names brings pictures."""

    def __init__(self, path: Path, rows: Sequence[int], folder: Path | None = None) -> None:
        table = EmbeddingTable(path)
        if len(rows) and max(rows) >= len(table):
            raise InputError(
                f"{path} has {len(table):,} rows, the model was fitted on row {max(rows):,} of its wild table; give that one"
            )
        super().__init__([f"row {row}" for row in rows])
        if not table.of_lists:
            names = np.concatenate([block for block, _ in table.blocks()])
            self._columns: dict[str, list[str]] = {"name": names[np.asarray(rows, np.int64)].tolist()}
        else:
            self._columns = _columns(path, np.asarray(rows, np.int64))
        self.column, paths = _pictures(self._columns, path.parent, folder)
        self.pictures = self.column is not None
        self._files = FilesSource(paths)

    def cells(self, i: int) -> Cells:
        return [(plain(name), values[i]) for name, values in self._columns.items() if values[i]]

    def load(self, i: int, side: int = LARGE) -> np.ndarray:
        return self._files.reduced(i, side) if self.pictures else super().load(i)


def small(pixels: np.ndarray) -> bytes:
    """The centre, as JPEG or (tiny) PNG."""
    return encode(pixels, SMALL)


def large(pixels: np.ndarray) -> bytes:
    """The whole image, its longer side no more than `LARGE`, as JPEG or (tiny) PNG."""
    image = Image.fromarray(pixels)
    image.thumbnail((LARGE, LARGE), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    if max(image.size) <= 2 * TINY:
        image.save(stream, "PNG")
    else:
        image.save(stream, "JPEG", quality=88)
    return stream.getvalue()


def _columns(path: Path, rows: np.ndarray) -> dict[str, list[str]]:
    """Text of every plain column but labels, which nobody is to look at, for these rows only."""
    found: dict[str, list[str]] = {}
    start = 0
    places = np.argsort(rows, kind="stable")
    for shard in find_shards(path):
        file = pq.ParquetFile(shard)
        count = int(file.metadata.num_rows)
        here = places[(rows[places] >= start) & (rows[places] < start + count)]
        names = [
            name for name in file.schema_arrow.names
            if name not in LABELS and _is_plain(file.schema_arrow.field(name).type)
        ][:MOST_COLUMNS]  # fmt: skip
        for name in names if len(here) else ():
            values = file.read(columns=[name]).column(0).take(pa.array(rows[here] - start)).to_pylist()
            cells = found.setdefault(name, [""] * len(rows))
            for place, value in zip(here.tolist(), values, strict=True):
                cells[place] = _cell(value)
        start += count
    return found


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return plain((f"{value:.6g}" if isinstance(value, float) else str(value))[:MOST_LETTERS])


def _is_plain(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    fits = (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean,
        pa.types.is_temporal, pa.types.is_decimal,
    )  # fmt: skip
    return any(fit(kind) for fit in fits)


def _pictures(columns: dict[str, list[str]], beside: Path, folder: Path | None) -> tuple[str | None, list[Path]]:
    """The first column of names of image files, and where they are: in ``folder``, or beside the table, or here."""
    for name, values in columns.items():
        some = [value for value in values if value][:LOOKED_AT]
        if not some or not all(Path(value).suffix.lower() in EXTENSIONS for value in some):
            continue
        for base in (beside, Path()) if folder is None else (folder,):
            if any((base / value).is_file() for value in some):
                return name, [base / value for value in values]
        if folder is not None:
            raise InputError(f"{folder} holds no {some[0]}, which column {name} names; give the folder that holds it")
    if folder is not None:
        raise InputError(f"the table has no column of image files to look for in {folder}; leave out --images")
    return None, []
