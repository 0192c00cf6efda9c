"""Outlier exposure: wild samples should be predicted uniformly.

    L = mean_ID CE + weight mean_wild (lse(z) - mean_c z_c)

The second term is the cross-entropy from the uniform distribution to softmax(z), least (log C) where all logits are equal.
"""

import torch
from torch import Tensor

from wildspec.checks import non_negative
from wildspec.methods.environments import cross_entropies
from wildspec.methods.wild import WildMethod


def uniform_cross_entropies(logits: Tensor) -> Tensor:
    """(m, C) logits -> (m,) cross-entropy from the uniform distribution."""
    return torch.logsumexp(logits, 1) - logits.mean(1)


class OE(WildMethod):
    """The wild pool as it is stands for the outliers, known samples in it included."""

    name = "oe"
    summary = "outlier exposure: uniform predictions on the wild pool"
    paper = "Hendrycks et al., 2019 (ICLR)"
    default_detector = "msp"

    def __init__(self, num_classes: int, weight: float = 0.5) -> None:
        super().__init__(num_classes)
        self.weight = non_negative("weight", weight)

    def wild_loss(self, known: Tensor, labels: Tensor, mixed: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        ce = cross_entropies(known, labels).mean()
        uniform = uniform_cross_entropies(mixed).mean()
        return ce + self.weight * uniform, {"ce": ce.detach(), "uniform": uniform.detach()}
