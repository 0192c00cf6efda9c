"""Pre-activation blocks of one width as a chain of convolutions, each with the batch norm before it.

The chain begins inside a block, before its second batch norm: x_0 is the output of the block's first convolution, x_{-1}
what goes around the block. u_k = relu(scale_k x_k + shift_k), where scale and shift are batch norm's with the statistics of
x_k over the batch. x_{k+1} = conv(u_k, w_k), plus x_{k-1} where k is even: the second convolution of a block. The chain ends
with such a one.

Backward, from the gradient g of x_{k+1}: dv = conv^T(g, w_k) where u_k > 0, else 0; the gradient of w_k is that of a
convolution of u_k; batch norm makes of dv the gradient of x_k, p dv + q x_k + r by channel, with

    p = scale,  q = - scale s dgamma / M,  r = - scale dbeta / M - q mean,  s = 1 / deviation,  M = n S S
    dbeta = sum dv,  dgamma = s sum dv (x_k - mean)

which is not stored: who reads it makes it from dv and x_k. At the start of a block what went around it is added.

`Kernels` says what is done with a map; `wildspec.models.fused.plain` has it in torch's own operations, on any device,
`wildspec.models.fused.launch` as CUDA kernels. Maps are (n, S, S, C), contiguous.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Gradient:
    """g + p dv + q z + r; either half may be missing. ``by``: (3, C) p, q, r."""

    g: Tensor | None
    dv: Tensor | None = None
    z: Tensor | None = None
    by: Tensor | None = None


class Kernels(Protocol):
    """``norm``: (4, C) mean, 1 / deviation, scale, shift. ``sums``: (parts, 2, C), to be added over the parts."""

    def sums(self, x: Tensor) -> Tensor:
        """Of x and x^2."""

    def norm(self, sums: Tensor, count: int, eps: float, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
        """norm and the biased variance."""

    def forward(self, x: Tensor, norm: Tensor, weight: Tensor, residual: Tensor | None, out: Tensor) -> Tensor:
        """Writes x_{k+1}; sums of it and its squares."""

    def data_gradient(
        self, gradient: Gradient, x: Tensor, norm: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Gradient]:
        """dv; sums of dv and dv (x - mean); the gradient, as one map where both halves were there."""

    def weight_gradient(self, gradient: Gradient, x: Tensor, norm: Tensor, out: Tensor) -> None:
        """Writes the gradient of a weight (C, C, 3, 3)."""

    def norm_gradient(self, sums: Tensor, count: int, norm: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        """Writes dgamma and dbeta; p, q, r."""

    def joined(self, gradient: Gradient) -> Tensor:
        """As one map."""


def forward(
    kernels: Kernels, x: Tensor, around: Tensor, gamma: Tensor, beta: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x_0 and x_{-1} (n, S, S, C), gamma and beta (K, C), weight (K, C, C, 3, 3), K odd -> x_K, the maps between
    (K - 1, n, S, S, C), norms (K, 4, C), biased variances (K, C)."""
    count = x.numel() // x.shape[-1]
    maps, out = x.new_empty(len(weight) - 1, *x.shape), torch.empty_like(x)
    inputs, sums, norms, variances = [x, *maps, out], kernels.sums(x), [], []
    for k in range(len(weight)):
        norm, variance = kernels.norm(sums, count, eps, gamma[k], beta[k])
        joins = None if k % 2 else inputs[k - 1] if k else around
        sums = kernels.forward(inputs[k], norm, weight[k], joins, inputs[k + 1])
        norms.append(norm)
        variances.append(variance)
    return out, maps, torch.stack(norms), torch.stack(variances)


def backward(
    kernels: Kernels, g: Tensor, x: Tensor, maps: Tensor, norms: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x_0, x_{-1}, gamma, beta, weight, from that of x_K."""
    count, inputs = x.numel() // x.shape[-1], [x, *maps]
    gamma, beta = torch.empty_like(norms[:, 0]), torch.empty_like(norms[:, 0])
    weights = weight.new_empty(weight.shape)
    gradient, around = Gradient(g), g
    for k in reversed(range(len(weight))):
        dv, sums, gradient = kernels.data_gradient(gradient, inputs[k], norms[k], weight[k])
        kernels.weight_gradient(gradient, inputs[k], norms[k], weights[k])
        by = kernels.norm_gradient(sums, count, norms[k], gamma[k], beta[k])
        if k % 2:
            gradient = Gradient(around, dv, inputs[k], by)
        else:
            assert gradient.g is not None
            around, gradient = gradient.g, Gradient(None, dv, inputs[k], by)
    return kernels.joined(gradient), around, gamma, beta, weights
