"""IRM against automatic differentiation of its definition."""

import pytest
import torch
import torch.nn.functional as F
from tiny_methods import Given, batch_of, last_stage
from torch import Tensor

from wildspec.methods import build_method


def definition(logits: Tensor, labels: Tensor, environments: Tensor) -> tuple[Tensor, Tensor]:
    """Mean risk and mean penalty: the gradient by a scale in front of the logits, on even and odd samples, multiplied."""
    risks, penalties = [], []
    for e in environments.unique().tolist():
        z, y = logits[environments == e], labels[environments == e]
        risks.append(F.cross_entropy(z, y))
        gradients = []
        for half in (slice(0, None, 2), slice(1, None, 2)):
            scale = torch.ones((), dtype=z.dtype, requires_grad=True)
            risk = F.cross_entropy(scale * z[half], y[half])
            gradients.append(torch.autograd.grad(risk, scale, create_graph=True)[0])
        penalties.append(gradients[0] * gradients[1])
    return torch.stack(risks).mean(), torch.stack(penalties).mean()


@pytest.mark.parametrize("given", [True, False])
def test_loss_and_gradient_are_the_definition(rng, given: bool) -> None:
    logits = torch.tensor(rng.normal(size=(21, 4)) * 2)
    labels = torch.tensor(rng.integers(0, 4, size=21))
    environments = torch.tensor(rng.permutation([0] * 9 + [2] * 7 + [3] * 5))  # environment 1 is not in the batch
    method = build_method("irm", 4, penalty_weight=37.0, anneal_steps=2).double()
    method.before_step(last_stage(method), 2)
    network = Given(logits.clone())
    batch = batch_of(labels, environments=environments if given else None)
    total, terms = method.loss(network, batch, last_stage(method))
    if not given:  # the default 4 groups, by place
        environments = torch.arange(21) % 4
    raw = logits.clone().requires_grad_()
    risk, penalty = definition(raw, labels, environments)
    assert terms["risk"].item() == pytest.approx(risk.item(), rel=1e-12)
    assert terms["penalty"].item() == pytest.approx(penalty.item(), rel=1e-10)
    assert total.item() == pytest.approx((risk + 37 * penalty).item(), rel=1e-10)
    total.backward()
    expected = torch.autograd.grad(risk + 37 * penalty, raw)[0]
    torch.testing.assert_close(network.logits.grad, expected, rtol=1e-9, atol=1e-12)


def test_without_environments_the_penalty_estimates_the_squared_gradient() -> None:
    """E[P] = (E g)^2 where a batch is a random draw. Dealt evenly by class it would fall short by (E - 1)/n Var(g)."""
    logits = torch.tensor([[3.0, 0.0], [2.0, 0.0]], dtype=torch.float64)  # of class 0 and 1: g follows from the class
    p = torch.softmax(logits, 1)
    g = ((p - torch.eye(2, dtype=torch.float64)) * logits).sum(1)
    mean, variance, n, groups = g.mean(), g.var(unbiased=False), 8, 2
    generator = torch.Generator().manual_seed(0)
    method = build_method("irm", 2, num_environments=groups).double()
    found, stage = [], last_stage(method)
    for _ in range(3000):
        labels = torch.randint(2, (n,), generator=generator)
        _, terms = method.loss(Given(logits[labels]), batch_of(labels), stage)
        found.append(terms["penalty"].item())
    values = torch.tensor(found, dtype=torch.float64)
    error = values.std() / len(values) ** 0.5
    assert abs(values.mean() - mean**2) < 4 * error
    assert (groups - 1) / n * variance > 8 * error, "the bias of dealt groups would show"


def test_one_sample_has_a_risk_but_no_penalty() -> None:
    logits = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.5]], dtype=torch.float64)
    labels, environments = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1])
    method = build_method("irm", 2).double()
    _, terms = method.loss(Given(logits), batch_of(labels, environments=environments), last_stage(method))
    alone, _ = method.loss(Given(logits[:2]), batch_of(labels[:2], environments=environments[:2]), last_stage(method))
    _, penalty = definition(logits[:2], labels[:2], environments[:2])
    assert terms["penalty"].item() == pytest.approx(penalty.item())
    assert torch.isfinite(alone)


@pytest.mark.parametrize("name", ["irm", "vrex"])
def test_the_penalty_switches_once_and_asks_for_a_fresh_optimizer(name: str) -> None:
    method = build_method(name, 3, penalty_weight=50.0, anneal_steps=3)
    stage = last_stage(method)
    asked = []
    for step in range(6):
        asked.append(method.before_step(stage, step))
        assert method.weight.item() == (1.0 if step < 3 else 50.0)
    assert asked == [False, False, False, True, False, False]
    assert "weight" in method.state_dict()
