"""WildKNN and a linear rule learned from the pool: on which side, the known samples' or the strangers', does a sample lie?

    S(x) = w . g(x) + v d_K(x) + b,   g = f / ||f||,   d_K(x): the distance of `WildKNN`

The log-odds of a logistic regression between the known samples (labelled, and wild ones attributed to a class; d_K with
themselves left out) and the strangers: wild samples in groups of their own (`wildspec.decision.attribution.own_groups`).
Both sides have half of the weight, whatever their numbers; LAMBDA/2 (||w||^2 + v^2) beside the mean loss keeps the rule
finite. No OOD label is used.

A distance sees how near the nearest known samples are, not from which side; a direction in which all strangers of the pool
lie tells them from known ones where distances overlap. v d_K keeps samples high that are like nothing seen so far.

The score is an estimate of log-odds for halves of either kind, not a distance; a pool with k strangers or fewer teaches no
rule, and S is d_K. Where the unknown samples of tomorrow are unlike those of the pool, `WildKNN` promises more.
"""

from typing import ClassVar

import torch
from torch import Tensor

from wildspec.decision.attribution import own_groups
from wildspec.detectors.base import register
from wildspec.detectors.wild_knn import WildKNN
from wildspec.graph.nearest import leave_one_out, normalize

LAMBDA = 1e-5  # small: it only has to bound the rule where a plane separates both sides


@register
class WildLinear(WildKNN):
    """``k``: as in `WildKNN`. Learned besides: ``rule_`` (d + 2,) = w, v, b; without strangers 0, 1, 0."""

    name = "wild_linear"
    summary = "log-odds of a linear rule on features and wild_knn's distance, known against wild groups of no class"
    paper = "this library; distances of Sun et al., 2022"
    state_names: ClassVar[tuple[str, ...]] = (*WildKNN.state_names, "rule_")

    def _fit(self, *, features: Tensor, labels: Tensor) -> None:
        super()._fit(features=features, labels=labels)
        width = self.bank_.shape[1]
        self.rule_ = torch.cat([self.bank_.new_zeros(width), self.bank_.new_tensor([1.0, 0.0])])
        if self.attribution_ is None or self.wild_scores_ is None:
            return
        wild = normalize(features[labels.to(features.device) < 0])
        known, k = self.attribution_.known, int(self.neighbours_)
        strange = own_groups(wild, self.attribution_, k)
        if int(strange.sum()) <= k:
            return
        first = len(self.bank_) - int(known.sum())  # labelled rows come first
        labelled = self.bank_[:first]
        inside = torch.ones(first, dtype=torch.bool, device=labelled.device)
        near = torch.cat([leave_one_out(labelled, inside, self.bank_, 0, k), self.wild_scores_[known]])
        rows = torch.cat([self.bank_, wild[strange]])
        self.rule_ = separate(rows, torch.cat([near, self.wild_scores_[strange]]), len(self.bank_))
        self.wild_scores_ = apply_rule(self.rule_, wild, self.wild_scores_)

    def _score(self, *, features: Tensor) -> Tensor:
        return apply_rule(self.rule_, normalize(features), super()._score(features=features))


def apply_rule(rule: Tensor, rows: Tensor, distance: Tensor) -> Tensor:
    """(d + 2,) rule, (n, d) normalized rows, (n,) their d_K -> (n,) S."""
    return rows @ rule[:-2] + rule[-2] * distance + rule[-1]


def separate(rows: Tensor, distance: Tensor, known: int) -> Tensor:
    """The rule (d + 2,) between the first ``known`` rows (n, d) and the others; ``distance``: (n,) d_K."""
    from sklearn.linear_model import LogisticRegression

    samples = torch.cat([rows, distance.unsqueeze(1)], dim=1).double().cpu().numpy()
    strange = (torch.arange(len(rows)) >= known).numpy()
    solver = "newton-cholesky" if samples.shape[1] <= 1024 else "lbfgs"  # exact, but with a matrix of width x width
    strength = 1 / (LAMBDA * len(rows))  # the library weighs the sum of losses against the penalty
    found = LogisticRegression(C=strength, class_weight="balanced", solver=solver, max_iter=1000, tol=1e-7)
    found.fit(samples, strange)
    return torch.tensor([*found.coef_[0], *found.intercept_]).to(rows)
