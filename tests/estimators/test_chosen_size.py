"""What is chosen for a user who names nothing: the size of the network's input, and what pixels are divided by."""

import numpy as np
import pytest
import torch

from wildspec.data import ArraySource, load_images
from wildspec.data.preprocess import IMAGENET_STD
from wildspec.estimators.backbones import choose_size, preprocess_for


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
    found = preprocess_for({"name": "small"}, grey, pretrained=False)
    assert found.mean == pytest.approx([128 / 255] * 3, abs=1e-6)
    assert found.std == pytest.approx([0.02] * 3)
    assert preprocess_for({"name": "small"}, grey, pretrained=True).std == IMAGENET_STD
