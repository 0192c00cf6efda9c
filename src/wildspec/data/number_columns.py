"""Tables with one column for each number: CSV as spreadsheets and pandas write it, and parquet of that form.

    label, name    columns called so (`LABELS`, `NAMES`, in any case), as in other tables of embeddings
    no name        the row numbers that pandas writes (also as Unnamed: 0): left out
    all others     must hold numbers; together, in the order of the file, they are the vector. An empty cell is NaN

Commas, semicolons and tabs are told apart by the first line; with semicolons 0,5 is read as 0.5. A first line of numbers is
a row. Such a table is read whole.
"""

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
LONGEST_LINE = 1 << 24  # bytes that are looked at to tell how the columns are separated


class Numbers(NamedTuple):
    """``vectors``: (n, d) float32; the columns of labels and names, None where there is none."""

    vectors: np.ndarray
    labels: pa.ChunkedArray | None
    names: pa.ChunkedArray | None


def read_csv(path: Path) -> pa.Table:
    """Columns of numbers where every cell is one or empty, else of text."""
    try:
        data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        head = data[:LONGEST_LINE].split(b"\n", 1)[0].decode("utf-8").strip("\r")
        separator = max(SEPARATORS, key=head.count)
        cells = head.split(separator)
        parse = pc.ParseOptions(delimiter=separator, newlines_in_values=True)
        convert = pc.ConvertOptions(decimal_point="," if separator != "," and _decimal_commas(data, separator) else ".")
        bare = all(NUMBER.fullmatch(cell) for cell in cells)
        read = pc.ReadOptions(column_names=[str(i) for i in range(len(cells))] if bare else None, block_size=1 << 24)
        return pc.read_csv(io.BytesIO(data), read_options=read, parse_options=parse, convert_options=convert)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}); save it as CSV in UTF-8") from error
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is not a readable CSV file: {one_line(error)}; save it as CSV in UTF-8") from error


def numbers_of(path: Path, table: pa.Table, labels: Sequence[str], names: Sequence[str]) -> Numbers:
    """What the columns of a table are; DataError names the first that is neither numbers nor a label or name."""
    if len(set(table.column_names)) < table.num_columns:
        twice = next(name for name in table.column_names if table.column_names.count(name) > 1)
        raise DataError(f"{path} has two columns {twice!r}; rename or remove one")
    called = {name: name.strip().casefold() for name in table.column_names}
    label = next((name for name, short in called.items() if short in labels), None)
    named = next((name for name, short in called.items() if short in names and name != label), None)
    counted = {name for name, short in called.items() if not short or short.startswith(ROW_NUMBERS)}
    rest = [name for name in called if name not in counted | {label, named}]
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
    return Numbers(vectors, *(None if name is None else table.column(name) for name in (label, named)))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind))


def _decimal_commas(data: bytes, separator: str) -> bool:
    """Whether the second line writes 0,5 for 0.5."""
    lines = data[:LONGEST_LINE].split(b"\n", 2)
    cells = lines[min(1, len(lines) - 1)].decode("utf-8", "replace").split(separator)
    return any("," in cell and NUMBER.fullmatch(cell) for cell in cells)
