"""Fixtures of the detector tests: a small network, training samples and test samples of it."""

import numpy as np
import pytest
import torch
from detector_samples import ReluNet, Samples, make_samples  # type: ignore[import-not-found]


@pytest.fixture
def model() -> ReluNet:
    torch.manual_seed(7)
    network = ReluNet()
    with torch.no_grad():
        network.head.weight.mul_(6)  # logits of a trained network are not all alike
    return network.eval()


@pytest.fixture
def train(model: ReluNet, rng: np.random.Generator) -> Samples:
    return make_samples(model, rng, 90, 1.0)


@pytest.fixture
def test(model: ReluNet, rng: np.random.Generator) -> Samples:
    return make_samples(model, rng, 17, 1.6)
