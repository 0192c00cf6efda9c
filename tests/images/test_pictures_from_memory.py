"""Thumbnails: from images as they were read, where those are good for it, else from their files."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from wildspec.bundle.gallery import Gallery
from wildspec.data import FolderSource, StreamingImages, load_images
from wildspec.errors import DataError
from wildspec.images.pictures import pictures_of


def folder_of(path: Path, side: int, count: int = 5) -> FolderSource:
    path.mkdir()
    y, x = np.mgrid[:side, : 2 * side] / side
    for i in range(count):
        waves = np.dstack([np.sin(9 * x + i), np.cos(7 * y + i), np.sin(5 * (x + y) * (1 + i))])
        Image.fromarray((120 + 100 * waves).astype(np.uint8)).save(path / f"{i}.png")
    return FolderSource(path)


def pixels(gallery: Gallery, row: int) -> np.ndarray:
    found = gallery.get(row)
    assert found is not None
    return np.asarray(Image.open(io.BytesIO(found))).astype(int)


@pytest.mark.parametrize("streamed", [False, True])
def test_images_in_memory_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed: bool) -> None:
    source = folder_of(tmp_path / "p", 200)
    (tmp_path / "p" / "1.png").write_bytes(b"torn")
    images = (StreamingImages if streamed else load_images)(source, 160, max_unreadable=0.2)
    rows = [3, 0, 3]
    again = Gallery.make(source, images.kept, rows, 96)
    if not streamed:
        monkeypatch.setattr(source, "reduced", lambda i, side: pytest.fail("read again"))
    found = pictures_of(source, images, rows, 96)
    assert found.rows.tolist() == again.rows.tolist() == [0, 3]
    for row in (0, 3):
        assert pixels(found, row).shape == (96, 96, 3)
        assert np.abs(pixels(found, row) - pixels(again, row)).mean() < 3  # resized twice, and JPEG
    assert np.abs(pixels(found, 0) - pixels(found, 3)).mean() > 20


@pytest.mark.parametrize(("side", "size"), [(200, 64), (50, 160)])
def test_what_was_made_small_or_large_is_read_again(tmp_path: Path, side: int, size: int) -> None:
    source = folder_of(tmp_path / "p", side)
    images = load_images(source, size)
    found, again = pictures_of(source, images, [1, 2], 96), Gallery.make(source, images.kept, [1, 2], 96)
    assert found.data.tobytes() == again.data.tobytes()
    assert pixels(found, 1).shape == (min(side, 96), min(side, 96), 3)


def test_files_that_are_gone_have_no_picture(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "p", 50)
    images = load_images(source, 160)
    (tmp_path / "p" / "2.png").unlink()
    with pytest.raises(DataError):
        source.load(2)
    assert pictures_of(source, images, range(5), 96).rows.tolist() == [0, 1, 3, 4]
