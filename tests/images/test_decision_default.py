"""Which detector and which k a decision takes when nobody says."""

import numpy as np
import pytest
import torch

from wildspec.detectors import KNN, MSP, Energy, WildKNN
from wildspec.errors import InputError, InputTypeError
from wildspec.evaluation import Outputs
from wildspec.images.decision import learn_decision, usual_detector


@pytest.mark.parametrize(
    ("sizes", "k"),
    [((500, 400), 50), ((500, 30), 15), ((500, 1), 1), ((3, 3), 1), ((500, 0, 400), 50), ((500, 0, 0, 30), 15)],
)
@pytest.mark.parametrize("detector", ["auto", "knn"])
def test_k_is_half_the_smallest_class_that_has_samples_and_50_at_most(sizes: tuple[int, ...], k: int, detector: str) -> None:
    """A class may have none: an empty folder keeps its number."""
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    chosen = usual_detector(detector, labels, 0)
    assert isinstance(chosen, KNN)
    assert chosen.k == k


def test_the_wild_pool_decides_what_auto_means_and_only_auto() -> None:
    labels = torch.arange(100) % 2
    assert isinstance(usual_detector("auto", labels, 10), WildKNN)
    assert type(usual_detector("auto", labels, 9)) is KNN
    assert type(usual_detector("knn", labels, 10)) is KNN
    assert isinstance(usual_detector("energy", labels, 10), Energy)
    given = Energy(temperature=2.0)
    assert usual_detector(given, labels, 10) is given
    with pytest.raises(InputError, match="unknown detector"):
        usual_detector("nope", labels, 10)
    with pytest.raises(InputTypeError, match=r"detector must be .*got int"):
        usual_detector(3, labels, 10)  # type: ignore[arg-type]


def seen(count: int, seed: int) -> Outputs:
    """``count`` samples of two classes as a network with two features would give them; no images are needed."""
    rng = np.random.default_rng(seed)
    features = torch.from_numpy(np.eye(2)[np.arange(count) % 2] + 0.1 * rng.normal(size=(count, 2))).float()
    network = torch.nn.Module()
    network.head = torch.nn.Linear(2, 2)
    return Outputs(features, 5 * features, torch.arange(count) % 2, network)


@pytest.mark.parametrize(("wild", "expected"), [(None, KNN), (9, KNN), (10, Energy), (40, Energy)])
def test_a_trained_score_needs_a_pool_to_be_judged_by(wild: int | None, expected: type) -> None:
    train, held = seen(60, 0), seen(40, 1)
    pool = None if wild is None else seen(wild, 2)
    decision = learn_decision(train, pool, held, trained="energy")
    assert type(decision.detector) is expected
    named = learn_decision(train, pool, held, detector="msp", trained="energy")
    assert isinstance(named.detector, MSP)
    without = learn_decision(train, pool, held)
    assert type(without.detector) is (WildKNN if wild is not None and wild >= 10 else KNN)
