"""Parts that systems of open-set domain adaptation share: gradient reversal, and the two-way loss of an unknown output.

Reversal R_s: forward the identity, backward the gradient times -s. A scaling of the gradient is R with a negative s.

Unknown loss (Saito et al., ECCV 2018): with K known logits z, the unknown logit u and p = softmax(z, u)_unknown,
    l_t = -t log p - (1 - t) log(1 - p),    dl_t/du = p - t,    dl_t/dz_k = -(p - t) softmax(z)_k
It is taken as logistic loss of u - logsumexp(z) against t, so that no logarithm needs an epsilon.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class _Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, strength: Tensor) -> Tensor:
        ctx.save_for_backward(strength)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (strength,) = ctx.saved_tensors
        return -strength.to(gradient.dtype) * gradient, None


def reverse_gradient(x: Tensor, strength: Tensor | float = 1.0) -> Tensor:
    """x, whose gradient comes back times -strength."""
    # filled where x is: a copy from the CPU cannot be part of a captured CUDA graph
    made = strength if isinstance(strength, Tensor) else torch.full((), strength, device=x.device)
    return _Reversal.apply(x, made)  # type: ignore[no-any-return, no-untyped-call]


def unknown_log_odds(logits: Tensor) -> Tensor:
    """(n, K+1) logits, the unknown one last -> (n,) log p / (1 - p) = u - logsumexp of the known."""
    return logits[:, -1] - torch.logsumexp(logits[:, :-1], 1)


def unknown_losses(logits: Tensor, target: float = 0.5) -> Tensor:
    """(n, K+1) logits -> (n,) l_t with t = ``target``; its least value, at p = t, is the entropy of (t, 1 - t)."""
    odds = unknown_log_odds(logits)
    return F.softplus(odds) - target * odds
