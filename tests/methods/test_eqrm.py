"""The smoothed quantile against scipy's root finder, its gradient against finite differences of that root."""

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import norm
from tiny_methods import Given, batch_of, last_stage

from wildspec.methods import build_method
from wildspec.methods.eqrm import smoothed_quantile


def root(risks: np.ndarray, alpha: float) -> float:
    """Solve mean Phi((x - R) / h) = alpha."""
    h = 1.06 * np.std(risks, ddof=1) * len(risks) ** -0.2
    low, high = risks.min() - 9 * h, risks.max() + 9 * h
    return float(brentq(lambda x: norm.cdf((x - risks) / h).mean() - alpha, low, high, xtol=1e-14))


@pytest.mark.parametrize("alpha", [0.05, 0.5, 0.75, 0.99])
@pytest.mark.parametrize("m", [2, 3, 4, 9])
def test_value_and_gradient(rng, alpha: float, m: int) -> None:
    values = rng.gamma(2.0, size=m)
    risks = torch.tensor(values, requires_grad=True)
    x = smoothed_quantile(risks, alpha)
    assert x.item() == pytest.approx(root(values, alpha), rel=1e-9)
    (gradient,) = torch.autograd.grad(x, risks)
    for e in range(m):
        step = np.zeros(m)
        step[e] = 1e-5
        slope = (root(values + step, alpha) - root(values - step, alpha)) / 2e-5
        assert gradient[e].item() == pytest.approx(slope, rel=1e-5, abs=1e-7)
    assert gradient.sum().item() == pytest.approx(1.0)  # all risks higher by t: the quantile is higher by t


def test_many_risks_give_numpys_quantile(rng) -> None:
    """Smoothing widens a normal law of spread s to sqrt(s^2 + h^2); with 4,000 risks that is what is left of it."""
    values = rng.normal(3.0, 0.5, size=4000)
    h = 1.06 * values.std(ddof=1) * 4000**-0.2
    widened = values.mean() + (np.quantile(values, 0.9) - values.mean()) * np.sqrt(1 + (h / 0.5) ** 2)
    assert smoothed_quantile(torch.tensor(values), 0.9).item() == pytest.approx(widened, abs=0.02)


def test_equal_absent_and_single_risks(rng) -> None:
    equal = torch.full((4,), 1.7, requires_grad=True)
    x = smoothed_quantile(equal, 0.9)
    assert x.item() == pytest.approx(1.7, abs=1e-4)
    assert torch.autograd.grad(x, equal)[0].tolist() == pytest.approx([0.25] * 4, abs=1e-4)
    values = torch.tensor([0.3, 99.0, 1.1, 0.7], dtype=torch.float64)
    present = torch.tensor([True, False, True, True])
    assert smoothed_quantile(values, 0.6, present).item() == pytest.approx(root(np.array([0.3, 1.1, 0.7]), 0.6))
    assert smoothed_quantile(values, 0.6, torch.tensor([True, False, False, False])).item() == pytest.approx(0.3, abs=1e-5)


def test_stages_burn_in_with_the_mean_then_take_the_quantile(rng) -> None:
    z, y = rng.normal(size=(16, 3)), rng.integers(0, 3, size=16)
    environments = np.arange(16) % 4
    method = build_method("eqrm", 3, quantile=0.8, quantile_lr=1e-5).double()
    burnin, quantile = method.stages()
    assert (burnin.name, quantile.name, quantile.lr) == ("burnin", "quantile", 1e-5)
    assert burnin.epochs == quantile.epochs
    losses = np.log(np.exp(z).sum(1)) - z[np.arange(16), y]
    risks = np.array([losses[environments == e].mean() for e in range(4)])
    batch = batch_of(torch.tensor(y), environments=torch.tensor(environments))
    assert method.loss(Given(torch.tensor(z)), batch, burnin)[0].item() == pytest.approx(risks.mean())
    assert method.loss(Given(torch.tensor(z)), batch, quantile)[0].item() == pytest.approx(root(risks, 0.8))
    assert last_stage(method) == quantile
