"""A small real network on small random images: enough to check plumbing without training."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from wildspec.data.preprocess import Preprocess


class TinyNet(nn.Module):
    """Conv, batch norm, dropout, ReLU, pooling: everything whose result depends on the mode."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(8, 3)

    def features(self, x: Tensor) -> Tensor:
        return self.dropout(torch.relu(self.norm(self.conv(x)))).mean(dim=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


@pytest.fixture
def model() -> TinyNet:
    torch.manual_seed(0)
    network = TinyNet()
    with torch.no_grad():
        network.norm.running_mean.uniform_(-0.1, 0.1)  # type: ignore[union-attr]
        network.norm.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr]
    return network


@pytest.fixture
def preprocess() -> Preprocess:
    return Preprocess(size=6)


@pytest.fixture
def images(rng: np.random.Generator) -> Tensor:
    return torch.from_numpy(rng.integers(0, 256, size=(23, 3, 6, 6), dtype=np.uint8))
