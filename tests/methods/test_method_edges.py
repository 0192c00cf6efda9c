"""Small rules of the methods at their edges: duals that relax, a penalty without annealing, modes put back."""

from contextlib import suppress

import pytest
import torch
from torch import nn

from wildspec.methods import build_method
from wildspec.methods.lagrangian import Multipliers
from wildspec.methods.modules import evaluating, frozen_statistics


@pytest.mark.parametrize("weight", [1.0, 2.0, 3.375])
def test_a_multiplier_whose_constraint_is_slack_relaxes_by_its_penalty_weight(weight: float) -> None:
    """b g + l < 0: l <- l - rate l / b, by hand."""
    duals = Multipliers(2, rate=0.5, growth=1.5)
    duals.multipliers.copy_(torch.tensor([0.6, 0.9]))
    duals.weights.fill_(weight)
    duals.update(torch.tensor([-5.0, 0.2]))
    assert duals.multipliers.tolist() == pytest.approx([0.6 - 0.5 * 0.6 / weight, 0.9 + 0.5 * 0.2])
    assert duals.weights.tolist() == pytest.approx([weight, 1.5 * weight])


@pytest.mark.parametrize("name", ["irm", "vrex"])
@pytest.mark.parametrize(("anneal", "step", "weight", "afresh"), [
    (0, 0, 7.0, False), (0, 1, 7.0, False), (3, 0, 1.0, False), (3, 2, 1.0, False), (3, 3, 7.0, True), (3, 4, 7.0, False),
])  # fmt: skip
def test_the_optimizer_starts_afresh_once_at_the_switch(
    name: str, anneal: int, step: int, weight: float, afresh: bool
) -> None:
    method = build_method(name, 3, penalty_weight=7.0, anneal_steps=anneal)
    assert method.before_step(method.stages("fast")[0], step) is afresh
    assert float(method.weight) == weight


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.free, self.frozen = nn.BatchNorm1d(2), nn.BatchNorm1d(2).eval()


@pytest.mark.parametrize("training", [True, False])
def test_every_part_gets_its_own_mode_back(training: bool) -> None:
    net = Net()
    net.training = net.free.training = training
    with suppress(ZeroDivisionError), evaluating(net) as module:  # type: ignore[arg-type]
        assert module is net
        assert not any(part.training for part in net.modules())
        raise ZeroDivisionError
    assert [net.training, net.free.training, net.frozen.training] == [training, training, False]


def test_statistics_stand_still_for_a_while_only() -> None:
    net = Net().free.train()
    net.momentum = 0.3
    rows = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    with frozen_statistics(net):
        inside = net(rows)
    assert net.running_mean.tolist() == [0.0, 0.0]
    assert net.momentum == 0.3
    assert torch.equal(net(rows), inside), "normalized by the batch, inside and outside"
    assert net.running_mean.tolist() == pytest.approx([0.3 * 2, 0.3 * 4])
