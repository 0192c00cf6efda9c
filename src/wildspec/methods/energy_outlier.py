"""Energy fine-tuning with outliers: low energy for labelled samples, high energy for wild ones, E = -lse(z).

    L = mean_ID CE + weight [ mean_ID max(0, E - m_in)^2 + mean_wild max(0, m_out - E)^2 ]
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from wildspec.checks import non_negative, number
from wildspec.errors import InputError
from wildspec.methods.environments import cross_entropies
from wildspec.methods.wild import WildMethod


def squared_hinges(energy_in: Tensor, energy_out: Tensor, m_in: float, m_out: float) -> Tensor:
    """(n,) and (m,) energies -> the bracket above."""
    return torch.relu(energy_in - m_in).square().mean() + torch.relu(m_out - energy_out).square().mean()


class EnergyOutlier(WildMethod):
    """m_in = -23 is the published choice for 10 classes, -27 for 100."""

    name = "energy_outlier"
    summary = "energy margins: labelled samples below one energy, wild samples above another"
    paper = "Liu et al., 2020 (NeurIPS)"
    published: ClassVar[dict[str, Any]] = {"m_in": -25.0}  # the value of SCONE's code, which made the row

    def __init__(self, num_classes: int, weight: float = 0.1, m_in: float = -23.0, m_out: float = -5.0) -> None:
        super().__init__(num_classes)
        self.weight = non_negative("weight", weight)
        self.m_in, self.m_out = number("m_in", m_in), number("m_out", m_out)
        if self.m_in >= self.m_out:
            raise InputError(f"m_in ({self.m_in:g}) must be below m_out ({self.m_out:g}): known samples have low energy")

    def wild_loss(self, known: Tensor, labels: Tensor, mixed: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        ce = cross_entropies(known, labels).mean()
        energy = squared_hinges(-torch.logsumexp(known, 1), -torch.logsumexp(mixed, 1), self.m_in, self.m_out)
        return ce + self.weight * energy, {"ce": ce.detach(), "energy": energy.detach()}
