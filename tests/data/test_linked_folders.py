"""Folders that lead to one another, by links or by depth: every image once, in the place where it lies."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from image_files import encode, picture, put

from wildspec.data import FolderSource
from wildspec.data.folder import images_under, left_out, not_read
from wildspec.data.parquet import holds_parquet


def found(root: Path, labelled: bool = False) -> list[str]:
    source = FolderSource(root, labelled=labelled)
    assert list(images_under(root)) == source.paths
    return [source.name(i) for i in range(len(source))]


def test_a_link_to_a_folder_beside_it_doubles_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    put(root / "run" / "deep" / "1.png")
    put(root / "run" / "2.png")
    (root / "latest").symlink_to(root / "run")  # comes first by name
    assert found(root) == ["run/2.png", "run/deep/1.png"]
    source = FolderSource(root, labelled=True)
    assert [source.classes[label] for label in source.labels] == ["run", "run"]
    put(tmp_path / "3.png")
    (root / "above").symlink_to(tmp_path)  # leads to 3.png, and back to all the others
    assert found(root) == ["above/3.png", "run/2.png", "run/deep/1.png"]


def test_seven_folders_linked_to_one_another(tmp_path: Path) -> None:
    names = [f"f{i}" for i in range(7)]
    for number, name in enumerate(names):
        put(tmp_path / name / "z.png", number)
        for other in names:
            if other != name:
                (tmp_path / name / other).symlink_to(tmp_path / other)
    assert found(tmp_path) == [f"{name}/z.png" for name in names]


def test_a_folder_that_lies_elsewhere_is_followed_once(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    put(other / "in" / "1.png")
    put(root / "b" / "2.png")
    put(root / ".store" / "3.png")
    (other / "back").symlink_to(root / "b")
    for name in ("a", "c"):
        (root / name).symlink_to(other)
    (root / "shown").symlink_to(root / ".store")  # hidden, so it is not read where it lies
    assert found(root) == ["a/in/1.png", "b/2.png", "shown/3.png"]


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """1,100 folders in one another, ``bottom`` in the last; taken away by hand, since shutil.rmtree calls itself too."""
    here = os.getcwd()
    os.chdir(tmp_path)
    for _ in range(1100):
        os.mkdir("d")
        os.chdir("d")
    Path("bottom.png").write_bytes(encode(picture()))
    Path("bottom.heic").write_bytes(b"phone")
    os.chdir(here)
    yield tmp_path
    os.chdir(tmp_path.joinpath(*["d"] * 1100))
    for path in list(Path(".").iterdir()):
        path.unlink()
    for _ in range(1100):
        os.chdir("..")
        os.rmdir("d")
    os.chdir(here)


def test_folders_deeper_than_python_calls(deep: Path) -> None:
    assert found(deep) == ["d/" * 1100 + "bottom.png"]
    assert [path.name for path in not_read(deep)] == ["bottom.heic"]
    assert left_out(deep) == []
    (deep / "d" / "x.parquet").touch()
    assert not holds_parquet(deep / "d")
    (deep / "d" / "x.parquet").unlink()
