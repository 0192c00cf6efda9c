"""Parquet in the Hugging Face layout: order across shards and row groups, labels, bounded reading, damage."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from image_files import broken_files, encode, picture, put, write_parquet

from wildspec.data import ParquetSource, load_images, open_source
from wildspec.data.catalog import locate
from wildspec.data.embeddings import EmbeddingTable
from wildspec.data.parquet import find_shards
from wildspec.errors import DataError, InputError
from wildspec.serving.inputs import open_inputs

CLASSES = ["ant", "bee", "cow"]


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """22 images in train shards of 10 and 12 (row groups of 4), 3 in a test shard."""
    for name, numbers in (("train-0", range(10)), ("train-1", range(10, 22)), ("test-0", range(30, 33))):
        write_parquet(
            tmp_path / f"{name}.parquet",
            [encode(picture(i), "WEBP", lossless=True) for i in numbers],
            [i % 3 for i in numbers],
            CLASSES,
            domain=[f"d{i % 2}" for i in numbers],
        )
    (tmp_path / "README.md").write_text("about")
    return tmp_path


def test_rows_keep_their_order_over_shards_and_row_groups(shards: Path) -> None:
    source = ParquetSource(shards, split="train")
    assert len(source) == 22
    assert source.classes == tuple(CLASSES)
    assert source.labels.tolist() == [i % 3 for i in range(22)]
    assert source.column("domain").tolist() == [f"d{i % 2}" for i in range(22)]
    assert source.name(9) == "train-0.parquet#9"
    assert source.name(10) == "train-1.parquet#0"
    for i in (21, 0, 9, 10, 13, 4):
        assert np.array_equal(source.load(i), picture(i))
    loaded = load_images(source, threads=4)
    assert np.array_equal(loaded.images.permute(0, 2, 3, 1), np.stack([picture(i) for i in range(22)]))
    assert loaded.labels.tolist() == source.labels.tolist()
    assert len(ParquetSource(shards)) == 25
    assert len(ParquetSource([shards / "test-0.parquet", shards / "train-0.parquet"])) == 13
    assert len(ParquetSource(shards / "test-0.parquet")) == 3


def test_only_the_row_groups_asked_for_are_read_and_few_are_kept(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = ParquetSource(shards, split="train", cache_bytes=1)
    reads: list[int] = []
    original = pq.ParquetFile.read_row_group

    def counted(file: pq.ParquetFile, group: int, **keywords: object) -> pa.Table:
        reads.append(group)
        assert keywords["columns"] == ["image"]
        return original(file, group, **keywords)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    for i in (0, 1, 2, 3):
        source.load(i)
    assert reads == [0]
    source.load(21)
    assert reads == [0, 2]
    source.load(0)  # the cache holds one group only
    assert reads == [0, 2, 0]
    roomy = ParquetSource(shards, split="train")
    reads.clear()
    for i in (0, 21, 0, 21):
        roomy.load(i)
    assert reads == [0, 2]


def test_labels_missing_named_null_or_unwanted(tmp_path: Path) -> None:
    data = [encode(picture(i)) for i in range(3)]
    write_parquet(tmp_path / "none.parquet", data)
    bare = ParquetSource(tmp_path / "none.parquet")
    assert bare.labels.tolist() == [-1, -1, -1]
    assert bare.classes == ()
    with pytest.raises(DataError, match="no column 'label'"):
        ParquetSource(tmp_path / "none.parquet", labelled=True)
    with pytest.raises(DataError, match="no column 'domain'"):
        bare.column("domain")
    write_parquet(tmp_path / "words.parquet", data, ["b", "a", None])
    words = ParquetSource(tmp_path / "words.parquet")
    assert words.labels.tolist() == [1, 0, -1]
    assert words.classes == ("a", "b")
    write_parquet(tmp_path / "null.parquet", data, [2, None, 0])
    numbers = ParquetSource(tmp_path / "null.parquet")
    assert numbers.labels.tolist() == [2, -1, 0]
    assert numbers.classes == ("0", "1", "2")
    assert ParquetSource(tmp_path / "null.parquet", labelled=False).labels.tolist() == [-1] * 3


def test_labels_of_shards_must_be_of_one_kind(tmp_path: Path) -> None:
    """Whole numbers of any width are; a shard without labels must not take those of the others away in silence."""
    data = [encode(picture(i)) for i in range(2)]

    def shards(*labels: object) -> Path:
        for number, given in enumerate(labels):
            write_parquet(tmp_path / f"{number}.parquet", data, given)
        return tmp_path

    assert ParquetSource(shards([0, 1], pa.array([1, None], pa.int32()))).labels.tolist() == [0, 1, 1, -1]
    assert ParquetSource(shards(["b", "a"], pa.array(["c", "b"], pa.large_string()))).labels.tolist() == [1, 0, 2, 1]
    with pytest.raises(DataError, match="by number and by name"):
        ParquetSource(shards([0, 1], ["b", "a"]))
    mixed = shards([0, 1], None)
    with pytest.raises(DataError, match=r"1\.parquet has no column 'label'"):
        ParquetSource(mixed)
    assert ParquetSource(mixed, labelled=False).labels.tolist() == [-1] * 4


def test_a_plain_binary_column_will_do(tmp_path: Path) -> None:
    data = [encode(picture(4))]
    for column in ("image", "img", "photo"):
        pq.write_table(pa.table({"id": [7], column: data}), tmp_path / "a.parquet")
        assert np.array_equal(ParquetSource(tmp_path / "a.parquet").load(0), picture(4))
    pq.write_table(pa.table({"left": data, "right": [encode(picture(5))]}), tmp_path / "a.parquet")
    assert np.array_equal(ParquetSource(tmp_path / "a.parquet", image_column="right").load(0), picture(5))
    with pytest.raises(DataError, match=r"it has left, right.*image_column="):
        ParquetSource(tmp_path / "a.parquet")


def test_unreadable_rows_are_listed(tmp_path: Path) -> None:
    good = [encode(picture(i)) for i in range(8)]
    write_parquet(tmp_path / "a.parquet", [*good[:3], None, broken_files()["text.png"][0], *good[3:]], list(range(10)))
    source = ParquetSource(tmp_path / "a.parquet")
    loaded = load_images(source, max_unreadable=0.2)
    assert loaded.kept.tolist() == [0, 1, 2, 5, 6, 7, 8, 9]
    assert loaded.labels.tolist() == [0, 1, 2, 5, 6, 7, 8, 9]
    assert [(item.index, item.name) for item in loaded.unreadable] == [(3, "a.parquet#3"), (4, "a.parquet#4")]
    assert "no image bytes" in loaded.unreadable[0].reason
    assert "not an image" in loaded.unreadable[1].reason


def test_files_that_are_refused(shards: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.parquet").write_bytes((shards / "test-0.parquet").read_bytes()[:-20])
    (tmp_path / "text.parquet").write_text("hello")
    pq.write_table(pa.table({"image": [1, 2]}), tmp_path / "numbers.parquet")
    pq.write_table(pa.table({"image": [b"x"], "label": [0.5]}), tmp_path / "half.parquet")
    write_parquet(tmp_path / "far.parquet", [b"x"], [7], CLASSES)
    write_parquet(tmp_path / "other.parquet", [b"x"], [0], ["x", "y"])
    for given, says in [
        (tmp_path / "cut.parquet", "cut.parquet is not a readable parquet file"),
        (tmp_path / "text.parquet", "text.parquet is not a readable parquet file"),
        (tmp_path / "numbers.parquet", "must be struct<bytes: binary, path: string> or binary, got int64"),
        (tmp_path / "half.parquet", "must hold whole numbers or names, got double"),
        (tmp_path / "far.parquet", r"\[0, 2\] for 3 classes, got 7"),
        ([tmp_path / "other.parquet", tmp_path / "test-0.parquet"], "name different classes"),
        (tmp_path / "gone.parquet", "gone.parquet does not exist"),
        ([], "no parquet file given"),
    ]:
        with pytest.raises(DataError, match=says):
            ParquetSource(given)
    with pytest.raises(DataError, match=r"holds no validation-\*.parquet"):
        ParquetSource(shards, split="validation")
    with pytest.raises(DataError, match="no column 'img'; it has image, label"):
        ParquetSource(shards / "test-0.parquet", image_column="img")
    with pytest.raises(InputError, match=r"\[0, 3\), got 3"):
        ParquetSource(shards / "test-0.parquet").load(3)


def test_a_shard_damaged_inside_is_unreadable_not_fatal(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, [encode(picture(i, 40, 40)) for i in range(40)], [0] * 40, row_group_size=2)
    data = bytearray(path.read_bytes())
    metadata = pq.ParquetFile(path).metadata
    start = metadata.row_group(3).column(0).dictionary_page_offset
    data[start : start + 200] = b"\xff" * 200
    path.write_bytes(data)
    loaded = load_images(ParquetSource(path), max_unreadable=0.1)
    assert [item.index for item in loaded.unreadable] == [6, 7]
    assert "a.parquet is damaged" in loaded.unreadable[0].reason
    label = next(i for i in range(3) if metadata.row_group(0).column(i).path_in_schema == "label")
    start = metadata.row_group(9).column(label).data_page_offset
    data[start : start + 8] = b"\xff" * 8
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.parquet is damaged"):
        ParquetSource(path)


def test_images_of_a_row_group_that_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One array holds 2 GiB at most: pyarrow hands over more in pieces, and cannot put them together."""
    for name, images in (("struct", None), ("binary", [encode(picture(i)) for i in range(5)])):
        path = tmp_path / f"{name}.parquet"
        if images is None:
            write_parquet(path, [encode(picture(0)), None, *(encode(picture(i)) for i in range(2, 5))], row_group_size=5)
        else:
            pq.write_table(pa.table({"image": images}), path)
        whole = pq.ParquetFile(path).read_row_group(0, columns=["image"])
        pieces = pa.concat_tables([whole.slice(0, 2), whole.slice(2, 2), whole.slice(4)])
        with monkeypatch.context() as patch:
            patch.setattr(pq.ParquetFile, "read_row_group", lambda *_, made=pieces, **__: made)
            patch.setattr(pa, "concat_arrays", _overflow)
            source = ParquetSource(path)
            for i in (4, 0, 3, 2):
                assert np.array_equal(source.load(i), picture(i))
            if images is None:
                with pytest.raises(DataError, match="no image bytes"):
                    source.load(1)


def _overflow(*_: object, **__: object) -> None:
    raise pa.ArrowInvalid("offset overflow while concatenating arrays, consider casting input from `binary`")


def test_row_groups_too_large_for_pyarrow_are_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise pa.ArrowNotImplementedError("Nested data conversions not implemented for chunked array outputs")

    write_parquet(tmp_path / "a.parquet", [encode(picture(i)) for i in range(20)], row_group_size=10)
    for error in (_overflow, refuse):
        with monkeypatch.context() as patch:
            patch.setattr(pq.ParquetFile, "read_row_group", error)
            source = ParquetSource(tmp_path / "a.parquet")  # read a few rows at a time, which pyarrow can do
            for i in (9, 0, 10, 19):
                assert np.array_equal(source.load(i), picture(i))
            patch.setattr(pq.ParquetFile, "iter_batches", error)
            with pytest.raises(DataError, match=r"a\.parquet is sound.*too large.*row_group_size=1000"):
                ParquetSource(tmp_path / "a.parquet").load(0)


def test_endings_in_capitals_are_endings(tmp_path: Path) -> None:
    for name, number in (("train-0.PARQUET", 0), ("train-1.Parquet", 1), ("test.PARQUET", 2), ("trainer.parquet", 3)):
        write_parquet(tmp_path / name, [encode(picture(number))], [0])
    assert type(open_source(tmp_path)) is ParquetSource
    assert [path.name for path in find_shards(tmp_path, "train")] == ["train-0.PARQUET", "train-1.Parquet"]
    assert [path.name for path in find_shards(tmp_path, "test")] == ["test.PARQUET"]
    assert len(ParquetSource(tmp_path)) == 4
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "train-0.PARQUET").rename(tmp_path / "cifar10" / "test.PARQUET")
    assert len(locate("cifar10", tmp_path, splits=["test"])["test"]) == 1


def test_a_table_among_images_does_not_make_a_folder_one_of_shards(tmp_path: Path, classes_folder: Path) -> None:
    for name in ("scores.parquet", "more.PARQUET"):  # as wildspec score and embed write where one tells them to
        pq.write_table(pa.table({"image": ["a.png"], "score": [0.5]}), classes_folder / name)
    assert open_source(classes_folder, labelled=True).classes == ("cat", "dog", "Eel 3", "zebra")
    [source] = open_inputs([str(classes_folder)])
    assert len(source) == 5
    put(tmp_path / "flat" / "1.PNG")
    pq.write_table(pa.table({"features": [[0.0, 1.0]]}), tmp_path / "flat" / "embeddings.parquet")
    assert len(open_source(tmp_path / "flat")) == 1
    assert EmbeddingTable(tmp_path / "flat").width == 2  # whoever asks for embeddings is not kept from them


def test_what_lies_beside_shards_of_a_hub_does_not_matter(shards: Path) -> None:
    (shards / "dataset_infos.json").write_text("{}")
    (shards / "notes").mkdir()
    (shards / "notes" / "more.txt").write_text("about")
    put(shards / ".cache" / "1.png")
    assert len(open_source(shards)) == 25
    (shards / "data").mkdir()
    for path in shards.glob("*.parquet"):
        path.rename(shards / "data" / path.name)
    assert len(open_source(shards / "data", labelled=True)) == 25


def test_labels_as_pandas_writes_categories(tmp_path: Path) -> None:
    images = pa.array([encode(picture(i)) for i in range(3)])
    for labels, expected in ((["bee", None, "ant"], [1, -1, 0]), ([1, None, 0], [1, -1, 0])):
        pq.write_table(pa.table({"image": images, "label": pa.array(labels).dictionary_encode()}), tmp_path / "c.parquet")
        assert ParquetSource(tmp_path / "c.parquet").labels.tolist() == expected
