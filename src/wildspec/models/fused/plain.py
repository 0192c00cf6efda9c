"""The steps of `wildspec.models.fused.chain` in torch's own operations: what the CUDA kernels are held to, on any device."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_weight

from wildspec.models.fused.chain import Gradient


class Plain:
    """`wildspec.models.fused.chain.Kernels`, one operation after the other."""

    def sums(self, x: Tensor) -> Tensor:
        return torch.stack([x.sum((0, 1, 2)), (x * x).sum((0, 1, 2))])[None]

    def norm(self, sums: Tensor, count: int, eps: float, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
        first, second = sums.sum(0) / count
        variance = second - first**2
        inverse = (variance + eps).rsqrt()
        return torch.stack([first, inverse, gamma * inverse, beta - first * gamma * inverse]), variance

    def forward(self, x: Tensor, norm: Tensor, weight: Tensor, residual: Tensor | None, out: Tensor) -> Tensor:
        out.copy_(_last(F.conv2d(_second(_active(x, norm)), weight.to(x.dtype), padding=1)))
        if residual is not None:
            out += residual
        return self.sums(out)

    def data_gradient(
        self, gradient: Gradient, x: Tensor, norm: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Gradient]:
        whole = self.joined(gradient)
        du = _last(F.conv_transpose2d(_second(whole), weight.to(x.dtype), padding=1))
        dv = torch.where(_active(x, norm) > 0, du, torch.zeros_like(du))
        sums = torch.stack([dv.sum((0, 1, 2)), (dv * (x - norm[0])).sum((0, 1, 2))])[None]
        return dv, sums, Gradient(whole) if gradient.g is not None else gradient

    def weight_gradient(self, gradient: Gradient, x: Tensor, norm: Tensor, out: Tensor) -> None:
        active, whole = _second(_active(x, norm)), _second(self.joined(gradient))
        out.copy_(conv2d_weight(active, list(out.shape), whole, padding=1))

    def norm_gradient(self, sums: Tensor, count: int, norm: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        mean, inverse, scale, _ = norm
        first, second = sums.sum(0)
        gamma.copy_(inverse * second)
        beta.copy_(first)
        q = -scale * inverse * gamma / count
        return torch.stack([scale, q, -scale * first / count - q * mean])

    def joined(self, gradient: Gradient) -> Tensor:
        if gradient.dv is None:
            assert gradient.g is not None
            return gradient.g
        assert gradient.z is not None
        assert gradient.by is not None
        p, q, r = gradient.by
        normed = p * gradient.dv + q * gradient.z + r
        return normed if gradient.g is None else normed + gradient.g


def _active(x: Tensor, norm: Tensor) -> Tensor:
    return F.relu(norm[2] * x + norm[3])


def _second(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def _last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1)
