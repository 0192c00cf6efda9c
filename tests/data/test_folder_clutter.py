"""What systems leave in folders of images is no class and no image of ours."""

from pathlib import Path

import pytest
from image_files import put

from wildspec.data import FolderSource, open_source
from wildspec.data.folder import left_out, natural_key
from wildspec.errors import DataError
from wildspec.serving.inputs import open_inputs


@pytest.mark.parametrize("name", ["__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information", ".ipynb_checkpoints"])
def test_what_systems_leave_behind_is_no_class(classes_folder: Path, name: str) -> None:
    before = FolderSource(classes_folder)
    put(classes_folder / name / "dog" / "2.png")
    put(classes_folder / "dog" / name / "2.png")
    (classes_folder / "dog" / "Thumbs.db").write_bytes(b"x")
    after = FolderSource(classes_folder)
    assert (after.classes, after.paths) == (before.classes, before.paths)
    assert FolderSource(classes_folder, labelled=False).paths == before.paths
    hidden = classes_folder / ".hidden"
    assert left_out(classes_folder) == sorted(
        [hidden, classes_folder / name, classes_folder / "dog" / name], key=lambda path: natural_key(path.as_posix())
    )


def test_a_folder_asked_for_by_its_hidden_name_is_read(classes_folder: Path) -> None:
    assert len(FolderSource(classes_folder / ".hidden")) == 1


def test_a_hidden_shard_does_not_make_a_folder_of_images_one_of_tables(classes_folder: Path) -> None:
    (classes_folder / "._shard.parquet").write_bytes(b"what a Mac puts into archives")
    assert open_source(classes_folder, labelled=True).classes == ("cat", "dog", "Eel 3", "zebra")
    [source] = open_inputs([str(classes_folder)])
    assert len(source) == 5


@pytest.mark.parametrize("parts", [("train", "val", "test"), ("Train", "Validation"), ("training", "testing")])
def test_the_parts_of_a_data_set_are_no_classes(tmp_path: Path, parts: tuple[str, ...]) -> None:
    for part in parts:
        for name in ("cat", "dog"):
            put(tmp_path / part / name / "1.png")
    for labelled in (True, None):
        with pytest.raises(DataError, match=rf"{parts[-1]}.*give .*{parts[0]}$"):
            FolderSource(tmp_path, labelled=labelled)
    assert FolderSource(tmp_path / parts[0], labelled=True).classes == ("cat", "dog")
    assert len(FolderSource(tmp_path, labelled=False)) == 2 * len(parts)


def test_a_train_beside_a_bus_is_a_class(tmp_path: Path) -> None:
    for name in ("bus", "train"):
        put(tmp_path / name / "1.png")
    assert FolderSource(tmp_path, labelled=True).classes == ("bus", "train")
