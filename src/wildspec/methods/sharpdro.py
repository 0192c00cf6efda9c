"""SharpDRO: flat minima for the groups that fare worst.

With mean cross-entropy L, group means L_k and weights w of the network, a step is

    g = grad L(w),   e = rho g / |g|,   q_k <- q_k exp(step L_k(w)) / sum,   s_k = L_k(w + e) - L_k(w)
    gradient given to the optimizer:  g + grad_{w + e} sum_k q_k s_k

L_k(w) is a constant in the second gradient, and batch norm's running statistics are those of the first pass only. Groups
are corruption severities in the paper; here the data's environments, or dealt ones.
"""

import torch
from torch import Tensor

from wildspec.checks import non_negative, positive
from wildspec.methods.base import Batch, Network, Stage
from wildspec.methods.environments import EnvironmentMethod, cross_entropies, environments_of
from wildspec.methods.modules import frozen_statistics, module_of
from wildspec.methods.pooled import group_means, pooled_mean
from wildspec.methods.recipes import supervised


class SharpDRO(EnvironmentMethod):
    """Two forward and backward passes a step."""

    name = "sharpdro"
    summary = "worst-group sharpness minimization: gradients at weights moved uphill, groups weighted by their loss"
    paper = "Huang et al., 2023 (CVPR)"
    group_weights: Tensor

    def __init__(
        self, num_classes: int, rho: float = 0.05, step_size: float = 0.01, num_environments: int = 4
    ) -> None:
        super().__init__(num_classes, num_environments)
        self.rho = positive("rho", rho)
        self.step_size = non_negative("step_size", step_size)
        self.register_buffer("group_weights", torch.full((self.num_environments,), 1 / self.num_environments))

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        """200 epochs of batch 100 without Nesterov, as published; fast: as ERM's. Cosine in both."""
        stage = supervised(preset)
        return (stage if preset == "fast" else stage.scaled(epochs=200.0, batch_labelled=100, nesterov=False),)

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        """L(w), the first of the two terms; `backward` adds the other."""
        return cross_entropies(model(batch.labelled_images), batch.labels).mean(), {}

    def backward(self, model: Network, batch: Batch, stage: Stage) -> dict[str, Tensor]:
        module = module_of(model)
        weights: list[Tensor] = [p for p in module.parameters() if p.requires_grad]
        groups = environments_of(batch, self.num_environments)

        before = cross_entropies(model(batch.labelled_images), batch.labels)
        gradient = self._joint(torch.autograd.grad(before.mean(), weights, materialize_grads=True))
        before = before.detach()
        with torch.no_grad():
            norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradient]))
            kept = [p.clone() for p in weights]
            for p, g in zip(weights, gradient, strict=True):
                p.add_(g * (self.rho / (norm + 1e-12)))
            self._reweigh(before, groups)

        with frozen_statistics(module):
            after = cross_entropies(model(batch.labelled_images), batch.labels)
        sharpness, _ = group_means(after - before, groups, self.num_environments, self.reduce)
        robust = (self.group_weights * sharpness).sum()
        robust.backward()

        with torch.no_grad():
            for p, old, g in zip(weights, kept, gradient, strict=True):
                p.copy_(old)
                p.grad = g if p.grad is None else p.grad.add_(g)
        return {"loss": pooled_mean(before, self.reduce), "sharpness": robust.detach(), "norm": norm}

    def _reweigh(self, losses: Tensor, groups: Tensor) -> None:
        """q_k <- q_k exp(step L_k), renormalized; a group that is not in the batch keeps its place (L_k = 0)."""
        means, _ = group_means(losses, groups, self.num_environments, self.reduce)
        weights = self.group_weights * torch.exp(self.step_size * means)
        self.group_weights.copy_(weights / weights.sum())

    def _joint(self, gradient: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Mean of the gradient over processes: all of them must move the weights alike."""
        if self.reduce is None:
            return gradient
        one = gradient[0].new_ones(1)
        flat = self.reduce(torch.cat([one, *(g.reshape(-1) for g in gradient)]))
        pieces = (flat[1:] / flat[0]).split([g.numel() for g in gradient])
        return tuple(piece.view_as(g) for piece, g in zip(pieces, gradient, strict=True))
