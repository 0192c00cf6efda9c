"""Exponential moving average of weights: a second model that follows the first, e <- d e + (1 - d) w.

The effective decay grows as min(d, (1 + t) / (10 + t)): early steps do not anchor the average at the initial weights.
"""

import copy

import torch
from torch import Tensor, nn


class WeightAverage:
    """Follows the floating-point parameters and buffers of ``model``; whole-number buffers are copied."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self._source = [t for t in _tensors(model) if t.is_floating_point()]
        self._average = [t for t in _tensors(self.model) if t.is_floating_point()]
        self._source_counts = [t for t in _tensors(model) if not t.is_floating_point()]
        self._average_counts = [t for t in _tensors(self.model) if not t.is_floating_point()]
        self.step = torch.zeros((), device=next(model.parameters()).device)  # a tensor: the update can be captured

    @torch.no_grad()
    def update(self) -> None:
        self.step += 1
        weight = 1 - torch.clamp((1 + self.step) / (10 + self.step), max=self.decay)
        change = torch._foreach_sub(self._source, self._average)  # a few kernels instead of one per tensor
        torch._foreach_mul_(change, weight.to(change[0].dtype))
        torch._foreach_add_(self._average, change)
        for average, source in zip(self._average_counts, self._source_counts, strict=True):
            average.copy_(source)


def _tensors(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]
