"""What fit says of the images it is given: labelled ones in the pool, black ones, classes, weights that know too much."""

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import command
import tiny_model
from quick_wild import quick
from wildspec.errors import DataError, InputError
from wildspec.images import reading
from wildspec.images.checks import classes_in_words

QUICK = ["--epochs", "1", "--size", "10", "--device", "cpu", "--alpha", "0.1", "--method", "erm"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    return command.runner(monkeypatch, capsys)


@pytest.mark.parametrize("most", [1 << 30, 100 * 300], ids=["in memory", "the labelled ones on disk"])
def test_labelled_images_in_the_pool_are_left_out_of_it_and_told_of(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(reading, "IN_MEMORY_BYTES", most)
    labelled, wild = tiny_model.write_folders(tmp_path)
    for shape, number in (("bar", "003"), ("ring", "100")):
        (wild / "camera").mkdir(exist_ok=True)
        shutil.copy(labelled / shape / f"{number}.png", wild / "camera" / f"{shape}.png")
    (wild / "broken.png").write_bytes(b"x")
    status, out, err = run("fit", "--labelled", labelled, "--wild", wild, "--out", tmp_path / "m", *QUICK)
    assert status == 0, err
    assert "and 84 wild ones at 10 px" in err, "of 86 that can be read"
    assert "2 wild images are labelled ones too, pixel for pixel: left out of the pool, first camera/bar.png" in out
    assert "1 wild file could not be read" in out
    assert "classes: bar (40), disc (40), ring (40)" in err
    status, out, err = run("report", tmp_path / "m", "--out", tmp_path / "r.html", "--no-map")
    assert status == 0, err
    assert "2 images that are labelled ones too" in (tmp_path / "r.html").read_text(encoding="utf-8")
    status, out, err = run("fit", "--labelled", labelled, "--wild", labelled, "--out", tmp_path / "n", *QUICK)
    assert (status, err.count("\n")) == (2, 1)
    assert "all 120 wild images are labelled ones too" in err


@pytest.mark.parametrize("most", [1 << 30, 0], ids=["in memory", "on disk"])
def test_only_the_same_pixels_are_the_same_image(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(reading, "IN_MEMORY_BYTES", most)
    (images, shapes), wild = tiny_model.labelled_and_wild()
    near = images[:3].copy()
    near[:, 0, 0, 0] ^= 1
    model = quick(epochs=1, method="erm").fit((images, shapes), np.concatenate([wild, images[5:7], near]))
    assert model.record_["data"]["wild"]["count"] == len(wild) + 3
    assert model.record_["data"]["wild"]["repeated_first"] == ["84", "85"]


def test_a_wild_folder_among_the_classes_is_a_mistake(tmp_path: Path) -> None:
    labelled, wild = tiny_model.write_folders(tmp_path)
    shutil.move(wild, labelled / "wild")
    with pytest.raises(InputError, match="labelled/wild lie inside the labelled folder"):
        quick().fit(str(labelled), labelled / "wild")


@pytest.mark.parametrize(("bits", "told"), [(12, True), (14, True), (16, False)])
def test_images_of_fewer_bits_than_their_files_are_nearly_black(tmp_path: Path, bits: int, told: bool) -> None:
    (images, shapes), _ = tiny_model.labelled_and_wild()
    for i, (image, shape) in enumerate(zip(images, shapes, strict=True)):
        (tmp_path / "l" / shape).mkdir(parents=True, exist_ok=True)
        levels = (image[:, :, 0].astype(np.uint16) * 257) >> (16 - bits)
        Image.fromarray(levels).save(tmp_path / "l" / shape / f"{i}.png")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        quick(epochs=1, method="erm").fit(tmp_path / "l")
    dark = [str(w.message) for w in said if "nearly black" in str(w.message)]
    assert len(dark) == told
    assert all(f"their brightest pixel is {round(((1 << bits) - 1) / 257)} of 255" in line for line in dark)


def test_many_classes_are_named_by_the_smallest_and_the_largest() -> None:
    names, counts = [f"c{i}" for i in range(9)], [5, 9, 1, 7, 8, 2, 3, 4, 6]
    assert classes_in_words(names, counts) == "classes: c2 (1), c5 (2), c6 (3), ... c3 (7), c4 (8), c1 (9)"
    assert classes_in_words(names[:2], [1200, 9]) == "classes: c0 (1,200), c1 (9)"


def test_weights_of_a_bundle_are_a_file_in_it(tmp_path: Path) -> None:
    """What it says of images held out now that taught them: test_hold_out_again.py."""
    labelled, wild = tiny_model.write_folders(tmp_path)
    quick(epochs=1, method="erm").fit(labelled, wild).save(tmp_path / "first")
    for i in range(40):
        (wild / f"broken{i}.png").write_bytes(b"x")  # reading them would be an error too: it is not come to
    with pytest.raises(DataError, match=r"are a folder.*first/weights\.safetensors"):
        quick(init=tmp_path / "first").fit(labelled, wild)
    with pytest.raises(DataError, match=r"weights .*none\.safetensors do not exist"):
        quick(init=tmp_path / "none.safetensors").fit(labelled, wild)
