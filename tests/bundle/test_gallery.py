"""Pictures come back byte for byte, for the rows they were kept for, and inconsistent ones are refused."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from wildspec.bundle.gallery import SIDE, Gallery, data_uri, encode
from wildspec.data import ArraySource
from wildspec.data.source import ImageSource
from wildspec.errors import CheckpointError, DataError


@pytest.fixture
def source(rng: np.random.Generator) -> ImageSource:
    return ArraySource(rng.integers(0, 256, size=(9, 10, 14, 3), dtype=np.uint8))


def test_tiny_pictures_are_exact_and_square(source: ImageSource) -> None:
    again = np.asarray(Image.open(io.BytesIO(encode(source.load(3)))))
    assert np.array_equal(again, source.load(3)[:, 2:12])  # the centre
    assert data_uri(encode(source.load(3))).startswith("data:image/png;base64,")


def test_large_pictures_are_small_jpegs(rng: np.random.Generator) -> None:
    smooth = np.linspace(0, 255, 300 * 200 * 3).reshape(300, 200, 3).astype(np.uint8)
    picture = Image.open(io.BytesIO(encode(smooth)))
    assert (picture.format, picture.size) == ("JPEG", (SIDE, SIDE))
    expected = np.asarray(Image.fromarray(smooth[50:250]).resize((SIDE, SIDE), Image.Resampling.BOX), dtype=int)
    assert np.abs(np.asarray(picture, dtype=int) - expected).mean() < 4
    assert data_uri(encode(smooth)).startswith("data:image/jpeg;base64,")


def test_each_row_has_its_own_picture(source: ImageSource) -> None:
    numbers = np.array([8, 7, 6, 5, 4])  # sample i is item numbers[i] of the source
    gallery = Gallery.make(source, numbers, [4, 0, 2, 0])
    again = Gallery.from_tensors(gallery.to_tensors("x"), "x")
    assert again.rows.tolist() == [0, 2, 4]
    for row in range(5):
        expected = encode(source.load(int(numbers[row]))) if row in (0, 2, 4) else None
        assert again.get(row) == expected


def test_an_unreadable_image_has_no_picture(source: ImageSource, monkeypatch: pytest.MonkeyPatch) -> None:
    load = source.load

    def broken(i: int) -> np.ndarray:
        if i == 1:
            raise DataError("damaged")
        return load(i)

    monkeypatch.setattr(source, "load", broken)
    assert Gallery.make(source, np.arange(9), range(3)).rows.tolist() == [0, 2]


def test_none_at_all() -> None:
    gallery = Gallery.from_tensors(Gallery.empty().to_tensors("x"), "x")
    assert len(gallery) == 0
    assert gallery.get(0) is None


@pytest.mark.parametrize("name", ["rows", "data", "ends"])
def test_inconsistent_pictures_are_refused(source: ImageSource, name: str) -> None:
    tensors = Gallery.make(source, np.arange(9), range(3)).to_tensors("x")
    damaged = {**tensors, f"x.{name}": torch.cat([tensors[f"x.{name}"], tensors[f"x.{name}"][:1]])}
    with pytest.raises(CheckpointError, match="inconsistent"):
        Gallery.from_tensors(damaged, "x")
    with pytest.raises(CheckpointError, match=f"'x.{name}' is missing"):
        Gallery.from_tensors({k: v for k, v in tensors.items() if k != f"x.{name}"}, "x")
