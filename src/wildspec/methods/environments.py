"""Environments: where they come from, and the risks R_e = mean cross-entropy in environment e.

They come with the data (domains, corruption severities: ``TrainData.environments``), or, where there are none, each batch is
dealt into ``num_environments`` groups like cards: sorted by class, one to each group in turn. Group sizes then differ by at
most one, and so do the counts of each class. Such groups are draws of one distribution; docs/methods.md says what that
leaves of each method. IRM alone takes groups by place in the batch (`by_place`): the halves of a dealt group are not
independent.
"""

import warnings
from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from wildspec.checks import integer, non_negative
from wildspec.errors import InputError
from wildspec.methods.base import Batch, Context, Method, Network, Stage
from wildspec.methods.pooled import group_means, masked_mean, one_hot
from wildspec.methods.recipes import domainbed


def deal(labels: Tensor, num_environments: int) -> Tensor:
    """(n,) labels -> (n,) group numbers, balanced in size and class."""
    turn = torch.arange(labels.shape[0], device=labels.device) % num_environments
    return torch.empty_like(turn).scatter_(0, torch.argsort(labels, stable=True), turn)


def by_place(labels: Tensor, num_environments: int) -> Tensor:
    """(n,) labels -> (n,) group numbers 0, 1, ..., 0, 1, ...: batches come in random order, so these are random groups."""
    return torch.arange(labels.shape[0], device=labels.device) % num_environments


def rank_within(groups: Tensor, num_groups: int) -> Tensor:
    """(n,) group numbers -> (n,) place of each sample among those of its group, from 0, in batch order."""
    member = one_hot(groups, num_groups, torch.int64)
    return (member.cumsum(0) * member).sum(1) - 1


def environments_of(
    batch: Batch, num_environments: int, otherwise: Callable[[Tensor, int], Tensor] = deal
) -> Tensor:
    """(n,) environment of each labelled sample: the data's, or made by ``otherwise`` (dealt)."""
    given = batch.environments
    if given is None:
        return otherwise(batch.labels, num_environments)
    if not given.is_cuda and given.numel() and int(given.max()) >= num_environments:  # a look at a GPU would stall it
        raise InputError(
            f"the data has environment {int(given.max())} but the method was built for {num_environments} "
            f"(numbered from 0); set num_environments to {int(given.max()) + 1}"
        )
    return given


def cross_entropies(logits: Tensor, labels: Tensor) -> Tensor:
    """(n,) cross-entropy of each sample, in float32 at least."""
    return F.cross_entropy(logits if logits.dtype == torch.float64 else logits.float(), labels, reduction="none")


class EnvironmentMethod(Method):
    """Base of methods that see one risk per environment."""

    default_detector = "energy"
    uses_environments: ClassVar[bool] = True

    def __init__(self, num_classes: int, num_environments: int = 4) -> None:
        super().__init__(num_classes)
        self.num_environments = integer("num_environments", num_environments, 2)

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        return (domainbed(preset),)

    def groups(self, batch: Batch) -> Tensor:
        """(n,) environment of each labelled sample."""
        return environments_of(batch, self.num_environments)

    @property
    def groups_made(self) -> str:
        """What `groups` does where the data names no environments, as records say it."""
        return f"each batch dealt into {self.num_environments} class-balanced groups"

    def risks(self, logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Risks (E,) of the joint batch and (E,) whether the environment is in it."""
        means, counts = group_means(
            cross_entropies(logits, batch.labels), self.groups(batch), self.num_environments, self.reduce
        )
        return means, counts > 0


class PenaltyMethod(EnvironmentMethod):
    """L = mean_e R_e + w P, with w = 1 for ``anneal_steps`` steps and ``penalty_weight`` from then on.

    At the switch the optimizer starts afresh: its running moments belong to the other loss.
    """

    weight: Tensor

    def __init__(self, num_classes: int, penalty_weight: float, anneal_steps: int, num_environments: int) -> None:
        super().__init__(num_classes, num_environments)
        self.penalty_weight = non_negative("penalty_weight", penalty_weight)
        self.anneal_steps = integer("anneal_steps", anneal_steps, 0)
        self.register_buffer("weight", torch.tensor(1.0 if self.anneal_steps else self.penalty_weight))

    def start_stage(self, context: Context) -> None:
        total = context.total_steps
        if self.anneal_steps >= total:
            warnings.warn(
                f"{self.name}: the stage has {total} steps and anneal_steps is {self.anneal_steps}, so the penalty keeps "
                f"weight 1 and never gets {self.penalty_weight:g}; lower it, e.g. --set anneal_steps={total // 10}",
                stacklevel=2,
            )

    def before_step(self, stage: Stage, step: int) -> bool:
        self.weight.fill_(self.penalty_weight if step >= self.anneal_steps else 1.0)
        return step == self.anneal_steps and step > 0

    def penalty(self, logits: Tensor, batch: Batch, risks: Tensor, present: Tensor) -> Tensor:
        """The scalar P."""
        raise NotImplementedError

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        logits = model(batch.labelled_images)
        risks, present = self.risks(logits, batch)
        mean = masked_mean(risks, present)
        penalty = self.penalty(logits, batch, risks, present)
        return mean + self.weight * penalty, {"risk": mean.detach(), "penalty": penalty.detach()}
