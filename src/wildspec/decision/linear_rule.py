"""A linear rule between what is known and what the wild pool holds besides: on which side of a plane is a sample?

    L(x) = w . g(x) + v d_K(x) + b        log-odds of unknown against known; high = OOD

g = f / ||f||; d_K: distance to the k-th nearest known sample (labelled, or wild and attributed to a class), itself left out.
A logistic regression between the known samples and the wild ones in groups of their own
(`wildspec.decision.attribution.own_groups`). Both sides have half of the weight, whatever their numbers; LAMBDA/2 (||w||^2 +
v^2) beside the mean loss keeps it finite. A pool with no more samples in groups of their own than the rule has coefficients,
or than k, teaches no rule.
"""

from typing import Any

import torch
from torch import Tensor

from wildspec.decision.attribution import KnownBank, own_groups
from wildspec.graph.nearest import leave_one_out

LAMBDA = 1e-5  # small: it only has to bound the rule where a plane separates both sides


def learn_rule(found: KnownBank, wild: Tensor, labelled: int) -> Tensor | None:
    """(d + 2,) w, v, b; None: the pool teaches none. ``wild``: (m, d) normalized; the bank's first ``labelled`` rows are
    labelled samples, the others wild ones."""
    apart = own_groups(wild, found.attribution, found.k)
    if int(apart.sum()) <= max(found.k, wild.shape[1] + 2):
        return None
    rows = found.rows[:labelled]
    inside = torch.ones(labelled, dtype=torch.bool, device=rows.device)
    near = torch.cat([leave_one_out(rows, inside, found.rows, 0, found.k), found.wild_distance[found.attribution.known]])
    samples = torch.cat([found.rows, wild[apart]])
    return separate(samples, torch.cat([near, found.wild_distance[apart]]), len(found.rows))


def apply_rule(rule: Tensor, rows: Tensor, distance: Tensor) -> Tensor:
    """(d + 2,) rule, (n, d) normalized rows, (n,) their d_K -> (n,) L."""
    return rows @ rule[:-2] + rule[-2] * distance + rule[-1]


def separate(rows: Tensor, distance: Tensor, known: int) -> Tensor:
    """The rule (d + 2,) between the first ``known`` rows (n, d) and the others; ``distance``: (n,) d_K."""
    from sklearn.linear_model import LogisticRegression

    samples = torch.cat([rows, distance.unsqueeze(1)], dim=1).double().cpu().numpy()
    others = (torch.arange(len(rows)) >= known).numpy()
    solver = "newton-cholesky" if samples.shape[1] <= 1024 else "lbfgs"  # exact, but with a matrix of width x width
    strength = 1 / (LAMBDA * len(rows))  # the library weighs the sum of losses against the penalty
    found: Any = LogisticRegression(C=strength, class_weight="balanced", solver=solver, max_iter=1000, tol=1e-7)
    found.fit(samples, others)
    return torch.tensor([*found.coef_[0], *found.intercept_]).to(rows)
