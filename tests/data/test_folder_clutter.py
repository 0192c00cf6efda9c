"""What systems leave in folders of images is no class and no image of ours."""

from pathlib import Path

import pytest
from image_files import put

from wildspec.data import FolderSource, open_source
from wildspec.data.folder import left_out, natural_key
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
