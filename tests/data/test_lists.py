"""Images as lists: of Pillow images, arrays and files, with labels beside them or in pairs."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from image_files import picture, put
from PIL import Image

from wildspec.data import open_source
from wildspec.errors import InputError

PILLOWS = [Image.fromarray(picture(i)) for i in range(3)]
NAMES = ["cat", "dog", "cat"]


@pytest.mark.parametrize(
    "thing",
    [
        list(zip(PILLOWS, NAMES, strict=True)),
        list(zip(PILLOWS, NAMES, range(3), strict=True)),
        [{"image": image, "label": name} for image, name in zip(PILLOWS, NAMES, strict=True)],
        (PILLOWS, NAMES),
        (tuple(PILLOWS), np.array(NAMES)),
        ([np.asarray(image) for image in PILLOWS], NAMES),
        [PILLOWS, NAMES],
    ],
)
def test_images_of_a_list_with_labels(thing: Any) -> None:
    source = open_source(thing, labelled=True)
    assert source.classes == ("cat", "dog")
    assert source.labels.tolist() == [0, 1, 0]
    assert [np.array_equal(source.load(i), picture(i)) for i in range(3)] == [True] * 3
    assert open_source(thing, labelled=False).labels.tolist() == [-1] * 3


@pytest.mark.parametrize("kind", [list, tuple, pd.Series, lambda paths: np.array(list(map(str, paths)))])
def test_files_of_a_list_with_labels(tmp_path: Path, kind: Any) -> None:
    files = [put(tmp_path / f"{i}.png", i) for i in range(3)]
    source = open_source((kind(files), NAMES))
    assert source.labels.tolist() == [0, 1, 0]
    assert [Path(source.name(i)) for i in range(3)] == files
    assert np.array_equal(source.load(2), picture(2))
    assert len(open_source(kind(files))) == 3


@pytest.mark.parametrize("count", [1, 2, 3])
def test_pairs_of_file_and_label(tmp_path: Path, count: int) -> None:
    pairs = [(put(tmp_path / f"{i}.png", i), NAMES[i]) for i in range(count)]
    source = open_source(pairs)
    assert [source.classes[label] for label in source.labels] == NAMES[:count]
    assert np.array_equal(source.load(count - 1), picture(count - 1))


def test_two_images_are_no_images_with_labels() -> None:
    for two in (PILLOWS[:2], [np.asarray(image) for image in PILLOWS[:2]]):
        source = open_source(two)
        assert source.labels.tolist() == [-1, -1]
        assert np.array_equal(source.load(1), picture(1))


def test_a_label_too_few() -> None:
    with pytest.raises(InputError, match=r"one entry per image \(3\), got 2"):
        open_source((PILLOWS, NAMES[:2]))
