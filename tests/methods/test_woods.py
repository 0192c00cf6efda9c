"""WOODS and SCONE: the augmented Lagrangian against its variational form, a convex problem, and a one-parameter WOODS
problem whose optimum and multiplier are known."""

import numpy as np
import pytest
import torch
from scipy.optimize import brentq, minimize_scalar
from tiny_methods import Given, batch_of, context_of, last_stage

from wildspec.methods import build_method
from wildspec.methods.lagrangian import Multipliers, penalty


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("weight", [0.5, 1.0, 4.0])
def test_penalty_is_the_proximal_maximum(rng, weight: float) -> None:
    """psi(g, l, b) = max over u >= 0 of u g - (u - l)^2 / (2 b); its slope in g is the maximizer."""
    for g, multiplier in zip(rng.normal(size=12), rng.gamma(1.0, size=12), strict=True):
        best = minimize_scalar(
            lambda u, g=g, m=multiplier: -(u * g - (u - m) ** 2 / (2 * weight)), bounds=(0, 60), method="bounded",
            options={"xatol": 1e-12},
        )
        value = torch.tensor(g, requires_grad=True)
        psi = penalty(value, torch.tensor(multiplier), torch.tensor(weight, dtype=torch.float64))
        assert psi.item() == pytest.approx(-best.fun, abs=1e-8)
        assert torch.autograd.grad(psi, value)[0].item() == pytest.approx(best.x, abs=1e-5)


def test_convex_problem_with_known_optimum() -> None:
    """min (x - 2)^2 + (y - 1)^2 with x + y <= 1 and x <= 5: optimum (1, 0), multipliers (2, 0)."""
    duals = Multipliers(2, rate=3.0, tolerance=0.05).double()
    point = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([2.0, 1.0], dtype=torch.float64)
    for _ in range(40):
        solver = torch.optim.LBFGS([point], max_iter=40, tolerance_grad=1e-12, tolerance_change=1e-14)

        def constraints() -> torch.Tensor:
            return torch.stack([point.sum() - 1, point[0] - 5])

        def closure(solver=solver, constraints=constraints) -> torch.Tensor:
            solver.zero_grad()
            total = ((point - target) ** 2).sum() + duals(constraints())
            total.backward()
            return total

        solver.step(closure)
        duals.update(constraints().detach())
    assert point.tolist() == pytest.approx([1.0, 0.0], abs=1e-5)
    assert duals.multipliers.tolist() == pytest.approx([2.0, 0.0], abs=1e-4)


def test_dual_update_by_hand_and_the_published_alias() -> None:
    two, one = Multipliers(2, rate=0.5, growth=3.0, tolerance=0.1), Multipliers(2, 0.5, 3.0, 0.1, shared=True)
    for duals in (two, one):
        duals.update(torch.tensor([0.4, 0.05]))  # both active
    assert two.multipliers.tolist() == pytest.approx([0.2, 0.025])
    assert one.multipliers.tolist() == pytest.approx([0.225, 0.225])  # one tensor, both updates
    assert two.weights.tolist() == one.weights.tolist() == [3.0, 1.0]  # only 0.4 is above the tolerance
    for duals in (two, one):
        duals.update(torch.tensor([-0.01, -2.0]))
    # first: 3 * -0.01 + l >= 0, so l - 0.005; second: -2 + l < 0, so l - 0.5 l / 1
    assert two.multipliers.tolist() == pytest.approx([0.195, 0.0125])
    assert one.multipliers.tolist() == pytest.approx([0.11, 0.11])  # (0.225 - 0.005) / 2


def quantities(
    energy_id: np.ndarray, energy_wild: np.ndarray, w: float, b: float, margin: float = 0.0
) -> tuple[float, float]:
    """A and B."""
    return float(sigmoid(w * energy_id + b).mean()), float(sigmoid(-(w * (energy_wild - margin) + b)).mean())


@pytest.mark.parametrize("name", ["woods", "scone"])
def test_loss_is_the_definition(rng, name: str) -> None:
    z, y = rng.normal(size=(14, 4)) * 3, rng.integers(0, 4, size=8)
    method = build_method(name, 4, out_weight=1.3, false_alarms=0.1, ce_factor=1.5).double()
    with torch.no_grad():
        method.scale.fill_(-0.7)
        method.shift.fill_(1.1)
    method.baseline.fill_(0.8)
    method.duals.multipliers.copy_(torch.tensor([0.6, 0.2]))
    method.duals.weights.copy_(torch.tensor([1.5, 2.25]))
    total, terms = method.loss(Given(torch.tensor(z)), batch_of(torch.tensor(y), wild=6), last_stage(method))
    energy = np.log(np.exp(z).sum(1))
    margin = -10.0 if name == "scone" else 0.0
    a, b = quantities(energy[:8], energy[8:], -0.7, 1.1, margin)
    c = np.mean(energy[:8] - z[np.arange(8), y])
    expected = 1.3 * b
    for g, multiplier, weight in ((a - 0.1, 0.6, 1.5), (c - 1.5 * 0.8, 0.2, 2.25)):
        active = weight * g + multiplier >= 0
        expected += multiplier * g + weight * g * g / 2 if active else -multiplier**2 / (2 * weight)
    assert terms["false_alarms"].item() == pytest.approx(a)
    assert terms["wild_called_in"].item() == pytest.approx(b)
    assert total.item() == pytest.approx(expected)


def test_scone_without_margin_is_woods(rng) -> None:
    z, y = torch.tensor(rng.normal(size=(9, 3))), torch.tensor(rng.integers(0, 3, size=5))
    losses = []
    for method in (build_method("woods", 3), build_method("scone", 3, margin=0.0), build_method("scone", 3)):
        losses.append(method.double().loss(Given(z), batch_of(y, wild=4), last_stage(method))[0].item())
    assert losses[0] == losses[1]
    assert losses[2] > losses[0]  # a negative margin with w < 0 calls wild samples in


def test_hooks_measure_the_labelled_set_in_evaluation_mode(rng) -> None:
    """C0 at the start, duals at the end of an epoch; the network here adds 100 to a logit in training mode."""
    z, y = rng.normal(size=(7, 3)) * 2, rng.integers(0, 3, size=7)

    class Moody(Given):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            logits = self.logits[x[:, 0, 0, 0].long()]
            return logits + (100.0 if self.training else 0.0) * torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)

    network = Moody(torch.tensor(z)).train()
    index = torch.arange(7.0, dtype=torch.float64)[:, None, None, None].expand(7, 3, 1, 1)
    batches = [(index[:4], torch.tensor(y[:4])), (index[4:], torch.tensor(y[4:]))]  # unequal: a mean of means is wrong
    method = build_method("woods", 3).double()
    pretrain, wild = method.stages()
    energy = np.log(np.exp(z).sum(1))
    ce = float(np.mean(energy - z[np.arange(7), y]))

    method.start_stage(context_of(network, pretrain, batches))
    method.end_epoch(context_of(network, pretrain, batches), 1)
    assert method.baseline.item() == 0
    assert method.duals.multipliers.tolist() == [0, 0]

    method.start_stage(context_of(network, wild, batches))
    assert network.training
    assert method.baseline.item() == pytest.approx(ce)
    assert method.scale.item() == pytest.approx(-1 / energy.std())
    assert method.shift.item() == pytest.approx(energy.mean() / energy.std())

    method.end_epoch(context_of(network, wild, batches), 1)
    a, _ = quantities(energy, energy, -1 / energy.std(), energy.mean() / energy.std())
    assert method.duals.multipliers.tolist() == pytest.approx([a - 0.05, 0.0])  # C - 2 C0 = -C0 is not active
    assert method.duals.weights.tolist() == [1.5, 1.0]
    assert {"baseline", "duals.multipliers", "duals.weights", "scale", "shift"} <= set(method.state_dict())


def test_published_start_is_uniform_and_drawn_by_the_seed_of_the_run(rng) -> None:
    """On a GPU the network of a seed differs in its last bits from run to run: that must not change the sign of w."""
    method = build_method("woods", 3, logistic_init="published").double()
    logits, labels = torch.tensor(rng.normal(size=(4, 3))), torch.tensor([0, 1, 2, 0])

    def start(seed: int, network: Given) -> tuple[float, float]:
        method.start_stage(context_of(network, last_stage(method), [(torch.zeros(4, 3, 1, 1), labels)], seed))
        return method.scale.item(), method.shift.item()

    drawn = np.array([start(seed, Given(logits)) for seed in range(200)])
    assert np.abs(drawn).max() <= 1
    assert np.abs(drawn.mean(0)).max() < 0.15
    assert drawn.std(0) == pytest.approx([3**-0.5] * 2, rel=0.15)
    assert np.array([start(seed, Given(logits * (1 + 1e-12))) for seed in range(3)]) == pytest.approx(drawn[:3], abs=0)


@pytest.mark.parametrize("name", ["woods", "scone"])
def test_known_optimum_of_a_one_parameter_problem(rng, name: str) -> None:
    """Logits and w fixed, b free: A grows with b and B falls; min B with A <= 0.05 has A = 0.05, multiplier -B' / A'."""
    margin = 0.0 if name == "woods" else -2.0
    z_id, z_wild = rng.normal(size=(30, 3)) + 3, rng.normal(size=(40, 3))
    y = torch.tensor(rng.integers(0, 3, size=30))
    energy_id, energy_wild = (np.log(np.exp(z).sum(1)) for z in (z_id, z_wild))
    optimum = brentq(lambda b: quantities(energy_id, energy_wild, -1.0, b)[0] - 0.05, -50, 50)

    def slope(b: float, which: int) -> float:
        ends = [quantities(energy_id, energy_wild, -1.0, b + d, margin)[which] for d in (-1e-5, 1e-5)]
        return (ends[1] - ends[0]) / 2e-5

    multiplier = -slope(optimum, 1) / slope(optimum, 0)
    more = {"margin": margin} if name == "scone" else {}
    method = build_method(name, 3, ce_factor=100.0, tolerance=0.05, dual_lr=3.0, **more).double()
    logits = torch.tensor(np.concatenate([z_id, z_wild]))
    stage, known = last_stage(method), [(torch.zeros(30, 3, 1, 1), y)]
    method.start_stage(context_of(Given(logits[:30]), stage, known))
    with torch.no_grad():
        method.scale.fill_(-1.0)
    for epoch in range(250):
        solver = torch.optim.LBFGS([method.shift], max_iter=50, line_search_fn="strong_wolfe", tolerance_grad=1e-12)

        def closure(solver=solver) -> torch.Tensor:
            solver.zero_grad()
            total, _ = method.loss(Given(logits), batch_of(y, wild=40), stage)
            total.backward()
            return total

        solver.step(closure)
        method.end_epoch(context_of(Given(logits[:30]), stage, known), epoch)
    assert method.shift.item() == pytest.approx(optimum, abs=2e-3)
    assert method.duals.multipliers[0].item() == pytest.approx(multiplier, rel=2e-2)
    assert method.duals.multipliers[1].item() == 0  # the accuracy constraint never mattered
