"""Scores as modules for export, (features (n, d), logits (n, C)) -> (n,): tensor operations alone, no checks, no blocks."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LogitScore(nn.Module):
    """A function of the logits alone."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, features: Tensor, logits: Tensor) -> Tensor:
        return self.function(logits)


class KthDistance(nn.Module):
    """The distance d to the ``k``-th nearest row of ``bank`` (m, d); with a ``rule`` (d + 2,) = w, v, b on it and on the
    normalized features g: w . g + v d + b."""

    bank: Tensor
    rule: Tensor

    def __init__(self, bank: Tensor, k: int, rule: Tensor | None = None) -> None:
        super().__init__()
        self.k = k
        self.register_buffer("bank", bank.detach().cpu().float())
        self.register_buffer("rule", torch.empty(0) if rule is None else rule.detach().cpu().float())

    def forward(self, features: Tensor, logits: Tensor) -> Tensor:
        queries = F.normalize(features, dim=1)
        rows = closeness(queries, self.bank).topk(self.k, dim=1).indices[:, self.k - 1 :]
        distance = exact_distance(queries, self.bank, rows).squeeze(1)
        if not len(self.rule):
            return distance
        return queries @ self.rule[:-2] + self.rule[-2] * distance + self.rule[-1]


def closeness(queries: Tensor, bank: Tensor) -> Tensor:
    """(n, m) that ranks as the distances do, the nearest highest: q.b - |b|^2 / 2; a bank may hold rows of zeros."""
    return queries @ bank.T - (bank * bank).sum(1) / 2


def exact_distance(queries: Tensor, bank: Tensor, rows: Tensor) -> Tensor:
    """(n, k) from the differences themselves, as the detectors take them."""
    difference = bank[rows] - queries[:, None, :]
    return (difference * difference).sum(2).sqrt()
