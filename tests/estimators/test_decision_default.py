"""Which detector and which k a decision takes when nobody says."""

import pytest
import torch

from wildspec.detectors import KNN, Energy, WildKNN
from wildspec.errors import InputError, InputTypeError
from wildspec.estimators.decision import _build


@pytest.mark.parametrize(
    ("sizes", "k"),
    [((500, 400), 50), ((500, 30), 15), ((500, 1), 1), ((3, 3), 1), ((500, 0, 400), 50), ((500, 0, 0, 30), 15)],
)
@pytest.mark.parametrize("detector", ["auto", "knn"])
def test_k_is_half_the_smallest_class_that_has_samples_and_50_at_most(sizes: tuple[int, ...], k: int, detector: str) -> None:
    """A class may have none: an empty folder keeps its number."""
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    chosen = _build(detector, labels, 0)
    assert isinstance(chosen, KNN)
    assert chosen.k == k


def test_the_wild_pool_decides_what_auto_means_and_only_auto() -> None:
    labels = torch.arange(100) % 2
    assert isinstance(_build("auto", labels, 10), WildKNN)
    assert type(_build("auto", labels, 9)) is KNN
    assert type(_build("knn", labels, 10)) is KNN
    assert isinstance(_build("energy", labels, 10), Energy)
    given = Energy(temperature=2.0)
    assert _build(given, labels, 10) is given
    with pytest.raises(InputError, match="unknown detector"):
        _build("nope", labels, 10)
    with pytest.raises(InputTypeError, match="detector must be a name or a Detector, got int"):
        _build(3, labels, 10)  # type: ignore[arg-type]
