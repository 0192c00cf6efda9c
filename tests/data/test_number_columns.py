"""Tables with one column for each number: what is a label or a name never becomes a number, and text stays as written."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wildspec.data.embeddings import LABELS, NAMES, EmbeddingTable
from wildspec.errors import DataError

VECTORS = np.arange(40, dtype=np.float32).reshape(4, 10) / 8


def table(path: Path, /, **columns: list[Any]) -> EmbeddingTable:
    """The columns, then f0 to f9; CSV or parquet by the path's ending."""
    whole = columns | {f"f{i}": VECTORS[:, i].tolist() for i in range(10)}
    if path.suffix == ".parquet":
        pq.write_table(pa.table(whole), path)
    else:
        with open(path, "w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([list(whole), *zip(*whole.values(), strict=True)])
    return EmbeddingTable(path)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_no_column_of_labels_or_names_is_a_feature(tmp_path: Path, ending: str) -> None:
    numbers = [11, 12, 13, 14]
    for label in LABELS:
        found = table(tmp_path / f"t.{ending}", **dict.fromkeys(NAMES, numbers), **{label: numbers})
        assert np.array_equal(found.read(), VECTORS)
        assert found.labels is not None
        assert found.labels.tolist() == numbers
    found = table(tmp_path / f"t.{ending}", Filename=["a", "b", "c", "d"], ID=numbers, label=[0, 1, 0, 1])
    assert np.array_equal(found.read(), VECTORS)
    assert found.names() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(("one", "other"), [("label", "class"), ("y", "Labels"), ("Label", "label")])
def test_two_columns_of_labels_are_refused_by_name(tmp_path: Path, ending: str, one: str, other: str) -> None:
    with pytest.raises(DataError, match=rf"t\.{ending}.*{one!r} and {other!r}.*remove"):
        table(tmp_path / f"t.{ending}", **{one: [0, 1, 0, 1], other: [0, 1, 0, 1]})


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["0", "1", "-1", "12"], [0, 1, -1, 12]),
        (["0", "", "NaN", "12"], [0, -1, -1, 12]),
        (["00000", "00001", "", "12"], ["00000", "00001", None, "12"]),
        (["0", "1", "cat", ""], ["0", "1", "cat", None]),
        (["NA", "DE", "", "FR"], ["NA", "DE", None, "FR"]),
        (["1e3", "1", "2", "3"], ["1e3", "1", "2", "3"]),
        (["2024-01-01", "true", "1", ""], ["2024-01-01", "true", "1", None]),
        ([str(2**63), "1", "2", "3"], [str(2**63), "1", "2", "3"]),
        (["1.0", "", "2.0", "-1.0"], [1.0, None, 2.0, -1.0]),  # as pandas writes whole numbers with a gap
        (["", "NaN", "", " "], [-1] * 4),
    ],
)
@pytest.mark.parametrize("head", ["label", " Class", '"y"'])
def test_labels_of_csv_are_what_is_written(tmp_path: Path, head: str, written: list[str], read: list[Any]) -> None:
    lines = [f"f0,{head},f1", *(f"1,{label},2" for label in written)]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    found = EmbeddingTable(tmp_path / "t.csv")
    assert found.labels is not None
    assert found.labels.tolist() == read
    assert found.read().tolist() == [[1, 2]] * 4


def test_names_of_csv_are_what_is_written_and_a_missing_one_is_the_place(tmp_path: Path) -> None:
    found = table(tmp_path / "t.csv", id=["00000", "1e5", "", "true"])
    assert found.names() == ["00000", "1e5", "t.csv#2", "true"]
    assert table(tmp_path / "t.parquet", id=[7, None, 8, 9]).names() == ["7", "t.parquet#1", "8", "9"]


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\n \r\n"])
def test_an_empty_file_is_told_before_pyarrow_sees_it(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some versions of pyarrow end the whole process on it."""
    monkeypatch.setattr("pyarrow.csv.read_csv", lambda *_, **__: pytest.fail("pyarrow was asked to read nothing"))
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=r"t\.csv is empty"):
        EmbeddingTable(tmp_path / "t.csv")
