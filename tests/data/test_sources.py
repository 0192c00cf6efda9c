"""Sources: folders, file lists, arrays, data sets. What comes out is compared with what was put in."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from image_files import encode, picture, put
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from wildspec.data import (
    ArraySource,
    DatasetSource,
    FilesSource,
    FolderSource,
    ImageSource,
    ParquetSource,
    SubsetSource,
    load_digits_images,
    open_source,
)
from wildspec.data.decode import decode
from wildspec.data.inputs import PlainNames
from wildspec.errors import DataError, InputError, InputTypeError


def test_class_per_folder(classes_folder: Path) -> None:
    source = FolderSource(classes_folder)
    assert source.classes == ("cat", "dog", "Eel 3", "zebra")
    names = [source.name(i) for i in range(len(source))]
    assert names == ["cat/b.PNG", "cat/deep/er/a.png", "dog/2.png", "dog/10.png", "Eel 3/x.png"]
    assert source.labels.tolist() == [0, 0, 1, 1, 2]
    assert source.labels.dtype == np.int64
    for i, number in enumerate([2, 3, 1, 0, 4]):
        assert np.array_equal(source.load(i), picture(number))


def test_flat_folder_is_unlabelled(tmp_path: Path, classes_folder: Path) -> None:
    put(tmp_path / "flat" / "a.png")
    flat = FolderSource(tmp_path / "flat")
    assert flat.labels.tolist() == [-1]
    assert flat.classes == ()
    hidden = FolderSource(classes_folder, labelled=False)
    assert len(hidden) == 5
    assert set(hidden.labels.tolist()) == {-1}
    put(tmp_path / "flat" / "more" / "b.png")
    both = FolderSource(tmp_path / "flat", labelled=False)
    assert [both.name(i) for i in range(2)] == ["a.png", "more/b.png"]


def test_given_classes_fix_the_numbers(classes_folder: Path) -> None:
    source = FolderSource(classes_folder, classes=("Eel 3", "newt", "dog", "cat"))
    assert source.labels.tolist() == [3, 3, 2, 2, 0]
    with pytest.raises(DataError, match="'cat', none of the 2"):
        FolderSource(classes_folder, classes=("dog", "Eel 3"))


def test_links_are_followed_and_loops_cut(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    put(root / "a" / "1.png", 1)
    put(other / "2.png", 2)
    (root / "b").symlink_to(other)
    (root / "a" / "again").symlink_to(root / "a")
    (root / "a" / "up").symlink_to(root)
    (root / "a" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    (root / "a" / "self.png").symlink_to(root / "a" / "self.png")
    source = FolderSource(root)
    names = [source.name(i) for i in range(len(source))]
    assert names == ["a/1.png", "a/gone.png", "a/self.png", "b/2.png"]
    assert np.array_equal(source.load(3), picture(2))
    for i in (1, 2):
        with pytest.raises(DataError, match="cannot be opened"):
            source.load(i)


def test_folders_that_are_refused(tmp_path: Path, classes_folder: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        FolderSource(tmp_path / "nowhere")
    (tmp_path / "empty" / "a").mkdir(parents=True)
    (tmp_path / "empty" / "readme.txt").write_text("nothing")
    with pytest.raises(DataError, match=r"holds no images; .*\.png, \.jpg"):
        FolderSource(tmp_path / "empty")
    (tmp_path / "empty" / "a" / "IMG_1.HEIC").write_bytes(b"phone")
    with pytest.raises(DataError, match=r"1 such as IMG_1\.HEIC; save"):
        FolderSource(tmp_path / "empty", labelled=True)
    (tmp_path / "empty" / "manifest.json").write_text("{}")
    with pytest.raises(DataError, match="looks like a model"):
        FolderSource(tmp_path / "empty", labelled=True)
    put(tmp_path / "flat" / "1.png")
    with pytest.raises(DataError, match=r"has no labels.*wild"):
        FolderSource(tmp_path / "flat", labelled=True)
    put(classes_folder / "loose.png")
    with pytest.raises(DataError, match=r"both images \(loose.png\)"):
        FolderSource(classes_folder)
    with pytest.raises(DataError, match=r"loose\.png lies beside them"):
        FolderSource(classes_folder, labelled=True)
    assert len(FolderSource(classes_folder, labelled=False)) == 6


def test_a_fingerprint_changes_with_the_files(classes_folder: Path) -> None:
    first = FolderSource(classes_folder).fingerprint()
    assert FolderSource(classes_folder).fingerprint() == first
    os.utime(classes_folder / "dog" / "2.png", ns=(1, 1))
    assert FolderSource(classes_folder).fingerprint() != first
    part = SubsetSource(FolderSource(classes_folder), [0, 1])
    assert part.fingerprint() != SubsetSource(FolderSource(classes_folder), [1, 0]).fingerprint()


PICTURES = np.stack([picture(i) for i in range(5)])  # (5, 6, 8, 3)


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (PICTURES, PICTURES),
        (torch.from_numpy(PICTURES.transpose(0, 3, 1, 2).copy()), PICTURES),
        (PICTURES[..., 0], np.repeat(PICTURES[..., :1], 3, axis=3)),
        (PICTURES[..., :1], np.repeat(PICTURES[..., :1], 3, axis=3)),
        (PICTURES[..., 0][:, None], np.repeat(PICTURES[..., :1], 3, axis=3)),
        (PICTURES / np.float64(255), PICTURES),
        ((torch.from_numpy(PICTURES) > 99).bfloat16(), (PICTURES > 99) * np.uint8(255)),
        (np.concatenate([PICTURES, np.full((5, 6, 8, 1), 255, np.uint8)], axis=3), PICTURES),
    ],
)
def test_arrays(images: Any, expected: np.ndarray) -> None:
    source = ArraySource(images, [0, 1, 1, -1, 0])
    assert len(source) == 5
    assert source.classes == ("0", "1")
    assert source.labels.tolist() == [0, 1, 1, -1, 0]
    for i in range(5):
        assert np.array_equal(source.load(i), expected[i])


def test_array_labels_by_name_and_layout_by_word() -> None:
    source = ArraySource(PICTURES, ["dog", "cat", "dog", "eel", "cat"], names=list("abcde"))
    assert source.classes == ("cat", "dog", "eel")
    assert source.labels.tolist() == [1, 0, 1, 2, 0]
    assert source.name(2) == "c"
    square = np.arange(18, dtype=np.uint8).reshape(1, 3, 2, 3)
    assert np.array_equal(ArraySource(square, layout="nhwc").load(0), square[0])
    assert np.array_equal(ArraySource(square, layout="nchw").load(0), square[0].transpose(1, 2, 0))
    with pytest.raises(InputError, match=r"channels .*layout="):
        ArraySource(square)
    digits = load_digits_images().subset(range(7))
    again = ArraySource.from_images(digits)
    assert again.labels.tolist() == digits.labels.tolist()
    assert np.array_equal(again.load(6), digits.images[6].permute(1, 2, 0))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ArraySource(np.zeros((2, 3), np.uint8)), r"got \(2, 3\)"),
        (lambda: ArraySource(np.zeros((2, 5, 5, 2), np.uint8)), r"got \(2, 5, 5, 2\)"),
        (lambda: ArraySource(np.zeros((2, 0, 5, 3), np.uint8)), r"got \(2, 0, 5, 3\)"),
        (lambda: ArraySource(PICTURES, [0, 1]), r"labels must have one entry per image \(5\), got 2"),
        (lambda: ArraySource(PICTURES, [0, 1, 2, 0, 1], ("a", "b")), r"\[0, 1\] for 2 classes, got 2"),
        (lambda: ArraySource(PICTURES, [0, -3, 2, 0, 1]), "got -3"),
        (lambda: ArraySource(PICTURES, [0.5] * 5), "whole numbers or names"),
        (lambda: ArraySource(PICTURES, [[0]] * 5), "one-dimensional"),
        (lambda: ArraySource(PICTURES, ["a", "b", "a", "a", "c"], ("a", "b")), "'c' is none of the 2 classes"),
        (lambda: ArraySource(PICTURES, layout="hwc"), "layout must be one of"),
    ],
)
def test_arrays_that_are_refused(make: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()


class Pairs(Dataset):  # type: ignore[type-arg]
    """(Pillow image, label) pairs; item 2 is broken."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> tuple[Image.Image, int]:
        if i == 2:
            raise RuntimeError("disk\nfell off")
        return Image.fromarray(picture(i)), i % 2


class WithTargets(Pairs):
    targets = (5, 6, 7, 6)
    classes = tuple("abcdefgh")


class Rows:
    """As a Hugging Face data set looks: named columns, dict items, features with class names."""

    class _Label:
        names = ("no", "yes")

    column_names = ("image", "label")
    features = {"label": _Label()}  # noqa: RUF012

    def __len__(self) -> int:
        return 3

    def __getitem__(self, key: Any) -> Any:
        return [1, 0, 1] if key == "label" else {"image": Image.fromarray(picture(key)), "label": [1, 0, 1][key]}


def test_data_sets() -> None:
    source = DatasetSource(Pairs())
    assert source.labels.tolist() == [0, 1, -1, 1]
    assert np.array_equal(source.load(3), picture(3))
    with pytest.raises(DataError, match=r"item 2 .*RuntimeError: disk fell off"):
        source.load(2)
    known = DatasetSource(WithTargets())
    assert known.labels.tolist() == [5, 6, 7, 6]
    assert known.classes == tuple("abcdefgh")
    part = DatasetSource(Subset(WithTargets(), [3, 0]))
    assert part.labels.tolist() == [6, 5]
    assert np.array_equal(part.load(0), picture(3))
    tensors = TensorDataset(torch.from_numpy(PICTURES).permute(0, 3, 1, 2), torch.arange(5))
    assert DatasetSource(tensors).labels.tolist() == [0, 1, 2, 3, 4]
    assert np.array_equal(DatasetSource(tensors).load(4), PICTURES[4])
    bare = DatasetSource(TensorDataset(torch.from_numpy(PICTURES)))
    assert bare.labels.tolist() == [-1] * 5
    assert np.array_equal(bare.load(1), PICTURES[1])
    rows = DatasetSource(Rows())
    assert rows.labels.tolist() == [1, 0, 1]
    assert rows.classes == ("no", "yes")
    assert np.array_equal(rows.load(2), picture(2))


def test_data_sets_with_names_for_labels_and_images_that_break_late(tmp_path: Path) -> None:
    data = encode(picture(0, 64, 64), "JPEG")
    (tmp_path / "half.jpg").write_bytes(data[: len(data) // 2])

    class Named(Pairs):
        def __getitem__(self, i: int) -> Any:
            if i == 3:
                return Image.open(tmp_path / "half.jpg"), "newt"  # opens, and fails only when its pixels are read
            return super().__getitem__(i)[0], "ab"[i % 2]

    source = DatasetSource(Named())
    assert source.classes == ("a", "b", "newt")
    assert source.labels.tolist() == [0, 1, -1, 2]
    with pytest.raises(DataError, match=r"damaged image: .*truncated"):
        source.load(3)


def test_data_sets_that_are_refused() -> None:
    class Endless(IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            return iter(())

    class Odd(Pairs):
        def __getitem__(self, i: int) -> Any:
            return {"picture": 1} if i else ()

    with pytest.raises(InputError, match="Endless has no length"):
        DatasetSource(Endless())
    with pytest.raises(DataError, match="key 'image', got picture"):
        DatasetSource(Odd()).load(1)
    with pytest.raises(DataError, match="got nothing"):
        DatasetSource(Odd()).load(0)


@pytest.mark.parametrize("labels", [[{"boxes": 1}] * 5, [[0, 1]] * 5, [float("nan")] * 5, [7, "a", None, 2.5, 1]])
def test_labels_that_nobody_wants_may_be_anything(tmp_path: Path, labels: Any) -> None:
    """A wild pool of a data set for detection, or with several labels an image; nor is it gone through for them."""

    class Boxes(Dataset):  # type: ignore[type-arg]
        asked = 0

        def __len__(self) -> int:
            return 5

        def __getitem__(self, i: int) -> Any:
            self.asked += 1
            return Image.fromarray(picture(i)), labels[i]

    boxes = Boxes()
    np.savez(tmp_path / "a.npz", images=PICTURES, labels=np.zeros((5, 2)))
    for thing in (boxes, (PICTURES, labels), tmp_path / "a.npz"):
        source = open_source(thing, labelled=False)
        assert source.labels.tolist() == [-1] * 5
        assert source.classes == ()
        assert np.array_equal(source.load(3), picture(3))
    assert boxes.asked == 1


def test_numbers_may_stand_beside_missing_labels() -> None:
    """As pandas and Hugging Face give a column of whole numbers in which some are missing."""
    for labels in ([1, None, 0, 2, None], np.array([1, None, np.int64(0), 2, None], dtype=object)):
        source = ArraySource(PICTURES, labels)
        assert source.labels.tolist() == [1, -1, 0, 2, -1]
        assert source.classes == ("0", "1", "2")
    pairs = list(zip(PICTURES, [1, None, 0, 2, None], strict=True))
    assert DatasetSource(pairs).labels.tolist() == [1, -1, 0, 2, -1]


@pytest.mark.parametrize("labels", [[[0], [1, 2], [], [0], [1]], list(torch.eye(5)), [[0, 1]] * 5])
def test_several_labels_an_image_are_refused_in_one_line(labels: Any) -> None:
    for make in (lambda: DatasetSource(list(zip(PICTURES, labels, strict=True))), lambda: ArraySource(PICTURES, labels)):
        with pytest.raises(InputError, match="labels must be one-dimensional"):
            make()


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_one_image_is_not_taken_for_many_grey_ones(channels: int) -> None:
    """A screenshot as an array: 40 rows are no 40 images of 3 pixels across."""
    one = np.zeros((40, 60, channels), np.uint8)
    with pytest.raises(InputError, match=rf"\(40, 60, {channels}\).*layout='nhw'"):
        ArraySource(one)
    assert len(ArraySource(one, layout="nhw")) == 40
    assert len(ArraySource(one[None])) == 1


def test_subset() -> None:
    whole = ArraySource(PICTURES, [0, 1, 2, 0, 1])
    part = SubsetSource(whole, [4, 4, 1])
    assert part.labels.tolist() == [1, 1, 1]
    assert [part.name(i) for i in range(3)] == ["4", "4", "1"]
    assert np.array_equal(part.load(2), PICTURES[1])
    assert SubsetSource(whole, [0], labelled=False).classes == ()
    for indices in ([5], [-1]):
        with pytest.raises(InputError, match=r"\[0, 5\)"):
            SubsetSource(whole, indices)
    for wrong in (np.ones(5, dtype=bool), [0.5], ["a"]):  # a mask would be read as the rows 0 and 1
        with pytest.raises(InputError, match=r"whole numbers.*numpy.flatnonzero\(mask\)"):
            SubsetSource(ArraySource(PICTURES), wrong)
    assert len(SubsetSource(ArraySource(PICTURES), [])) == 0


def test_open_source_finds_out(tmp_path: Path, classes_folder: Path) -> None:
    np.savez(tmp_path / "a.npz", images=PICTURES, labels=np.arange(5))
    np.save(tmp_path / "a.npy", PICTURES)
    file = put(tmp_path / "one.png")
    cases: list[tuple[Any, type[ImageSource], int]] = [
        (str(classes_folder), FolderSource, 5),
        (classes_folder, FolderSource, 5),
        (file, FilesSource, 1),
        ([file, str(file)], FilesSource, 2),
        (tmp_path / "a.npz", ArraySource, 5),
        (tmp_path / "a.npy", ArraySource, 5),
        (PICTURES, ArraySource, 5),
        ((torch.from_numpy(PICTURES), [0, 1, 2, 0, 1]), ArraySource, 5),
        (load_digits_images(), ArraySource, 1797),
        (WithTargets(), DatasetSource, 4),
    ]
    for thing, kind, length in cases:
        source = open_source(thing)
        assert type(source) is kind
        assert len(source) == length
    assert open_source(source) is source
    assert open_source(tmp_path / "a.npz").labels.tolist() == [0, 1, 2, 3, 4]


def test_open_source_with_and_without_labels(tmp_path: Path, classes_folder: Path) -> None:
    assert open_source(classes_folder, labelled=True).labels.tolist() == [0, 0, 1, 1, 2]
    for thing in (classes_folder, (PICTURES, np.arange(5)), WithTargets()):
        hidden = open_source(thing, labelled=False)
        assert set(hidden.labels.tolist()) == {-1}
        assert hidden.classes == ()
    with pytest.raises(DataError, match=r"has no labels.*sub-folder per class"):
        open_source(PICTURES, labelled=True)


def test_open_source_explains_itself(tmp_path: Path) -> None:
    (tmp_path / "x.doc").write_text("letter")
    (tmp_path / "bad.npz").write_text("not numpy")
    np.savez(tmp_path / "other.npz", features=np.zeros(3))
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    for thing, says in [
        (tmp_path / "nowhere", "does not exist; expected a folder of images"),
        (tmp_path / "x.dok", r"does not exist; did you mean .*x\.doc\?"),
        (tmp_path / "x.doc", "none of the files wildspec reads"),
        (tmp_path / "bad.npz", "not a readable numpy file"),
        (tmp_path / "pickled.npy", "not a readable numpy file"),
        (tmp_path / "other.npz", "array named 'images', it has features"),
        ([tmp_path, tmp_path], "is a folder; open folders one at a time"),
    ]:
        with pytest.raises((DataError, InputError), match=says):
            open_source(thing)
    for thing in (3, None, [1, 2], [], {"a": 1}, b"bytes"):
        with pytest.raises(InputTypeError, match="cannot read images from"):
            open_source(thing)


def test_open_source_prefers_parquet_where_there_is_some(tmp_path: Path) -> None:
    from image_files import write_parquet

    write_parquet(tmp_path / "a-0.parquet", [encode(picture())], [0])
    write_parquet(tmp_path / "a-1.parquet", [encode(picture())], [0])
    assert type(open_source(tmp_path)) is ParquetSource
    assert len(open_source([tmp_path / "a-1.parquet", tmp_path / "a-0.parquet"])) == 2
    assert open_source(tmp_path / "a-0.parquet", labelled=False).labels.tolist() == [-1]


# -- large photographs -------------------------------------------------------------------------------------------------
def photographs(folder: Path) -> list[bytes]:
    """Two JPEG files and a PNG; the second says that it lies on its side."""
    y, x = np.mgrid[:320, :480]
    pixels = np.dstack([x // 2, y // 2, (x + y) // 4]).astype(np.uint8)
    lying = Image.Exif()
    lying[0x0112] = 6
    files = [encode(pixels, "JPEG"), encode(pixels, "JPEG", exif=lying), encode(pixels)]
    folder.mkdir()
    for name, data in zip(("a.jpg", "b.jpg", "c.png"), files, strict=True):
        (folder / name).write_bytes(data)
    return files


def test_every_source_of_files_reduces_them_alike(tmp_path: Path) -> None:
    files = photographs(tmp_path / "p")
    table = pa.table({"image": pa.array([{"bytes": data, "path": None} for data in files])})
    pq.write_table(table, tmp_path / "p.parquet")
    folder = FolderSource(tmp_path / "p")
    sources = [
        folder, ParquetSource(tmp_path / "p.parquet"), DatasetSource([{"image": {"bytes": data}} for data in files]),
        DatasetSource([{"image": {"path": str(path)}} for path in folder.paths]), SubsetSource(folder, [0, 1, 2]),
        PlainNames(folder),
    ]  # fmt: skip
    for source in sources:
        for i, data in enumerate(files):
            found = source.reduced(i, 20)
            assert np.array_equal(found, decode(data, side=20))
            assert min(found.shape[:2]) == (80 if i < 2 else 320)
            assert np.array_equal(source.load(i), decode(data))
            assert source.shorter_side(i) == 320


def test_other_sources_give_the_image_as_it_is() -> None:
    source = ArraySource(np.zeros((2, 40, 60, 3), np.uint8))
    assert source.reduced(1, 4).shape == (40, 60, 3)
    assert source.shorter_side(1) == 40
