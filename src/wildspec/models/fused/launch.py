"""The steps of `wildspec.models.fused.chain` as CUDA kernels (kernels.cu): bf16 maps; sums, weights, coefficients float32.

For maps of 32 channels and 32 x 32 pixels, or 64 and 16 x 16: an image with its border fits into shared memory twice.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from wildspec.models.fused.chain import Gradient
from wildspec.models.fused.compiler import Kernel, Long, Module, module

SHAPES = {32: 32, 64: 16}  # channels: side of the map


def shared_bytes(channels: int) -> int:
    """Shared memory of a block that convolves: weights, two images with a border, coefficients."""
    side = SHAPES[channels] + 2
    return 18 * channels**2 + 2 * side**2 * (channels + 8) * 2 + 24 * channels


def _shared_to_weigh(channels: int, sources: int) -> int:
    """16 rows of the maps, those above and below, as they are and as tiles; or the sums of all taps."""
    side = SHAPES[channels]
    rows = 16 + 2 * (side > 16)
    raw = (rows + 16 * sources) * side * channels * 2
    tiles = (18 * (side + 2) + 16 * side) * (channels + 8) * 2
    return max(raw + tiles + 20 * channels, 36 * channels**2)


class Cuda:
    """`wildspec.models.fused.chain.Kernels` on one device, for one number of channels; ``blocks``: one a multiprocessor."""

    def __init__(self, found: Module, blocks: int, channels: int) -> None:
        self.blocks, self.channels = blocks, channels
        convolving = shared_bytes(channels)

        def convolve(name: str) -> Kernel:
            return found.kernel(f"{name}_{channels}", 512, convolving)

        self.active, self.given, self.normed, self.joining = map(convolve, ("active", "given", "normed", "joined"))
        self.weigh_given = found.kernel(f"weigh_given_{channels}", 512, _shared_to_weigh(channels, 1))
        self.weigh_normed = found.kernel(f"weigh_normed_{channels}", 512, _shared_to_weigh(channels, 2))
        self.spread_normed = found.kernel(f"spread_normed_{channels}", 256)
        self.spread_joined = found.kernel(f"spread_joined_{channels}", 256)
        self.channel_sums = found.kernel("channel_sums", 256)
        self.finish_norm = found.kernel("finish_norm", 1024)
        self.finish_gradient = found.kernel("finish_gradient", 1024)
        self.finish_weight = found.kernel("finish_weight", 256)

    def sums(self, x: Tensor) -> Tensor:
        sums = self._sums(x, 8 * self.blocks)
        self.channel_sums(len(sums), x, sums, Long(x.numel() // 8), self.channels)
        return sums

    def norm(self, sums: Tensor, count: int, eps: float, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
        norm, variance = sums.new_empty(4, self.channels), sums.new_empty(self.channels)
        self.finish_norm(1, sums, len(sums), float(count), float(eps), gamma, beta, norm, variance, self.channels)
        return norm, variance

    def forward(self, x: Tensor, norm: Tensor, weight: Tensor, residual: Tensor | None, out: Tensor) -> Tensor:
        sums = self._sums(x)
        self.active(self.blocks, x, None, None, norm[2:], None, None, residual, weight, None, out, sums, len(x))
        return sums

    def data_gradient(
        self, gradient: Gradient, x: Tensor, norm: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Gradient]:
        dv, sums, after = torch.empty_like(x), self._sums(x), gradient
        rest: tuple[Any, ...] = (norm, x, None, weight)
        if gradient.dv is None:
            self.given(self.blocks, gradient.g, None, None, None, *rest, None, dv, sums, len(x))
        elif gradient.g is None:
            self.normed(self.blocks, gradient.dv, gradient.z, None, gradient.by, *rest, None, dv, sums, len(x))
        else:
            after = Gradient(torch.empty_like(x))
            both = gradient.dv, gradient.z, gradient.g, gradient.by
            self.joining(self.blocks, *both, *rest, after.g, dv, sums, len(x))
        return dv, sums, after

    def weight_gradient(self, gradient: Gradient, x: Tensor, norm: Tensor, out: Tensor) -> None:
        parts = norm.new_empty(self.blocks, 9, self.channels, self.channels)
        if gradient.dv is None:
            self.weigh_given(self.blocks, x, norm[2:], gradient.g, None, None, parts, len(x))
        else:
            self.weigh_normed(self.blocks, x, norm[2:], gradient.dv, gradient.z, gradient.by, parts, len(x))
        self.finish_weight(9 * self.channels**2 // 32, parts, self.blocks, out, self.channels)

    def norm_gradient(self, sums: Tensor, count: int, norm: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        by = norm.new_empty(3, self.channels)
        self.finish_gradient(1, sums, len(sums), float(count), norm, gamma, beta, by, self.channels)
        return by

    def joined(self, gradient: Gradient) -> Tensor:
        assert gradient.dv is not None
        out = torch.empty_like(gradient.dv)
        spread = self.spread_normed if gradient.g is None else self.spread_joined
        parts = gradient.dv, gradient.z, gradient.g, gradient.by
        spread(8 * self.blocks, *parts, out, Long(out.numel() // 8))
        return out

    def _sums(self, x: Tensor, parts: int = 0) -> Tensor:
        return torch.empty(parts or self.blocks, 2, self.channels, device=x.device, dtype=torch.float32)


@cache
def kernels(device: int, channels: int) -> Cuda:
    """Compiled and loaded once a process."""
    return Cuda(module(device), torch.cuda.get_device_properties(device).multi_processor_count, channels)
