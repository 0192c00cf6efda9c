"""Outlier exposure and energy margins, against slow formulas."""

import math

import mpmath
import numpy as np
import pytest
import torch
from tiny_methods import Given, batch_of, last_stage

from wildspec.methods import build_method
from wildspec.methods.energy_outlier import squared_hinges
from wildspec.methods.oe import uniform_cross_entropies


def ce(z: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y]))


def test_uniform_cross_entropy_is_the_definition_and_is_least_where_all_logits_agree(rng) -> None:
    z = rng.normal(size=(5, 4)) * 200  # a naive softmax underflows
    expected = []
    for row in z:
        total = sum(mpmath.exp(v) for v in row)
        expected.append(float(-sum(mpmath.log(mpmath.exp(v) / total) for v in row) / 4))
    assert uniform_cross_entropies(torch.tensor(z)).tolist() == pytest.approx(expected)
    assert uniform_cross_entropies(torch.full((1, 4), 3.0)).item() == pytest.approx(math.log(4))


def test_oe_loss(rng) -> None:
    z, y = rng.normal(size=(11, 3)), rng.integers(0, 3, size=6)
    method = build_method("oe", 3, weight=0.7)
    total, terms = method.loss(Given(torch.tensor(z)), batch_of(torch.tensor(y), wild=5), last_stage(method))
    wild = z[6:]
    uniform = np.mean([np.log(np.exp(row).sum()) - row.mean() for row in wild])
    assert terms["ce"].item() == pytest.approx(ce(z[:6], y))
    assert terms["uniform"].item() == pytest.approx(uniform)
    assert total.item() == pytest.approx(ce(z[:6], y) + 0.7 * uniform)


def test_energy_hinges_by_hand() -> None:
    # E_in - m_in = -1, 2 (one within the margin); m_out - E_out = 3, -4
    inner, outer = torch.tensor([-24.0, -21.0]), torch.tensor([-8.0, -1.0])
    assert squared_hinges(inner, outer, m_in=-23, m_out=-5).item() == pytest.approx((0 + 4) / 2 + (9 + 0) / 2)


def test_energy_loss_and_its_direction(rng) -> None:
    z, y = rng.normal(size=(9, 3)), rng.integers(0, 3, size=5)
    network = Given(torch.tensor(z))
    method = build_method("energy_outlier", 3, weight=0.2, m_in=-4.0, m_out=-1.0)
    total, _ = method.loss(network, batch_of(torch.tensor(y), wild=4), last_stage(method))
    energy = -np.log(np.exp(z).sum(1))
    hinges = np.mean(np.maximum(0, energy[:5] + 4) ** 2) + np.mean(np.maximum(0, -1 - energy[5:]) ** 2)
    assert total.item() == pytest.approx(ce(z[:5], y) + 0.2 * hinges)
    total.backward()
    wild = network.logits.grad[5:].sum(1)
    assert (wild >= 0).all()  # a step downhill lowers the wild logits, so their energy rises
    assert wild.max() > 0


@pytest.mark.parametrize("name", ["oe", "energy_outlier", "woods", "scone"])
def test_pretraining_is_erm(rng, name: str) -> None:
    z, y = rng.normal(size=(6, 3)), rng.integers(0, 3, size=6)
    method = build_method(name, 3)
    first, second = method.stages()
    assert (first.name, first.batch_wild, second.name, second.batch_wild) == ("pretrain", 0, "wild", 128)
    assert method.loss(Given(torch.tensor(z)), batch_of(torch.tensor(y)), first)[0].item() == pytest.approx(ce(z, y))
    assert first == build_method("erm", 3).stages()[0].scaled(name="pretrain")
