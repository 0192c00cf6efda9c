"""A test sample without a label is of no class: neither of the last, which -1 would index, nor of one called None."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wildspec.data.embeddings import EmbeddingTable
from wildspec.embeddings.table_rows import class_places
from wildspec.errors import InputError
from wildspec.images.reading import read_known

CLASSES = ("ant", "bee", "cow")
PICTURES = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)


def images(path: Path, labels: list[int]) -> str:
    np.savez(path, images=PICTURES, labels=np.array(labels))
    return str(path)


def test_images_without_a_label_are_refused_and_counted(tmp_path: Path) -> None:
    known = ("2", "1", "0")
    assert read_known(images(tmp_path / "a.npz", [2, 0, 1, 2]), 8, known).labels.tolist() == [0, 2, 1, 0]
    with pytest.raises(InputError, match=r"2 test samples have no label.*leave them out"):
        read_known(images(tmp_path / "b.npz", [2, -1, 1, -1]), 8, known)


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        (["bee", None, "ant", "-1"], 2), ([1, 0, None, 2], 1), ([1, -1, -1, 2], 2), ([1.0, None, -1.0, float("nan")], 3),
    ],
)  # fmt: skip
def test_embeddings_without_a_label_are_refused_and_counted(tmp_path: Path, labels: list[Any], missing: int) -> None:
    pq.write_table(pa.table({"features": np.eye(4).tolist(), "label": labels}), tmp_path / "t.parquet")
    classes = np.array(CLASSES if isinstance(labels[0], str) else [0, 1, 2])
    with pytest.raises(InputError, match=rf"{missing} test samples? ha(s|ve) no label.*leave (it|them) out"):
        class_places(EmbeddingTable(tmp_path / "t.parquet"), classes)


def test_places_are_those_of_the_model_and_other_classes_are_named(tmp_path: Path) -> None:
    for labels, says in ((["cow", "ant", "cow", "bee"], None), (["cow", "ant", "dog", "bee"], "'dog'.*--unknown")):
        pq.write_table(pa.table({"features": np.eye(4).tolist(), "label": labels}), tmp_path / "t.parquet")
        table = EmbeddingTable(tmp_path / "t.parquet")
        if says is None:
            assert class_places(table, np.array(CLASSES)).tolist() == [2, 0, 2, 1]
        else:
            with pytest.raises(InputError, match=says):
                class_places(table, np.array(CLASSES))
