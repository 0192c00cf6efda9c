"""Gradient reversal and the unknown loss: hand numbers, derivatives, extremes."""

import math

import pytest
import torch

from wildspec.losses.open_set import reverse_gradient, unknown_log_odds, unknown_losses

LOGITS = torch.tensor([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]], dtype=torch.float64)


def test_hand_numbers():
    logits = LOGITS.clone().requires_grad_()
    p = torch.sigmoid(unknown_log_odds(logits))
    torch.testing.assert_close(p, torch.softmax(logits, 1)[:, 2])
    assert p.tolist() == pytest.approx([0.140244, 0.936240], abs=1e-6)
    loss = unknown_losses(logits).mean()
    assert loss.item() == pytest.approx(1.233495, abs=1e-6)
    loss.backward()
    assert logits.grad[:, 2].tolist() == pytest.approx([-0.179878, 0.218120], abs=1e-6)
    assert logits.grad[0, :2].tolist() == pytest.approx([0.048377, 0.131501], abs=1e-6)


@pytest.mark.parametrize("target", [0.5, 0.3, 0.9])
def test_it_is_the_definition(target):
    p = torch.softmax(LOGITS, 1)[:, 2]
    torch.testing.assert_close(unknown_losses(LOGITS, target), -target * p.log() - (1 - target) * (1 - p).log())


def test_the_least_value_is_at_the_target():
    for target, least in ((0.5, math.log(2)), (0.25, -0.25 * math.log(0.25) - 0.75 * math.log(0.75))):
        odds = math.log(target / (1 - target))
        assert unknown_losses(torch.tensor([[0.0, odds]]), target).item() == pytest.approx(least, rel=1e-6)


def test_no_logit_is_too_large():
    loss = unknown_losses(torch.tensor([[0.0, 1e4], [1e4, 0.0]]))
    assert torch.isfinite(loss).all()


def test_reversal_turns_the_gradient_below_it_and_leaves_the_layer_above_alone():
    def gradients(strength):
        torch.manual_seed(0)
        x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
        weight = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
        seen = x if strength is None else reverse_gradient(x, strength)
        torch.testing.assert_close(seen, x, rtol=0, atol=0)
        unknown_losses(seen @ weight.T).mean().backward()
        return x.grad, weight.grad

    below, above = gradients(None)
    for strength in (1.0, 0.3, -0.2, torch.tensor(0.3)):
        found, layer = gradients(strength)
        torch.testing.assert_close(found, -float(strength) * below)
        torch.testing.assert_close(layer, above)
