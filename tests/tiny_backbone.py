"""A frozen network of a few hundred weights, whose features tell the shapes of `tiny_model` apart; no training."""

import time

import torch
from torch import Tensor, nn


class Grid(nn.Module):
    """(n, 3, S, S) -> (n, 48): brightness on a grid, and edges through random filters."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.filters = nn.Parameter(torch.randn(12, 1, 3, 3, generator=generator))
        self.passes = 0
        self.pause = 0.0  # seconds an image

    def forward(self, x: Tensor) -> Tensor:
        if not torch.compiler.is_compiling():  # in an exported graph there is nobody to count
            self.passes += len(x)
            time.sleep(self.pause * len(x))
        grey = x.mean(dim=1, keepdim=True)
        edges = nn.functional.conv2d(grey, self.filters).abs().mean(dim=(2, 3))
        return torch.cat([nn.functional.adaptive_avg_pool2d(grey, 6).flatten(1), edges], dim=1)
