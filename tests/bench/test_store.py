"""Decoded sets and the files they came from: which file counts as the one that was decoded, and when it is decoded anew."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.bench.tiny import pictures, write_shard, write_split

import wildspec.bench.store as module
from wildspec.bench.store import Store
from wildspec.errors import DataError

NAME = "test-00000-of-00001"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """SVHN's test split, two images of two classes, decoded at 8 pixels."""
    write_split(tmp_path / "data" / "svhn", "test", 1, 2, ("a", "b"), seed=0)
    made = Store(tmp_path / "data", tmp_path / "cache")
    assert made.decode("svhn", "test", 8) == 1
    return made


def shard(store: Store) -> Path:
    return store.data / "svhn" / f"{NAME}.parquet"


def note(store: Store) -> Path:
    return store.cache / "svhn" / f"{NAME}.8.json"


def other_labels(store: Store) -> None:
    """The same shard with other labels: another file of the same size."""
    before = shard(store).stat()
    write_shard(shard(store), pictures(np.array([0, 1, 0, 1]), 0), np.array([1, 0, 1, 0]), ("a", "b"))
    assert shard(store).stat().st_size == before.st_size, "or the test is of nothing"


def test_a_changed_shard_of_the_same_size_is_decoded_anew(store: Store) -> None:
    assert store.load("svhn", "test", 8).labels.tolist() == [0, 1, 0, 1]
    other_labels(store)
    assert store.load("svhn", "test", 8).labels.tolist() == [1, 0, 1, 0]
    assert json.loads(note(store).read_text())["sha256"] == hashlib.sha256(shard(store).read_bytes()).hexdigest()


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files that were read whole."""
    found: list[Path] = []
    plain = module.sha256_file
    monkeypatch.setattr(module, "sha256_file", lambda path: found.append(path) or plain(path))
    return found


def test_the_same_file_copied_anew_is_read_once_and_not_decoded(store: Store, hashed: list[Path]) -> None:
    assert store.decode("svhn", "test", 8) == 0
    assert hashed == [], "an untouched file is not even read"
    os.utime(shard(store), ns=(1, 1))
    assert [store.decode("svhn", "test", 8) for _ in range(3)] == [0, 0, 0]
    assert hashed == [shard(store)]


@pytest.mark.parametrize("changed", [False, True])
def test_a_cache_of_an_earlier_version_is_checked_by_content(store: Store, hashed: list[Path], changed: bool) -> None:
    """Its mark is the size alone."""
    facts = json.loads(note(store).read_text())
    note(store).write_text(json.dumps({**facts, "mark": str(shard(store).stat().st_size)}))
    if changed:
        other_labels(store)
    assert [store.decode("svhn", "test", 8) for _ in range(2)] == [int(changed), 0]
    assert len(hashed) == 1
    assert store.load("svhn", "test", 8).labels.tolist() == ([1, 0, 1, 0] if changed else [0, 1, 0, 1])


def test_a_cache_that_cannot_be_written_serves_too(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, value: object) -> None:
        raise DataError(f"cannot write {path}: Read-only file system")

    os.utime(shard(store), ns=(1, 1))
    monkeypatch.setattr(module, "write_json", full)
    assert len(store.load("svhn", "test", 8)) == 4


def test_a_shard_that_changes_while_it_is_read_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = module.load_images

    def slowly(*rest: object, **more: object) -> object:
        found = plain(*rest, **more)  # type: ignore[arg-type]
        os.utime(shard(store), ns=(2, 2))
        return found

    monkeypatch.setattr(module, "load_images", slowly)
    other_labels(store)
    before = note(store).read_text()
    with pytest.raises(DataError, match=r"\.parquet changed while it was read"):
        store.decode("svhn", "test", 8)
    assert note(store).read_text() == before


def test_killed_between_the_arrays_nothing_half_new_is_left(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """New pixels and old labels must not be taken for a whole shard, even when the file itself is gone by then."""
    plain, saved = np.save, []

    def killed(stream: object, array: np.ndarray) -> None:
        if saved:
            raise KeyboardInterrupt
        saved.append(True)
        plain(stream, array)  # type: ignore[call-overload]

    other_labels(store)
    monkeypatch.setattr(module.np, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        store.decode("svhn", "test", 8)
    monkeypatch.undo()
    shard(store).unlink()
    assert not store.available("svhn", "test")


def test_a_set_divided_anew_is_not_mixed_with_what_is_left_of_the_old_division(tmp_path: Path) -> None:
    """One file in the cache, then half of the same set in two shards, then both."""
    folder, store = tmp_path / "data" / "svhn", Store(tmp_path / "data", tmp_path / "cache")
    write_split(folder, "test", 1, 2, ("a", "b"), seed=0)
    (folder / f"{NAME}.parquet").rename(folder / "test.parquet")
    assert store.load("svhn", "test", 8).names[0] == "test#0"
    write_split(folder, "test", 2, 4, ("a", "b"), seed=1)
    last = (folder / "test-00001-of-00002.parquet").rename(tmp_path / "later.parquet")
    assert len(store.load("svhn", "test", 8)) == 4, "the only whole one"
    (folder / "test.parquet").unlink()
    assert len(store.load("svhn", "test", 8)) == 4
    last.rename(folder / "test-00001-of-00002.parquet")
    assert len(store.load("svhn", "test", 8)) == 8, "both are whole, of this one the files are here"
    write_split(folder, "train", 3, 3, ("a", "b"), seed=0)
    store.load("svhn", "train", 8)
    (folder / "train-00002-of-00003.parquet").unlink()
    (tmp_path / "cache" / "svhn" / "train-00002-of-00003.8.json").unlink()
    write_split(folder, "train", 4, 4, ("a", "b"), seed=0)
    (folder / "train-00003-of-00004.parquet").unlink()
    assert store.missing("svhn", "train") == ["train-00003-of-00004.parquet"]


def test_one_file_under_two_names_is_read_once(store: Store) -> None:
    (store.data / "svhn" / "test.parquet").write_bytes(shard(store).read_bytes())
    assert store.available("svhn", "test")
    assert len(store.load("svhn", "test", 8)) == 4


def write_folder(folder: Path, labels: list[int]) -> None:
    for number, (label, image) in enumerate(zip(labels, pictures(np.array(labels), 0, size=16), strict=True)):
        path = folder / f"class{label}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)


def test_a_folder_is_decoded_at_another_size_and_anew_when_it_grows(tmp_path: Path) -> None:
    write_folder(tmp_path / "svhn" / "test", [0, 1, 0])
    store = Store(tmp_path, tmp_path / "cache")
    assert len(store.load("svhn", "test", 8)) == 3
    assert store.load("svhn", "test", 16).image_size == (16, 16)
    write_folder(tmp_path / "svhn" / "test", [0, 1, 0, 1])
    assert len(Store(tmp_path, tmp_path / "cache").load("svhn", "test", 8)) == 4
    gone = Store(tmp_path / "gone", tmp_path / "cache")
    assert len(gone.load("svhn", "test", 8)) == 4, "the arrays are enough"
    with pytest.raises(DataError, match="another size than 32"):
        gone.load("svhn", "test", 32)
