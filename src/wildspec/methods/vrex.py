"""Variance risk extrapolation: the risks of all environments should be equal.

    L = mean_e R_e + w mean_e (R_e - mean R)^2
"""

from torch import Tensor

from wildspec.methods.base import Batch
from wildspec.methods.environments import PenaltyMethod
from wildspec.methods.pooled import masked_mean


def risk_variance(risks: Tensor, present: Tensor) -> Tensor:
    """Population variance of the (E,) risks of environments that are present."""
    return masked_mean((risks - masked_mean(risks, present)) ** 2, present)


class VREx(PenaltyMethod):
    """Penalty weight 1 for 500 steps, then 10."""

    name = "vrex"
    summary = "cross-entropy with a penalty on the variance of the environments' risks"
    paper = "Krueger et al., 2021 (ICML)"

    def __init__(
        self, num_classes: int, penalty_weight: float = 10.0, anneal_steps: int = 500, num_environments: int = 4
    ) -> None:
        super().__init__(num_classes, penalty_weight, anneal_steps, num_environments)

    def penalty(self, logits: Tensor, batch: Batch, risks: Tensor, present: Tensor) -> Tensor:
        return risk_variance(risks, present)
