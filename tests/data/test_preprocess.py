"""The normalization: the formula, and numbers on another scale refused before a network sees them."""

import pytest
import torch

from wildspec.data import Preprocess
from wildspec.data.preprocess import CIFAR_MEAN, CIFAR_STD
from wildspec.errors import InputError


def test_it_is_the_formula_and_goes_round_as_json() -> None:
    images = torch.randint(0, 256, (3, 3, 5, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    preprocess = Preprocess(5, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    found = preprocess(images)
    for c, (mean, std) in enumerate(((0.1, 0.4), (0.2, 0.5), (0.3, 0.6))):
        torch.testing.assert_close(found[:, c], (images[:, c] / 255 - mean) / std)
    assert Preprocess.from_json(preprocess.to_json()) == preprocess
    assert Preprocess(5) == Preprocess(5, CIFAR_MEAN, CIFAR_STD)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"mean": (125.3, 123.0, 113.9), "std": (63.0, 62.1, 66.7)}, r"pixels in \[0, 1\].*divide.*by 255"),
        ({"std": (63.0, 62.1, 66.7)}, r"pixels in \[0, 1\].*divide.*by 255"),
        ({"std": (0.2, 0.0, 0.2)}, "std must be greater than 0"),
        ({"mean": (0.5, 0.5)}, "mean must hold 3 numbers"),
        ({"std": 0.5}, "std must hold 3 numbers"),
        ({"size": 0}, "size must be at least 1"),
        ({"mean": (0.5, float("nan"), 0.5)}, "mean must be finite"),
    ],
)
def test_numbers_on_another_scale_are_refused(settings: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Preprocess(**{"size": 8, **settings})
