"""A small classifier with non-negative features, and samples that hold all a detector may ask for."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

CLASSES, WIDTH = 4, 12


class ReluNet(nn.Module):
    """(n, 3, 4, 4) -> features (n, 12) >= 0 -> logits (n, 4); float64 weights on request. With an output for unknown
    samples and a yes and a no for each class."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, WIDTH, 3)
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(WIDTH, CLASSES)
        self.unknown = nn.Linear(WIDTH, 1)
        self.open_heads = nn.Linear(WIDTH, 2 * CLASSES, bias=False)

    def features(self, x: Tensor) -> Tensor:
        return self.dropout(torch.relu(self.conv(x))).mean(dim=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


@dataclass
class Samples:
    """Everything a detector may ask for, of the same samples."""

    features: Tensor
    logits: Tensor
    labels: Tensor
    inputs: Tensor
    model: nn.Module = field(repr=False)

    def for_fit(self) -> dict[str, Any]:
        return {"features": self.features, "logits": self.logits, "labels": self.labels, "model": self.model}

    def for_score(self, rows: Any = slice(None)) -> dict[str, Any]:
        return {
            "features": self.features[rows],
            "logits": self.logits[rows],
            "inputs": self.inputs[rows],
            "model": self.model,
        }


def make_samples(model: ReluNet, rng: np.random.Generator, n: int, scale: float) -> Samples:
    inputs = torch.from_numpy((rng.normal(size=(n, 3, 4, 4)) * scale).astype(np.float32))
    model.eval()
    with torch.no_grad():
        features = model.features(inputs)
        logits = model.head(features)
    noise = torch.from_numpy(rng.integers(0, CLASSES, n))
    labels = torch.where(torch.from_numpy(rng.random(n) < 0.7), logits.argmax(1), noise)
    return Samples(features, logits, labels, inputs, model)
