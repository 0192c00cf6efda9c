"""SharpDRO by hand: a linear softmax model in numpy, both passes, the group weights, the frozen batch norm."""

import numpy as np
import pytest
import torch
from tiny_methods import Linear, batch_of, last_stage

from wildspec.methods import Batch, build_method
from wildspec.models import build_model


def losses_and_gradients(weight: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per sample: cross-entropy (n,) and its gradient by the matrix (n, C, d)."""
    z = x @ weight.T
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    delta = p.copy()
    delta[np.arange(len(y)), y] -= 1
    return -np.log(p[np.arange(len(y)), y]), delta[:, :, None] * x[:, None, :]


def test_two_steps_by_hand(rng) -> None:
    rho, step_size = 0.3, 0.5
    x, y, groups = rng.normal(size=(10, 3)), rng.integers(0, 4, size=10), np.array([0, 0, 0, 2, 2, 2, 2, 0, 1, 1])
    weight = rng.normal(size=(4, 3))
    network = Linear(torch.tensor(weight))
    method = build_method("sharpdro", 4, rho=rho, step_size=step_size, num_environments=3).double()
    images = torch.tensor(x)[:, :, None, None]
    q = np.full(3, 1 / 3)
    for _ in range(2):  # the second step starts from the reweighed groups
        network.zero_grad()
        logged = method.backward(network, batch_of(torch.tensor(y), environments=torch.tensor(groups), images=images),
                                 last_stage(method))
        before, each = losses_and_gradients(weight, x, y)
        g = each.mean(0)
        moved = weight + rho * g / np.linalg.norm(g)
        after, each_moved = losses_and_gradients(moved, x, y)
        q = q * np.exp(step_size * np.array([before[groups == k].mean() for k in range(3)]))
        q /= q.sum()
        robust = sum(q[k] * each_moved[groups == k].mean(0) for k in range(3))
        np.testing.assert_allclose(network.head.weight.grad.numpy(), g + robust, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(method.group_weights.numpy(), q, rtol=1e-12)
        assert logged["loss"].item() == pytest.approx(before.mean())
        sharpness = sum(q[k] * (after - before)[groups == k].mean() for k in range(3))
        assert logged["sharpness"].item() == pytest.approx(sharpness)
        np.testing.assert_array_equal(network.head.weight.detach().numpy(), weight)  # put back to the last bit


def test_the_hard_group_gains_weight(rng) -> None:
    images = torch.tensor(rng.normal(size=(8, 3, 1, 1)))
    network = Linear(torch.zeros(2, 3, dtype=torch.float64))
    with torch.no_grad():
        network.head.weight[0, 0] = 5.0
    images[:, 0] = 1.0
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])  # class 0 always wins: group 1 is hard
    method = build_method("sharpdro", 2, num_environments=2).double()
    for _ in range(20):
        method.backward(network, batch_of(labels, environments=labels, images=images), last_stage(method))
    assert method.group_weights[1] > 0.7
    assert method.group_weights.sum().item() == pytest.approx(1.0)


def test_running_statistics_are_those_of_one_pass(rng) -> None:
    torch.manual_seed(0)
    network, twin = build_model("small", 3, size=8), build_model("small", 3, size=8)
    twin.load_state_dict(network.state_dict())
    batch = Batch(torch.randn(12, 3, 8, 8), torch.arange(12) % 3, 1, 0)
    method = build_method("sharpdro", 3)
    method.backward(network.train(), batch, last_stage(method))
    twin.train()(batch.images)
    for (name, mine), theirs in zip(network.named_buffers(), twin.buffers(), strict=True):
        if "running" in name:
            assert torch.equal(mine, theirs), name
    assert {m.momentum for m in network.modules() if isinstance(m, torch.nn.BatchNorm2d)} == {0.1}
