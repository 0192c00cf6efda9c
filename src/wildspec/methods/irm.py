"""Invariant risk minimization, version 1: the same classifier should be optimal in every environment.

    L = mean_e R_e + w mean_e g_e(even) g_e(odd),    g_e(H) = d/ds mean_{i in H} CE(s z_i, y_i) at s = 1

Where the two halves of an environment's samples (even and odd places) are independent draws, the product is an unbiased
estimate of the squared gradient. They are where environments come with the data, and where each batch is divided by place
(`by_place`). They are not where classes are dealt evenly: of E dealt groups in a batch of n the halves are negatively
dependent, the product falls short of the square by (E - 1)/n times the variance of the class means of g, and training is
rewarded for making that variance large.

The gradient has a closed form, d/ds CE(s z, y) = sum_c (softmax(z)_c - 1[c = y]) z_c, so no second differentiation is
needed.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from wildspec.methods.base import Batch
from wildspec.methods.environments import PenaltyMethod, by_place, environments_of, rank_within
from wildspec.methods.pooled import group_means, masked_mean, one_hot


def scale_gradients(logits: Tensor, labels: Tensor) -> Tensor:
    """(n, C) logits, (n,) labels -> (n,) d/ds CE(s z_i, y_i) at s = 1."""
    z = logits if logits.dtype == torch.float64 else logits.float()
    return ((torch.softmax(z, 1) - one_hot(labels, z.shape[1], z.dtype)) * z).sum(1)


class IRM(PenaltyMethod):
    """An environment with one sample in the batch has a risk but no penalty."""

    name = "irm"
    summary = "cross-entropy with a penalty on the gradient of each environment's risk"
    paper = "Arjovsky et al., 2019"
    published: ClassVar[dict[str, Any]] = {"penalty_weight": 1.0}  # DomainBed searches it; 100 does not learn

    def __init__(
        self, num_classes: int, penalty_weight: float = 100.0, anneal_steps: int = 500, num_environments: int = 4
    ) -> None:
        super().__init__(num_classes, penalty_weight, anneal_steps, num_environments)

    def groups(self, batch: Batch) -> Tensor:
        return environments_of(batch, self.num_environments, by_place)

    @property
    def groups_made(self) -> str:
        return f"each batch divided by place into {self.num_environments} random groups"

    def penalty(self, logits: Tensor, batch: Batch, risks: Tensor, present: Tensor) -> Tensor:
        groups = self.groups(batch)
        half = rank_within(groups, self.num_environments) % 2
        gradients, counts = group_means(
            scale_gradients(logits, batch.labels), 2 * groups + half, 2 * self.num_environments, self.reduce
        )
        even, odd = gradients.view(-1, 2).unbind(1)
        return masked_mean(even * odd, (counts.view(-1, 2) > 0).all(1))
