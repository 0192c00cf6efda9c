"""The rows that scoring writes: one per input, in the order given, as CSV or parquet, whole or absent.

    image        its name                          p_value      conformal, small = unlike the known images
    decision     a class, or "rejected"            neighbours   names of the nearest labelled training images
    likely       the most likely class             error        why the input could not be read; then the rest is empty
    probability  of that class
    ood_score    high = out-of-distribution
"""

import csv
import heapq
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wildspec.errors import InputError
from wildspec.files import plain, replacing

Row = dict[str, Any]
SCHEMA = pa.schema({
    **dict.fromkeys(("image", "decision", "likely"), pa.string()),
    **dict.fromkeys(("probability", "ood_score", "p_value"), pa.float64()),
    "neighbours": pa.list_(pa.string()),
    "error": pa.string(),
})  # fmt: skip
COLUMNS = tuple(SCHEMA.names)
BETWEEN = " | "  # between neighbours in one CSV cell
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a table calculator would run a cell that begins so; with ' before it it is text


class _Csv:
    def __init__(self, path: Path) -> None:
        # closed by row_writer; a file's name need not be text (`wildspec.data.inputs.plain`)
        self._stream = open(path, "w", newline="", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        self._writer = csv.writer(self._stream)
        self._writer.writerow(COLUMNS)

    def write(self, rows: list[Row]) -> None:
        self._writer.writerows([_cell(row[name]) for name in COLUMNS] for row in rows)

    def close(self) -> None:
        self._stream.close()


class _ParquetRows:
    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, SCHEMA, compression="zstd")

    def write(self, rows: list[Row]) -> None:
        if rows:
            named = [{**row, "image": plain(row["image"])} for row in rows]
            self._writer.write_table(pa.Table.from_pylist(named, schema=SCHEMA))

    def close(self) -> None:
        self._writer.close()


WRITERS: dict[str, type[_Csv] | type[_ParquetRows]] = {".csv": _Csv, ".parquet": _ParquetRows}


def check_output(path: str | Path) -> Path:
    """The output's name must end in .csv or .parquet."""
    target = Path(path)
    if target.suffix.lower() not in WRITERS:
        raise InputError(f"scores are written as .csv or .parquet; got {target}")
    return target


@contextmanager
def row_writer(path: str | Path) -> Iterator[_Csv | _ParquetRows]:
    """A writer whose file takes its place only when all rows are in it."""
    target = check_output(path)
    with replacing(target) as temporary:
        writer = WRITERS[target.suffix.lower()](temporary)
        try:
            yield writer
        finally:
            writer.close()


def error_row(name: str, reason: str) -> Row:
    """The row of an input that could not be read."""
    return {**dict.fromkeys(COLUMNS), "image": name, "neighbours": [], "error": reason}


def guarded(text: str) -> str:
    """As a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def unguarded(cell: str) -> str:
    """What `guarded` was given."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


def top_rows(rows: Iterable[Row], count: int) -> list[Row]:
    """The ``count`` rows of highest ``ood_score``, the highest first, of equal ones the earlier; none with an error."""
    return heapq.nlargest(count, (row for row in rows if row["error"] is None), key=lambda row: float(row["ood_score"]))


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.7g}"  # what single precision holds; parquet has every bit
    return guarded(BETWEEN.join(value) if isinstance(value, list) else str(value))
