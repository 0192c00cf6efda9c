"""WOODS: reject as much of the wild pool as possible without losing labelled samples or accuracy.

With h(x) = w lse(z(x)) + b (w, b trained beside the network, h > 0 = called out) and the batch means

    A = mean_ID sigmoid(h)           labelled samples called out
    B = mean_wild sigmoid(-h)        wild samples called in
    C = mean_ID CE

it solves  min B  subject to  A <= false_alarms,  C <= ce_factor C0  by the augmented Lagrangian (`lagrangian.py`), where C0
is the cross-entropy of the pre-trained network over the labelled set. Duals move at the end of each epoch, by the
constraints over the whole labelled set in evaluation mode. At test time the score is -lse(z); h is not used.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from wildspec.checks import choice, non_negative, open_fraction, positive
from wildspec.losses.spectral import at_least_float32
from wildspec.methods.base import Context
from wildspec.methods.environments import cross_entropies
from wildspec.methods.lagrangian import Multipliers
from wildspec.methods.modules import evaluating
from wildspec.methods.pooled import pooled_means
from wildspec.methods.wild import WildMethod

FALSE_ALARMS, CE_FACTOR = 0.05, 2.0


class WOODS(WildMethod):
    """Augmented Lagrangian on labelled + wild batches.

    ``logistic_init``: "standardized" starts h at (mean - lse) / std over the labelled set, so that no sigmoid is saturated;
    "published" draws w and b uniformly from [-1, 1] by the seed of the run, the usual start of a linear layer of one input.
    """

    name = "woods"
    summary = "reject the wild pool under constraints on false alarms and accuracy (augmented Lagrangian)"
    paper = "Katz-Samuels et al., 2022 (ICML)"
    margin = 0.0  # subtracted from lse on wild samples
    published: ClassVar[dict[str, Any]] = {"tolerance": 0.0, "shared_multiplier": True, "logistic_init": "published"}
    baseline: Tensor

    def __init__(
        self,
        num_classes: int,
        false_alarms: float = FALSE_ALARMS,
        ce_factor: float = CE_FACTOR,
        out_weight: float = 1.0,
        dual_lr: float = 1.0,
        penalty_growth: float = 1.5,
        tolerance: float = 0.05,
        shared_multiplier: bool = False,
        logistic_init: str = "standardized",
    ) -> None:
        super().__init__(num_classes)
        self.false_alarms = open_fraction("false_alarms", false_alarms)
        self.ce_factor = positive("ce_factor", ce_factor)
        self.out_weight = non_negative("out_weight", out_weight)
        self.logistic_init = choice("logistic_init", logistic_init, ("standardized", "published"))
        self.duals = Multipliers(2, dual_lr, penalty_growth, tolerance, shared_multiplier)
        self.scale = nn.Parameter(torch.tensor(-1.0))  # w
        self.shift = nn.Parameter(torch.tensor(0.0))  # b
        self.register_buffer("baseline", torch.tensor(0.0))  # C0

    def called_out(self, logits: Tensor, margin: float = 0.0) -> Tensor:
        """h of (n, C) logits: (n,), > 0 = called out."""
        return self.scale * (torch.logsumexp(logits, 1) - margin) + self.shift  # elementwise: exact under autocast

    def wild_loss(self, known: Tensor, labels: Tensor, mixed: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        a, b, c = pooled_means(
            torch.sigmoid(self.called_out(known)),
            torch.sigmoid(-self.called_out(mixed, self.margin)),
            cross_entropies(known, labels),
            reduce=self.reduce,
        )
        total = self.out_weight * b + self.duals(self.constraints(a, c))
        logged = {"ce": c, "false_alarms": a, "wild_called_in": b, "lambda_1": self.duals.multipliers[0],
                  "lambda_2": self.duals.multipliers[1]}
        return total, {name: value.detach() for name, value in logged.items()}

    def constraints(self, a: Tensor, c: Tensor) -> Tensor:
        """(2,) values that must be <= 0."""
        return torch.stack([a - self.false_alarms, c - self.ce_factor * self.baseline])

    def start_stage(self, context: Context) -> None:
        if context.stage.name == "pretrain":
            return
        ce, energy, _ = self._over_labelled(context)
        baseline, mean, square = pooled_means(ce, energy, energy**2, reduce=self.reduce)
        self.baseline.copy_(baseline)
        with torch.no_grad():
            if self.logistic_init == "published":
                w, b = 2 * torch.rand(2, generator=torch.Generator().manual_seed(context.seed)) - 1
            else:
                spread = (square - mean**2).clamp_min(1e-6).sqrt()
                w, b = -1 / spread, mean / spread
            self.scale.copy_(w)
            self.shift.copy_(b)

    def end_epoch(self, context: Context, epoch: int) -> None:
        if context.stage.name == "pretrain":
            return
        ce, _, out = self._over_labelled(context)
        a, c = pooled_means(out, ce, reduce=self.reduce)
        self.duals.update(self.constraints(a, c))

    @torch.no_grad()
    def _over_labelled(self, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Cross-entropy, lse and sigmoid(h) of every labelled sample, network in evaluation mode."""
        ce, energy, out = [], [], []
        with evaluating(context.model) as module:
            dtype = next(module.parameters()).dtype
            for images, labels in context.labelled():
                logits = at_least_float32(module(images.to(dtype)))
                ce.append(cross_entropies(logits, labels))
                energy.append(torch.logsumexp(logits, 1))
                out.append(torch.sigmoid(self.called_out(logits)))
        return torch.cat(ce), torch.cat(energy), torch.cat(out)
