"""Mixup: train on blends of two samples and of their losses.

    x = l x_i + (1 - l) x_j,    L = mean [ l CE(z(x), y_i) + (1 - l) CE(z(x), y_j) ],    l ~ Beta(alpha, alpha)

Across environments, as DomainBed pairs them: the environments of a batch stand in a random circle, each sample is blended
with one of the next environment, with one l per pair of environments. Where the data names no environments, each sample is
blended with its neighbour in the batch, which is a random other sample, since batches come in random order.

l and the circle are drawn from the run's seed, the step and, where there are several processes, the process: each blends its
own share of the batch.
"""

from typing import Any, ClassVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from wildspec.checks import integer, positive
from wildspec.methods.base import Batch, Context, Method, Network, Stage
from wildspec.methods.environments import cross_entropies, environments_of, rank_within
from wildspec.methods.pooled import group_means, masked_mean, one_hot
from wildspec.methods.recipes import supervised


def circle_partners(groups: Tensor, keys: Tensor) -> Tensor:
    """(n,) environments and (E,) random keys -> (n,) index of each sample's partner in the next environment.

    Environments of the batch stand in a circle in the order of their keys; the k-th sample of one meets the k-th of the
    next, starting over where the next one is smaller. A batch of one environment pairs samples within it.
    """
    num = keys.shape[0]
    counts = one_hot(groups, num, torch.int64).sum(0)
    starts = counts.cumsum(0) - counts
    order = torch.argsort(torch.where(counts > 0, keys, torch.inf))  # absent ones last
    present = (counts > 0).sum()
    place = torch.empty_like(order).scatter_(0, order, torch.arange(num, device=order.device))
    following = order[(place + 1) % present]
    target = following[groups]
    rank = rank_within(groups, num) + (present == 1)  # alone: the neighbour, not itself
    members = torch.argsort(groups, stable=True)  # samples, environment by environment
    return members[starts[target] + rank % counts[target]]


class Mixup(Method):
    """Cross-entropy on blended images and labels."""

    name = "mixup"
    summary = "cross-entropy on blends of two images, across environments where the data has them"
    paper = "Zhang et al., 2018 (ICLR); across environments: Xu et al., 2020 (AAAI)"
    default_detector = "energy"
    uses_environments: ClassVar[bool] = True
    seed: Tensor
    shares: Tensor
    keys: Tensor

    def __init__(self, num_classes: int, alpha: float = 0.2, num_environments: int = 4) -> None:
        super().__init__(num_classes)
        self.alpha = positive("alpha", alpha)
        self.num_environments = integer("num_environments", num_environments, 2)
        self._seed = 0  # the same on the host: a look at a GPU's would stall every step
        self.register_buffer("seed", torch.tensor(0))
        self.register_buffer("shares", torch.full((self.num_environments,), 0.5))  # l of each environment's pair
        self.register_buffer("keys", torch.arange(self.num_environments, dtype=torch.float32))  # order in the circle

    @property
    def groups_made(self) -> str:
        """What is done where the data names no environments, as records say it."""
        return "none: neighbours in a batch are blended"

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        return (supervised(preset),)

    def start_stage(self, context: Context) -> None:
        self.seed.fill_(context.seed)
        self._seed = context.seed

    def before_step(self, stage: Stage, step: int) -> bool:
        """Draw on the host, as a function of seed, step and process alone; only the buffers reach the (captured) step."""
        rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
        draw = np.random.default_rng([self._seed, step, rank])
        shares = draw.beta(self.alpha, self.alpha, self.num_environments)
        self.shares.copy_(torch.as_tensor(shares, dtype=torch.float32))
        self.keys.copy_(torch.as_tensor(draw.random(self.num_environments), dtype=torch.float32))
        return False

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        x, y = batch.labelled_images, batch.labels
        if batch.environments is None:
            groups = torch.zeros_like(y)
            partner = torch.arange(1, y.shape[0] + 1, device=y.device) % y.shape[0]
        else:
            groups = environments_of(batch, self.num_environments)
            partner = circle_partners(groups, self.keys)
        share = self.shares.to(x.dtype)[groups]  # (n,)
        blend = share[:, None, None, None]
        logits = model(blend * x + (1 - blend) * x[partner])
        losses = share * cross_entropies(logits, y) + (1 - share) * cross_entropies(logits, y[partner])
        means, counts = group_means(losses, groups, self.num_environments, self.reduce)
        return masked_mean(means, counts > 0), {"share": share.mean().float()}

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        if (before := state_dict.pop(f"{prefix}_extra_state", None)) is not None:  # where earlier versions kept the seed
            state_dict.setdefault(f"{prefix}seed", before)
        super()._load_from_state_dict(state_dict, prefix, *rest)
        self._seed = int(self.seed)
