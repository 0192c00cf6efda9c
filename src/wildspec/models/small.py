"""A small convolutional network that trains in seconds on a CPU: for the demo, tests and modest machines."""

import itertools

import torch.nn.functional as F
from torch import Tensor, nn


class SmallNet(nn.Module):
    """Three 3x3 convolutions with batch norm and ReLU, each of the first two halving an image larger than
    4 px, then the mean.

    (n, 3, H, W) -> (n, 4 * width) features; works from 8 px up.
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        widths = (3, width, 2 * width, 4 * width)
        self.convs = nn.ModuleList(
            nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in itertools.pairwise(widths)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in widths[1:])
        self.feature_dim = widths[-1]
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = F.relu(norm(conv(x)))
            if x.shape[-1] > 4 and conv is not self.convs[-1]:
                x = F.max_pool2d(x, 2)
        return x.mean(dim=(2, 3))
