"""Mixup against loops: who meets whom, what the loss is, what is drawn."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import beta, kstest
from tiny_methods import Linear, batch_of, last_stage

from wildspec.methods import Context, build_method
from wildspec.methods.mixup import circle_partners


def test_partners_stand_in_the_next_environment_of_the_circle() -> None:
    groups = torch.tensor([0, 3, 0, 1, 3, 3, 0, 1])  # environment 2 is absent
    keys = torch.tensor([0.9, 0.1, 0.0, 0.5])  # circle: 1 -> 3 -> 0 -> 1
    following = {1: 3, 3: 0, 0: 1}
    members = {g: [i for i in range(8) if groups[i] == g] for g in (0, 1, 3)}
    expected = []
    for i in range(8):
        g = int(groups[i])
        others = members[following[g]]
        expected.append(others[members[g].index(i) % len(others)])
    assert circle_partners(groups, keys).tolist() == expected


def test_one_environment_pairs_neighbours() -> None:
    assert circle_partners(torch.tensor([2, 2, 2]), torch.rand(4)).tolist() == [1, 2, 0]


def begin(seed: int) -> Context:
    return Context(None, last_stage(build_method("mixup", 3)), lambda: iter(()), 1, seed=seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("named", [True, False])
def test_loss_is_the_definition(rng, named: bool) -> None:
    images = torch.tensor(rng.normal(size=(9, 3, 2, 2)))
    labels = torch.tensor(rng.integers(0, 4, size=9))
    environments = torch.tensor([0, 0, 0, 2, 2, 2, 1, 1, 1])
    network = Linear(torch.tensor(rng.normal(size=(4, 12))))
    method = build_method("mixup", 4, num_environments=3).double()
    method.before_step(last_stage(method), 5)
    batch = batch_of(labels, environments=environments if named else None, images=images)
    got = method.loss(network, batch, last_stage(method))[0]
    if named:
        circle = method.keys.argsort().tolist()
        pairs = [(circle[k], circle[(k + 1) % 3]) for k in range(3)]
        total = 0.0
        for a, b in pairs:
            share = method.shares[a]
            x = share * images[environments == a] + (1 - share) * images[environments == b]
            ya, yb = labels[environments == a], labels[environments == b]
            total += share * F.cross_entropy(network(x), ya) + (1 - share) * F.cross_entropy(network(x), yb)
        expected = total / 3
    else:
        share, partner = method.shares[0], torch.tensor([*range(1, 9), 0])
        logits = network(share * images + (1 - share) * images[partner])
        expected = share * F.cross_entropy(logits, labels) + (1 - share) * F.cross_entropy(logits, labels[partner])
    assert got.item() == pytest.approx(expected.item(), rel=1e-12)


def test_shares_follow_beta_and_depend_on_seed_and_step_alone() -> None:
    first, second = (build_method("mixup", 3, alpha=0.7, num_environments=2) for _ in range(2))
    stage = last_stage(first)
    drawn = []
    for step in range(500):
        first.before_step(stage, step)
        drawn.append(first.shares.tolist())
    flat = np.array(drawn).ravel()
    assert kstest(flat, beta(0.7, 0.7).cdf).pvalue > 1e-3
    second.before_step(stage, 123)
    assert second.shares.tolist() == drawn[123]
    second.start_stage(begin(4))
    second.before_step(stage, 123)
    assert second.shares.tolist() != drawn[123]
    torch.rand(3)  # what else is drawn in the process changes nothing
    third = build_method("mixup", 3, alpha=0.7, num_environments=2)
    third.start_stage(begin(4))
    third.before_step(stage, 123)
    assert torch.equal(third.shares, second.shares)
    first.load_state_dict(second.state_dict())  # the seed travels with the checkpoint
    first.before_step(stage, 77)
    second.before_step(stage, 77)
    assert torch.equal(first.shares, second.shares)


def test_a_checkpoint_of_an_earlier_version_goes_on_with_its_own_draws() -> None:
    """It kept a seed of its own, of up to 62 bits, beside the buffers; blends followed from that and the step."""
    method, seed = build_method("mixup", 3, num_environments=2), 2**61 + 5
    state = {"shares": torch.zeros(2), "keys": torch.zeros(2), "_extra_state": torch.tensor(seed)}
    method.load_state_dict(state)
    method.before_step(last_stage(method), 7)
    draw = np.random.default_rng([seed, 7])
    expected = draw.beta(0.2, 0.2, 2)
    assert method.shares.tolist() == pytest.approx(expected.tolist(), rel=1e-6)
    assert all(isinstance(value, torch.Tensor) for value in method.state_dict().values())
    assert "_extra_state" not in method.state_dict()
