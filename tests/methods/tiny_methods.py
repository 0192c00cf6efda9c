"""Small things the method tests share: a network of one matrix, batches, a context."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from wildspec.methods import Batch, Context, Method, Stage


class Linear(nn.Module):
    """Logits = flattened pixels times a matrix: small enough to differentiate by hand."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.head = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
        with torch.no_grad():
            self.head.weight.copy_(weight)

    def features(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


class Given(nn.Module):
    """Logits are what was given, whatever the images."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)
        self.head = nn.Linear(1, logits.shape[1])

    def features(self, x: Tensor) -> Tensor:
        raise AssertionError("only logits are given")

    def forward(self, x: Tensor) -> Tensor:
        assert len(x) == len(self.logits)
        return self.logits


def batch_of(labels: Tensor, wild: int = 0, environments: Tensor | None = None, images: Tensor | None = None) -> Batch:
    if images is None:
        images = torch.zeros(len(labels) + wild, 3, 1, 1, dtype=torch.float64)
    return Batch(images, labels, 1, 1 if wild else 0, environments)


def context_of(model: Any, stage: Stage, batches: Sequence[tuple[Tensor, Tensor]], seed: int = 0) -> Context:
    return Context(model, stage, lambda: iter(batches), 1, seed=seed)


def last_stage(method: Method) -> Stage:
    return method.stages()[-1]
