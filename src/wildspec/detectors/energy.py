"""Energy score: S(x) = -T log sum_c exp(z_c / T), high = OOD (Liu et al., 2020, eq. 4)."""

import torch
from torch import Tensor

from wildspec.checks import positive
from wildspec.detectors.base import Detector, register


def energy_score(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """(n, C) logits -> (n,) scores, high = OOD."""
    return -temperature * torch.logsumexp(logits / temperature, dim=1)


@register
class Energy(Detector):
    """``temperature``: T, 1 in the paper."""

    name = "energy"
    summary = "negative log-sum-exp of the logits"
    paper = "Liu et al., Energy-based out-of-distribution detection, NeurIPS 2020"
    score_needs = ("logits",)

    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = positive("temperature", temperature)

    def _score(self, *, logits: Tensor) -> Tensor:
        return energy_score(logits, self.temperature)
