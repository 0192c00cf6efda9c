"""What is chosen for a user who names nothing: the size of the network's input, and what pixels are divided by."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny_model
from quick_wild import quick
from wildspec.data import ArraySource, load_images
from wildspec.data.preprocess import IMAGENET_STD, Preprocess
from wildspec.images.sizing import choose_size, preprocess_for


@pytest.mark.parametrize(("sides", "cpu", "gpu"), [
    ((20, 20, 500), 20, 20), ((40, 40, 500), 32, 32), ((70, 90, 90, 20), 32, 64), ((300,) * 5, 32, 128), ((5, 5), 8, 8),
])  # fmt: skip
def test_the_size_is_that_of_the_typical_image_never_more(sides: tuple[int, ...], cpu: int, gpu: int) -> None:
    """By the shorter side, the middle one of all; a single large scan among thumbnails changes nothing."""
    class Some(ArraySource):
        def load(self, i: int) -> np.ndarray:
            return np.zeros((sides[i], 2 * sides[i], 3), np.uint8)

    source = Some(np.zeros((len(sides), 8, 8, 3), np.uint8), np.zeros(len(sides), np.int64))
    assert choose_size(source, torch.device("cpu")) == cpu
    assert choose_size(source, torch.device("cuda")) == gpu


def test_nearly_blank_images_are_not_blown_up() -> None:
    grey = load_images(ArraySource(np.full((6, 8, 8, 3), 128, np.uint8), np.zeros(6, np.int64)))
    found = preprocess_for({"name": "small"}, grey)
    assert found.mean == pytest.approx([128 / 255] * 3, abs=1e-6)
    assert found.std == pytest.approx([0.02] * 3)


def test_a_network_that_goes_on_sees_pixels_as_it_has_learned_to(tmp_path: Path) -> None:
    """Of a bundle and of a run of `wildspec train` it is known how; other weights are usually made with ImageNet's."""
    grey = load_images(ArraySource(np.full((6, 8, 8, 3), 128, np.uint8), np.zeros(6, np.int64)))
    theirs = Preprocess(16, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    for record, weights in (("model.json", "weights.safetensors"), ("run.json", "model.safetensors")):
        folder = tmp_path / record
        folder.mkdir()
        (folder / record).write_text(json.dumps({"preprocess": theirs.to_json()}))
        found = preprocess_for({"name": "small"}, grey, folder / weights)
        assert found == Preprocess(8, theirs.mean, theirs.std), "the size is that of the images now"
        assert preprocess_for({"name": "small"}, grey, folder / "resnet.safetensors").std == IMAGENET_STD
    for broken in ("{", "[]", "{}", '{"preprocess": {"size": 8}}'):
        (tmp_path / "model.json" / "model.json").write_text(broken)
        assert preprocess_for({"name": "small"}, grey, tmp_path / "model.json" / "weights.safetensors").std == IMAGENET_STD


def test_a_fit_that_starts_from_a_bundle_keeps_its_normalization(tmp_path: Path) -> None:
    labelled, wild = tiny_model.write_folders(tmp_path)
    first = quick(epochs=1, method="erm").fit(labelled, wild)
    first.save(tmp_path / "first")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of images held out now
        start = tmp_path / "first" / "weights.safetensors"
        second = quick(epochs=1, method="erm", random_state=1, init=start).fit(labelled, wild)
    assert second.fitted_.preprocess == first.fitted_.preprocess
