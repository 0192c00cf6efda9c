"""A class under the name of what is rejected is refused; images of a few pixels are told."""

import numpy as np
import pytest
import torch

from quick_wild import quick
from wildspec import SpectralClassifier
from wildspec.data import open_source
from wildspec.errors import InputError
from wildspec.images.sizing import choose_size


def test_a_class_called_as_what_is_rejected_is_called() -> None:
    names = np.array(["rejected", "cat"] * 20)
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=r"'rejected'.*another name"):
        SpectralClassifier().fit(rng.normal(size=(40, 4)), names)
    with pytest.warns(UserWarning, match="no wild"), pytest.raises(InputError, match=r"'rejected'.*another name"):
        quick(epochs=1).fit((rng.integers(0, 256, (40, 8, 8, 3), dtype=np.uint8), names))


def test_small_images_are_told() -> None:
    tiny = open_source(np.zeros((3, 10, 12, 3), np.uint8))
    with pytest.warns(UserWarning, match="small, about 10 px"):
        assert choose_size(tiny, torch.device("cpu")) == 10
