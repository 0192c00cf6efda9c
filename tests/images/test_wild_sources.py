"""What WildClassifier takes: images in any form, folders (the hub: test_hub.py); what it refuses, in one line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import tiny_model
from quick_wild import quick
from wildspec import WildClassifier
from wildspec.data import ArraySource
from wildspec.errors import DataError, InputError, InputTypeError


@pytest.fixture(scope="module")
def model() -> WildClassifier:
    return tiny_model.fitted()


def test_the_way_images_come_in_does_not_matter(model: WildClassifier, known: Any, tmp_path: Path) -> None:
    images = known[0][:6]
    expected = model.ood_score(images)
    for i, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{i}.png")
    channels_first = torch.from_numpy(images).permute(0, 3, 1, 2)
    for thing in (tmp_path, channels_first, ArraySource(images), [tmp_path / f"{i}.png" for i in range(6)]):
        assert np.array_equal(model.ood_score(thing), expected)
    assert model.ood_score(images[0]) == pytest.approx(expected[:1], abs=1e-5)
    assert model.ood_score(tmp_path / "2.png") == pytest.approx(expected[2:3], abs=1e-5)


def test_labels_of_wild_images_are_never_looked_at(known: Any) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    with_labels = quick().fit(labelled, (wild, np.arange(len(wild)) % 3))
    assert np.array_equal(with_labels.ood_score(known[0]), quick().fit(labelled, wild).ood_score(known[0]))


def test_no_wild_images_work_and_say_what_is_lost(known: Any) -> None:
    labelled, _ = tiny_model.labelled_and_wild()
    with pytest.warns(UserWarning, match="no wild images were given"):
        model = quick().fit(labelled)
    assert model.record_["data"]["wild"] is None
    assert len(model.predict(known[0])) == len(known[0])


def test_folders_are_read_and_unreadable_files_recorded(tmp_path: Path) -> None:
    labelled, wild = tiny_model.write_folders(tmp_path)
    (wild / "broken.png").write_bytes(b"not an image")
    model = quick().fit(labelled, wild)
    assert model.record_["data"]["wild"]["unreadable"] == 1
    assert model.record_["data"]["wild"]["unreadable_first"][0]["name"] == "broken.png"
    assert model.record_["data"]["labelled"]["per_class"] == {"bar": 40, "disc": 40, "ring": 40}
    assert model.fitted_.bank.names[0].startswith("bar/")
    with pytest.raises(DataError, match="1 of 85 images"):
        model.predict(wild)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 1, "minutes": 1}, "give epochs or minutes, not both"),
        ({"epochs": 0}, "epochs must be greater than 0"),
        ({"alpha": 0.0}, "alpha must lie strictly between"),
        ({"alpha": 0.005}, "needs 199 for calibration"),
        ({"method": "magic"}, "method must be one of"),
        ({"preset": "slow"}, "preset must be one of paper, fast"),
        ({"backbone": "alexnet"}, "backbone must be one of.*small"),
        ({"backbone": 7}, "backbone must be a name or a torch module, got int"),
        ({"detector": "magic"}, "unknown detector 'magic'"),
        ({"detector": 5}, "detector must be a name or a Detector"),
        ({"size": 4}, "size must be at least 8"),
        ({"hparams": {"eta": 1}}, "has no hyper-parameter 'eta'"),
        ({"init": "none.safetensors"}, "initial weights none.safetensors do not exist"),
        ({"device": "cuda:9"}, "does not exist on this machine|available"),
    ],
)
def test_bad_settings_are_one_clear_line(changes: dict[str, Any], message: str) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    with pytest.raises((InputError, InputTypeError, DataError), match=message) as caught:
        quick(**changes).fit(labelled, wild)
    assert "\n" not in str(caught.value)


def test_one_class_and_no_labels_are_errors() -> None:
    (images, shapes), wild = tiny_model.labelled_and_wild()
    with pytest.raises(InputError, match=r"one class only, 'bar'.*embeddings"):
        quick().fit((images[:40], shapes[:40]), wild)
    with pytest.raises(DataError, match="has no labels"):
        quick().fit(images, wild)


def test_pillow_images_are_taken_as_their_files_are(tmp_path: Path) -> None:
    """One, or several of any size and mode; what a notebook has at hand."""
    rng = np.random.default_rng(3)
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(tiny_model.picture("ring", rng)).resize((20, 31)).save(tmp_path / "a.jpg", exif=turned)
    Image.fromarray(tiny_model.picture("bar", rng)).convert("P").save(tmp_path / "b.png")
    Image.fromarray(rng.integers(0, 65536, (12, 15), np.uint16)).save(tmp_path / "c.png")
    files = [tmp_path / name for name in ("a.jpg", "b.png", "c.png")]
    model, opened = tiny_model.fitted(), [Image.open(path) for path in files]
    expected = model.ood_score(files)
    assert model.ood_score(opened) == pytest.approx(expected)
    assert model.ood_score(tuple(opened)) == pytest.approx(expected)
    assert model.ood_score(opened[1]) == pytest.approx(expected[1:2], rel=1e-4)
    assert model.ood_score([opened[0], files[1]]) == pytest.approx(expected[:2])
    with pytest.raises(InputTypeError, match="files or images in a list"):
        model.predict([opened[0], 3])
