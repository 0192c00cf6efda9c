"""Names, folders and labels as attackers and accidents make them: shown harmlessly, read as far as can be."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from image_files import encode, picture, put, write_parquet

from wildspec.data import FolderSource, ParquetSource, load_images
from wildspec.data.embeddings import EmbeddingTable
from wildspec.data.inputs import with_plain_names
from wildspec.errors import DataError
from wildspec.files import plain


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("caf\u00e9 1.png", "caf\u00e9 1.png"),
        ("\x1b]0;owned\x07a.png", "\\x1b]0;owned\\x07a.png"),
        ("a\x1b[2K\rb", "a\\x1b[2K\\x0db"),
        ("tab\tline\n", "tab\\x09line\\x0a"),
        ("\x9b31m", "\\x9b31m"),
        ("gpj.\u202egnp", "gpj.\\u202egnp"),
        ("\udce9", "\\udce9"),
    ],
)
def test_a_name_cannot_speak_to_the_terminal(name: str, shown: str) -> None:
    assert plain(name) == shown
    assert plain(shown) == shown


def test_names_and_classes_of_a_folder_are_shown_harmlessly(tmp_path: Path) -> None:
    put(tmp_path / "cat\x1b[31m" / "a\x1bc.png")
    put(tmp_path / "dog" / "b.png")
    source = with_plain_names(FolderSource(tmp_path))
    assert source.classes == ("cat\\x1b[31m", "dog")
    assert source.name(0) == "cat\\x1b[31m/a\\x1bc.png"
    assert source.load(0).shape == (6, 8, 3)


def test_a_folder_that_cannot_be_listed_is_an_unreadable_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(25):
        put(tmp_path / "open" / f"{i}.png", i)
    put(tmp_path / "closed" / "deep" / "x.png")
    plain_scan = os.scandir

    def scan(path: Any = ".") -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return plain_scan(path)

    monkeypatch.setattr(os, "scandir", scan)
    source = FolderSource(tmp_path, labelled=False)
    assert len(source) == 26
    found = load_images(source, 8)
    assert len(found) == 25
    (bad,) = found.unreadable
    assert bad.name == "closed"
    assert "Permission denied" in bad.reason


def test_a_label_of_a_trillion_makes_no_trillion_classes(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [encode(picture())] * 2, [0, 10**12])
    with pytest.raises(DataError, match=r"below 100,000, got 1000000000000; number classes from 0"):
        ParquetSource(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (pa.array([0, 2**64 - 1], pa.uint64()), "class numbers"),
        (pa.array([b"\xff", b"a"]), "whole numbers or names"),
        (pa.array(["x" * 100_000, "y"]), "100,000 characters"),
    ],
)
def test_labels_of_images_that_are_none(tmp_path: Path, labels: pa.Array, says: str) -> None:
    images = pa.array([{"bytes": encode(picture()), "path": None}] * 2)
    pq.write_table(pa.table({"image": images, "label": labels}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=says):
        ParquetSource(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "labels",
    [pa.array([0, 2**64 - 1], pa.uint64()), pa.array([b"\xff", b"a"]), pa.array([[1], [2]]), pa.array([{"a": 1}] * 2)],
)
def test_labels_of_embeddings_that_are_none(tmp_path: Path, labels: pa.Array) -> None:
    vectors = pa.array([[0.0, 1.0]] * 2)
    pq.write_table(pa.table({"features": vectors, "label": labels}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet"):
        _ = EmbeddingTable(tmp_path / "a.parquet").labels


def test_labels_in_an_encoding_of_their_own_are_read(tmp_path: Path) -> None:
    labels = pa.array(["cat", None, "dog"]).dictionary_encode()
    pq.write_table(pa.table({"features": pa.array([[0.0, 1.0]] * 3), "label": labels}), tmp_path / "a.parquet")
    found = EmbeddingTable(tmp_path / "a.parquet").labels
    assert found is not None
    assert found.tolist() == ["cat", None, "dog"]


def test_bytes_as_labels_of_a_numpy_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", features=np.zeros((2, 3)), labels=np.array([b"a", b"b"]))
    with pytest.raises(DataError, match=r"labels.*names"):
        EmbeddingTable(tmp_path / "a.npz")
