"""Tables with one column for each number: CSV as spreadsheets and pandas write it, and parquet of that form.

    label, name    columns called so (`LABELS`, `NAMES`, in any case), as in other tables of embeddings: one of labels, and
                   of names the first; no other of them is part of the vector
    no name        the row numbers that pandas writes (also as Unnamed: 0): left out
    all others     must hold numbers; together, in the order of the file, they are the vector. An empty cell is NaN

Commas, semicolons and tabs are told apart by the first line; with semicolons 0,5 is read as 0.5. A first line of numbers is
a row. Such a table is read whole. Labels and names in CSV are text, so that 00000 is not 0; labels are numbers where each
is written as a number is. A label's empty cell is null.
"""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from wildspec.errors import DataError, one_line

SEPARATORS = (",", ";", "\t")
ROW_NUMBERS = ("unnamed:", "__index_level_")  # what pandas makes of a column without a name
NUMBER = re.compile(r"\s*[-+]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][-+]?[0-9]+)?\s*|\s*nan\s*", re.IGNORECASE)
GAPS = frozenset(pc.ConvertOptions().null_values)  # what stands for no number: nothing, NaN, NA, ...
LONGEST_LINE = 1 << 24  # bytes that are looked at to tell how the columns are separated


class Numbers(NamedTuple):
    """``vectors``: (n, d) float32, their ``columns``; the columns of labels and names, None where there is none."""

    vectors: np.ndarray
    columns: list[str]
    labels: pa.ChunkedArray | None
    names: pa.ChunkedArray | None


def read_csv(path: Path, labels: Sequence[str], names: Sequence[str]) -> pa.Table:
    """Columns of numbers where every cell is one or empty, else of text; labels and names as they are written."""
    try:
        data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        if not data[:LONGEST_LINE].strip():
            raise DataError(f"{path} is empty; write the embeddings again, one row a line")
        head = data[:LONGEST_LINE].split(b"\n", 1)[0].decode("utf-8").strip("\r")
        separator = max(SEPARATORS, key=head.count)
        if separator not in head and len(head.split()) > 1:  # numpy.savetxt writes spaces
            raise DataError(
                f"{path} has no commas, semicolons or tabs between its columns; write it again with one of them, as "
                "numpy.savetxt does with delimiter=','"
            )
        cells = next(csv.reader([head], delimiter=separator), []) or [head]
        parse = pc.ParseOptions(delimiter=separator, newlines_in_values=True)
        convert = pc.ConvertOptions(
            decimal_point="," if separator != "," and _decimal_commas(data, separator) else ".",
            column_types={cell: pa.string() for cell in cells if _short(cell) in (*labels, *names)},
        )
        bare = all(NUMBER.fullmatch(cell) for cell in cells)
        # In one thread: with pyarrow's own, one in ten programs that stop soon after was aborted (status 134, pyarrow 26)
        read = pc.ReadOptions(
            use_threads=False, column_names=[str(i) for i in range(len(cells))] if bare else None, block_size=1 << 24
        )
        table = pc.read_csv(io.BytesIO(data), read_options=read, parse_options=parse, convert_options=convert)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}); save it as CSV in UTF-8") from error
    except (pa.ArrowException, OSError, csv.Error) as error:
        raise DataError(f"{path} is not a readable CSV file: {one_line(error)}; save it as CSV in UTF-8") from error
    for place, name in enumerate(table.column_names):
        if _short(name) in labels:
            table = table.set_column(place, name, _labels_of(table.column(place).to_pylist()))
    return table


def numbers_of(path: Path, table: pa.Table, labels: Sequence[str], names: Sequence[str]) -> Numbers:
    """What the columns of a table are; DataError names the first that is neither numbers nor a label or name."""
    if len(set(table.column_names)) < table.num_columns:
        twice = next(name for name in table.column_names if table.column_names.count(name) > 1)
        raise DataError(f"{path} has two columns {twice!r}; rename or remove one")
    called = {name: _short(name) for name in table.column_names}
    label = [name for name, short in called.items() if short in labels]
    named = [name for name, short in called.items() if short in names]
    if len(label) > 1:
        raise DataError(f"{path} has two columns of labels, {label[0]!r} and {label[1]!r}; rename or remove one")
    counted = {name for name, short in called.items() if not short or short.startswith(ROW_NUMBERS)}
    rest = [name for name in called if name not in counted.union(label, named)]
    text = [name for name in rest if not _is_number(table.schema.field(name).type)]
    if text or not rest:
        what = f"column {text[0]!r} holds {table.schema.field(text[0]).type}" if text else "it has no column of numbers"
        raise DataError(
            f"{path}: {what}; beside a label ({', '.join(labels)}) and a name ({', '.join(names)}) every column must hold "
            "one number a row: rename or remove the others"
        )
    vectors = np.empty((table.num_rows, len(rest)), dtype=np.float32)
    for i, name in enumerate(rest):
        vectors[:, i] = table.column(name).cast(pa.float64()).to_numpy()
    return Numbers(vectors, rest, *(table.column(found[0]) if found else None for found in (label, named)))


def _short(name: str) -> str:
    return name.strip().casefold()


def _labels_of(texts: list[str]) -> pa.Array:
    """A column of labels: whole numbers, or others, where each is written as Python writes it, else text."""
    bare = [text.strip() for text in texts]
    for kind, made in ((int, pa.int64()), (float, pa.float64())):
        if all(_is_written(text, kind) for text in set(bare) - GAPS):
            return pa.array([None if text in GAPS else kind(text) for text in bare], made)
    return pa.array([text if text.strip() else None for text in texts], pa.string())


def _is_written(text: str, kind: type[int] | type[float]) -> bool:
    """Whether it is a number that comes back as the same text: 007, 1e3 and what 64 bits do not hold are names."""
    try:
        return str(kind(text)) == text and abs(kind(text)) < 1 << 63
    except ValueError:
        return False


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind))


def _decimal_commas(data: bytes, separator: str) -> bool:
    """Whether the second line writes 0,5 for 0.5."""
    lines = data[:LONGEST_LINE].split(b"\n", 2)
    cells = lines[min(1, len(lines) - 1)].decode("utf-8", "replace").split(separator)
    return any("," in cell and NUMBER.fullmatch(cell) for cell in cells)
