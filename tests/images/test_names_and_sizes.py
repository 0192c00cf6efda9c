"""A class under the name of what is rejected is refused; images of a few pixels are told."""

import warnings

import numpy as np
import pytest
import torch

from quick_wild import quick
from wildspec import SpectralClassifier
from wildspec.data import open_source
from wildspec.errors import InputError
from wildspec.images.checks import warn_of_small
from wildspec.images.sizing import choose_size


def test_a_class_called_as_what_is_rejected_is_called() -> None:
    names = np.array(["rejected", "cat"] * 20)
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=r"'rejected'.*another name"):
        SpectralClassifier().fit(rng.normal(size=(40, 4)), names)
    with pytest.warns(UserWarning, match="no wild"), pytest.raises(InputError, match=r"'rejected'.*another name"):
        quick(epochs=1).fit((rng.integers(0, 256, (40, 8, 8, 3), dtype=np.uint8), names))


@pytest.mark.parametrize(
    ("side", "network", "told"), [(20, 160, True), (63, 160, True), (64, 160, False), (0, 160, False), (32, 32, False)]
)
def test_images_too_small_for_a_network_of_photographs_are_told(side: int, network: int, told: bool) -> None:
    """A network that was made for 32 px sees 32 px as they are."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn_of_small(side, network, "labelled")
    assert [f"{side} px" in str(one.message) for one in said] == [True] * told


def test_small_images_are_told() -> None:
    tiny = open_source(np.zeros((3, 10, 12, 3), np.uint8))
    with pytest.warns(UserWarning, match="small, about 10 px"):
        assert choose_size(tiny, torch.device("cpu")) == 10
