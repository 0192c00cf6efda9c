"""Invariant risk minimization, version 1: the same classifier should be optimal in every environment.

    L = mean_e R_e + w mean_e g_e(even) g_e(odd),    g_e(H) = d/ds mean_{i in H} CE(s z_i, y_i) at s = 1

The two halves of an environment's samples (even and odd places) make the product an unbiased estimate of the squared
gradient. The gradient has a closed form, d/ds CE(s z, y) = sum_c (softmax(z)_c - 1[c = y]) z_c, so no second
differentiation is needed.
"""

import torch
from torch import Tensor

from wildspec.methods.base import Batch
from wildspec.methods.environments import PenaltyMethod, environments_of, rank_within
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

    def __init__(
        self, num_classes: int, penalty_weight: float = 100.0, anneal_steps: int = 500, num_environments: int = 4
    ) -> None:
        super().__init__(num_classes, penalty_weight, anneal_steps, num_environments)

    def penalty(self, logits: Tensor, batch: Batch, risks: Tensor, present: Tensor) -> Tensor:
        groups = environments_of(batch, self.num_environments)
        half = rank_within(groups, self.num_environments) % 2
        gradients, counts = group_means(
            scale_gradients(logits, batch.labels), 2 * groups + half, 2 * self.num_environments, self.reduce
        )
        even, odd = gradients.view(-1, 2).unbind(1)
        return masked_mean(even * odd, (counts.view(-1, 2) > 0).all(1))
