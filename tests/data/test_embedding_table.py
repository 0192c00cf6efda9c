"""Embeddings in files: every row in its place, names and labels as they are written, damaged files in one line."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wildspec.data import open_source
from wildspec.data.embeddings import EmbeddingTable
from wildspec.errors import DataError

VECTORS = np.arange(120, dtype=np.float32).reshape(30, 4) / 7


def write(path: Path, row_group_size: int = 7, **columns: Any) -> EmbeddingTable:
    made = pa.array(VECTORS.tolist(), type=pa.list_(pa.float32()))
    pq.write_table(pa.table({"embedding": made, **columns}), path, row_group_size=row_group_size)
    return EmbeddingTable(path)


KINDS = {
    "list": pa.list_(pa.float32()), "large list": pa.large_list(pa.float64()), "fixed list": pa.list_(pa.float32(), 4),
    "half": pa.list_(pa.float16()),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hole", [False, True])
def test_vectors_of_every_column_type_and_missing_ones(tmp_path: Path, kind: str, hole: bool) -> None:
    rows = [[np.float16(v) for v in row] if kind == "half" else row for row in VECTORS.tolist()]
    if hole:
        rows[11] = None
    pq.write_table(pa.table({"embedding": pa.array(rows, type=KINDS[kind])}), tmp_path / "t.parquet", row_group_size=4)
    if hole and kind == "fixed list" and int(pa.__version__.split(".")[0]) < 26:  # cannot read what it wrote
        with pytest.raises(DataError, match=r"write it again.*lists of no fixed size"):
            EmbeddingTable(tmp_path / "t.parquet").read()
        return
    found = EmbeddingTable(tmp_path / "t.parquet").read()
    expected = VECTORS.copy()
    expected[11] = np.nan if hole else expected[11]
    np.testing.assert_allclose(found, expected, rtol=1e-3 if kind == "half" else 0)


def test_a_page_that_is_damaged_is_one_line(tmp_path: Path) -> None:
    """The file's end, where its columns are described, is whole: opening it shows nothing."""
    write(tmp_path / "t.parquet", label=pa.array(["cat", "dog"] * 15))
    data = bytearray((tmp_path / "t.parquet").read_bytes())
    data[4:200] = b"\xff" * 196
    (tmp_path / "t.parquet").write_bytes(data)
    with pytest.raises(DataError, match=r"t\.parquet cannot be read.*write it again") as told:
        EmbeddingTable(tmp_path / "t.parquet").read()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("made", ["parquet", "npy", "shards"])
def test_any_stretch_of_rows_is_that_stretch(tmp_path: Path, made: str, rng: np.random.Generator) -> None:
    if made == "npy":
        np.save(tmp_path / "t.npy", VECTORS)
        table = EmbeddingTable(tmp_path / "t.npy")
    elif made == "parquet":
        table = write(tmp_path / "t.parquet")
    else:
        write(tmp_path / "a.parquet")
        write(tmp_path / "b.parquet", row_group_size=4)
        table = EmbeddingTable(tmp_path)
    whole = np.concatenate([VECTORS] * (2 if made == "shards" else 1))
    assert len(table) == len(whole)
    for _ in range(60):
        first, last = sorted(rng.integers(0, len(whole) + 1, 2).tolist())
        blocks = list(table.between(first, last, int(rng.integers(1, 20))))
        found = np.concatenate([block for _, block in blocks]) if blocks else whole[:0]
        np.testing.assert_array_equal(found, whole[first:last])
        names = [name for named, _ in blocks for name in named]
        assert [int(name.rpartition("#")[2]) for name in names] == [i % len(VECTORS) for i in range(first, last)]
        size = int(rng.integers(1, 40))
        cuts = table.cuts(size)
        assert cuts == sorted(set(cuts))
        assert (cuts[0], cuts[-1]) == (0, len(whole))
        assert np.diff(cuts).max() < 3 * size  # less than a piece, and a row group of two


@pytest.mark.parametrize(
    "names",
    [
        pa.array([f"s{i}" for i in range(30)]), pa.array([f"s{i}" for i in range(30)], type=pa.large_string()),
        pa.array([f"s{i}" for i in range(30)]).dictionary_encode(), pa.array(range(100, 130)),
    ],
    ids=["string", "large string", "dictionary", "whole numbers"],
)  # fmt: skip
def test_names_are_those_of_the_column_whatever_its_type(tmp_path: Path, names: pa.Array) -> None:
    table = write(tmp_path / "t.parquet", id=names)
    assert [name for named, _ in table.blocks(5) for name in named] == [str(name) for name in names.to_pylist()]


def test_labels_of_shards_must_be_of_one_kind(tmp_path: Path) -> None:
    """Otherwise numbers and names would be one list, or the labels of all would be gone with those of one."""
    whole = list(range(30))
    write(tmp_path / "a.parquet", label=whole)
    write(tmp_path / "b.parquet", label=pa.array([None, *whole[1:]], pa.int16()))
    labels = EmbeddingTable(tmp_path).labels
    assert labels is not None
    assert labels.tolist() == [*whole, -1, *whole[1:]]
    write(tmp_path / "b.parquet", label=[f"c{i}" for i in whole])
    with pytest.raises(DataError, match="by number and by name"):
        _ = EmbeddingTable(tmp_path).labels
    write(tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet has no labels.*-1 = wild"):
        _ = EmbeddingTable(tmp_path).labels
    write(tmp_path / "a.parquet")
    assert EmbeddingTable(tmp_path).labels is None


def test_a_missing_name_is_the_place_in_the_file(tmp_path: Path) -> None:
    table = write(tmp_path / "t.parquet", name=pa.array(["first", None] + ["x"] * 28), id=pa.array(range(30)))
    assert next(table.blocks())[0][:3] == ["first", "t.parquet#1", "x"]
    numbers = write(tmp_path / "u.parquet", score=pa.array([0.5] * 30))
    assert next(numbers.blocks())[0][:2] == ["u.parquet#0", "u.parquet#1"]


@pytest.mark.parametrize("extension", ["npy", "npz"])
def test_a_damaged_numpy_file_is_one_line_for_embeddings_and_images(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"t.{extension}"
    if extension == "npy":
        np.save(path, VECTORS)
    else:
        np.savez_compressed(path, features=VECTORS, images=np.zeros((2, 4, 4, 3), np.uint8))
    whole = path.read_bytes()
    for cut in range(0, len(whole) - 1, max(1, len(whole) // 40)):
        path.write_bytes(whole[:cut])  # a copy that was interrupted
        for opened in (EmbeddingTable, open_source):
            with pytest.raises(DataError, match="not a readable numpy file") as caught:
                opened(path)
            assert "\n" not in str(caught.value)
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with suppress(DataError):  # a byte may change without harm; any other error is a defect
            EmbeddingTable(path)


@pytest.mark.parametrize("name", ["t.npz", "t.npy"])
def test_names_that_are_objects_are_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    names = np.array(["a", "b"] * 15, dtype=object)
    if name == "t.npz":
        np.savez(tmp_path / name, X=VECTORS, y=names)
    else:
        np.save(tmp_path / name, names)
    with pytest.raises(DataError, match=r"holds Python objects.*astype\(str\)"):
        EmbeddingTable(tmp_path / name)


@pytest.mark.parametrize("name", ["t.pkl", "t.pt", "t.feather", "t.csv.gz"])
def test_a_file_of_another_kind_is_told_what_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(DataError, match=r"parquet, CSV, \.npz or \.npy"):
        EmbeddingTable(tmp_path / name)


def text(path: Path, *lines: str) -> EmbeddingTable:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return EmbeddingTable(path)


def test_csv_of_every_usual_form(tmp_path: Path) -> None:
    named = text(tmp_path / "a.csv", "Filename,e0,e1,Class", '"a, b.jpg",1,2.5,cat', "ä.jpg,,-3e2,")
    assert named.names() == ["a, b.jpg", "ä.jpg"]
    assert named.labels is not None
    assert named.labels.tolist()[0] == "cat"
    assert np.array_equal(named.read(), np.array([[1, 2.5], [np.nan, -300]], np.float32), equal_nan=True)
    assert text(tmp_path / "b.tsv", "1\t2\t3", "4\t5\t6").read().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert text(tmp_path / "c.csv", ",x0,x1", "0,7,8", "1,9,10").read().tolist() == [[7, 8], [9, 10]]
    assert text(tmp_path / "d.csv", "x0;x1;label", "0,5;1;3", "2;3,25;4").read().tolist() == [[0.5, 1], [2, 3.25]]


def test_parquet_with_one_column_for_each_number(tmp_path: Path) -> None:
    rows = np.arange(60, dtype=np.float32).reshape(5, 12)
    columns = {f"e{i}": rows[:, i] for i in range(12)}
    pq.write_table(pa.table({"label": [0, 1, 0, 1, -1], **columns, "__index_level_0__": range(5)}), tmp_path / "w.parquet")
    table = EmbeddingTable(tmp_path / "w.parquet")
    assert np.array_equal(table.read(), rows)
    assert table.labels is not None
    assert table.labels.tolist() == [0, 1, 0, 1, -1]
    assert np.array_equal(np.concatenate([block for _, block in table.between(1, 4)]), rows[1:4])


@pytest.mark.parametrize(("lines", "says"), [
    (("e0,kind,label", "1,red,a"), "column 'kind' holds string"),
    (("name,label", "a,b"), "no column of numbers"),
    (("e0,e0", "1,2"), "two columns 'e0'"),
    (("e0,e1", "1,2,3"), "not a readable CSV file"),
    (("embedding,label", '"[0.1, 0.2]",a'), "column 'embedding' holds string"),
    (("1.0 2.0 3.0", "4.0 5.0 6.0"), "no commas, semicolons or tabs.*delimiter="),
])  # fmt: skip
def test_csv_that_is_no_table_of_numbers(tmp_path: Path, lines: tuple[str, ...], says: str) -> None:
    with pytest.raises(DataError, match=says):
        text(tmp_path / "t.csv", *lines)
    (tmp_path / "t.csv").write_bytes(b"e0,label\n1,\xe4\n")
    with pytest.raises(DataError, match=r"t\.csv"):
        EmbeddingTable(tmp_path / "t.csv")


THREADS = """
import os, sys
from wildspec.data.embeddings import EmbeddingTable
def running():
    return len(os.listdir("/proc/self/task"))
before = running()
EmbeddingTable(sys.argv[1])
print(running() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted by Linux")
def test_csv_is_read_without_a_pool_of_threads(tmp_path: Path) -> None:
    """With one, pyarrow now and then aborts a program that ends soon after: status 134 in place of 2."""
    np.savetxt(tmp_path / "t.csv", np.tile(VECTORS, (40, 40)), delimiter=",")
    done = subprocess.run(
        [sys.executable, "-c", THREADS, tmp_path / "t.csv"], env={**os.environ, "OMP_NUM_THREADS": "8"}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert int(done.stdout) <= 2


def test_endings_in_capitals_are_endings(tmp_path: Path) -> None:
    for name in ("t.NPY", "t.NPZ", "t.PARQUET", "t.CSV"):
        folder = tmp_path / name.replace(".", "_")
        folder.mkdir()
        path = folder / name
        with open(path, "wb") as stream:
            if name == "t.NPY":
                np.save(stream, VECTORS)
            elif name == "t.NPZ":
                np.savez(stream, features=VECTORS)
            elif name == "t.PARQUET":
                pq.write_table(pa.table({"features": VECTORS.tolist()}), stream)
            else:
                np.savetxt(stream, VECTORS, delimiter=",")
        np.testing.assert_allclose(EmbeddingTable(path).read(), VECTORS, rtol=1e-6)
    np.testing.assert_allclose(EmbeddingTable(tmp_path / "t_PARQUET").read(), VECTORS, rtol=1e-6)
