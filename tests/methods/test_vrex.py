"""VREx against numpy; with penalty weight 0 and equal environments it is ERM."""

import numpy as np
import pytest
import torch
from tiny_methods import Given, batch_of, last_stage

from wildspec.methods import build_method
from wildspec.methods.base import Context


def test_loss_is_mean_plus_weighted_population_variance(rng) -> None:
    z, y = rng.normal(size=(30, 5)), rng.integers(0, 5, size=30)
    environments = rng.integers(0, 3, size=30) * 2 % 5  # numbers 0, 2, 4: 1 and 3 are absent
    method = build_method("vrex", 5, penalty_weight=7.0, anneal_steps=0, num_environments=5).double()
    batch = batch_of(torch.tensor(y), environments=torch.tensor(environments))
    total, terms = method.loss(Given(torch.tensor(z)), batch, last_stage(method))
    losses = np.log(np.exp(z).sum(1)) - z[np.arange(30), y]
    risks = np.array([losses[environments == e].mean() for e in np.unique(environments)])
    assert terms["penalty"].item() == pytest.approx(np.var(risks))
    assert total.item() == pytest.approx(risks.mean() + 7 * np.var(risks))


def test_without_penalty_and_with_equal_environments_it_is_erm(rng) -> None:
    logits, labels = torch.tensor(rng.normal(size=(20, 4))), torch.tensor(rng.integers(0, 4, size=20))
    networks = Given(logits.clone()), Given(logits.clone())
    vrex = build_method("vrex", 4, penalty_weight=0.0, anneal_steps=0).double()  # 20 samples dealt to 4: 5 each
    vrex.backward(networks[0], batch_of(labels), last_stage(vrex))
    erm = build_method("erm", 4)
    erm.backward(networks[1], batch_of(labels), last_stage(erm))
    torch.testing.assert_close(networks[0].logits.grad, networks[1].logits.grad, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("steps", "warned"), [(499, True), (500, True), (501, False)])
def test_a_penalty_that_is_never_switched_on_is_told(
    steps: int, warned: bool, recwarn: pytest.WarningsRecorder
) -> None:
    method = build_method("vrex", 4)
    method.start_stage(Context(None, last_stage(method), lambda: iter(()), steps))  # type: ignore[arg-type]
    assert [str(one.message) for one in recwarn] == [
        f"vrex: the stage has {steps} steps and anneal_steps is 500, so the penalty keeps weight 1 and never gets 10; "
        f"lower it, e.g. --set anneal_steps={steps // 10}"
    ] * warned


def test_the_penalty_pulls_the_worst_environment_hardest(rng) -> None:
    logits = torch.zeros(4, 2, dtype=torch.float64)
    logits[:2, 0] = 2.0  # environment 0 is well predicted
    labels, environments = torch.zeros(4, dtype=torch.long), torch.tensor([0, 0, 1, 1])
    pulls = []
    for weight in (0.0, 5.0):
        network = Given(logits.clone())
        method = build_method("vrex", 2, penalty_weight=weight, anneal_steps=0, num_environments=2).double()
        method.backward(network, batch_of(labels, environments=environments), last_stage(method))
        pulls.append(network.logits.grad[:, 0])
    assert pulls[1][2] < pulls[0][2] < 0  # more push up for the badly predicted
    assert pulls[1][0] > pulls[0][0]  # less for the well predicted
