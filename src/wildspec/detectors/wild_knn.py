"""KNN whose bank also holds the wild samples that belong to a known class: how far is the nearest known thing?

    d_K(x) = || g(x) - g_(k) ||,  g_(k) the k-th nearest of: labelled samples, wild samples attributed to a known class
    rule="distance"   S(x) = d_K(x)
    rule="linear"     S(x) = w . g(x) + v d_K(x) + b

g = f / ||f||. With labelled samples alone (`KNN`) a noisy image of a known class is far from everything, like an unknown
one; the wild pool holds noisy images of known classes too, and to those it is near. Which wild samples they are is told by
`wildspec.decision.attribution`, with no OOD label. Scoring needs the bank alone.

The linear rule is the log-odds of a logistic regression between the known samples (labelled, and wild ones attributed to a
class; d_K with themselves left out) and wild samples in groups of their own (`wildspec.decision.attribution.own_groups`).
Both sides have half of the weight, whatever their numbers; LAMBDA/2 (||w||^2 + v^2) beside the mean loss keeps it finite. A
distance sees how near the nearest known samples are, not from which side; a direction in which all unknown samples of the
pool lie tells them from known ones where distances overlap. v d_K keeps samples high that are like nothing seen so far. A
pool with no more such samples than the rule has coefficients, or than k, teaches no rule, and S is d_K.
"""

from typing import Any

import torch
from torch import Tensor, nn

from wildspec.checks import choice, integer
from wildspec.decision.attribution import Attribution, known_bank, neighbours, own_groups
from wildspec.detectors.base import Detector, register
from wildspec.detectors.graphs import KthDistance
from wildspec.detectors.inputs import same_width
from wildspec.detectors.knn import knn_score
from wildspec.errors import InputError
from wildspec.graph.nearest import leave_one_out, normalize

RULES = ("distance", "linear")
LAMBDA = 1e-5  # small: it only has to bound the rule where a plane separates both sides


@register
class WildKNN(Detector):
    """Wild samples are the rows with label -1 at fitting. Without any it is `KNN` with another rule for k.

    ``k``: which neighbour; None: one in 500 of the labelled samples, at least 5. ``rule``: "distance" or "linear". Learned:
    ``bank_`` (m, d), normalized, labelled rows first; ``neighbours_``: the k in use; with rule="linear" ``rule_`` (d + 2,) =
    w, v, b. After `fit`, as evidence: ``attribution_`` and ``wild_scores_`` (n,), the scores of the wild samples, each with
    itself left out of the bank (both None without wild samples, and not saved).
    """

    name = "wild_knn"
    summary = "distance to the k-th nearest labelled or attributed wild sample, or a linear rule on it and the features"
    paper = "this library; score of Sun et al., 2022"
    uses_wild = True
    fit_needs = ("features", "labels")
    score_needs = ("features",)
    attribution_: Attribution | None = None
    wild_scores_: Tensor | None = None

    def __init__(self, k: int | None = None, rule: str = "distance") -> None:
        self.k = None if k is None else integer("k", k, minimum=1)
        self.rule = choice("rule", rule, RULES)
        self.state_names = ("bank_", "neighbours_", "rule_") if rule == "linear" else ("bank_", "neighbours_")

    def _fit(self, *, features: Tensor, labels: Tensor) -> None:
        labels = labels.to(features.device)
        known, wild = features[labels >= 0], features[labels < 0]
        if not len(known):
            raise InputError("wild_knn needs labelled samples: rows with a label of 0 or more; got none")
        k = neighbours(len(known)) if self.k is None else self.k
        if k > len(known):
            raise InputError(f"wild_knn with k = {k} needs at least {k} labelled samples, got {len(known)}; lower k")
        bank = normalize(known)
        self.attribution_ = self.wild_scores_ = None
        if len(wild) >= 2:
            found = known_bank(known, labels[labels >= 0], wild, k)
            bank, self.attribution_, self.wild_scores_ = found.rows, found.attribution, found.wild_distance
        self.bank_ = bank
        self.neighbours_ = torch.tensor(k, device=bank.device)
        if self.rule == "linear":
            self._fit_rule(normalize(wild), len(known), k)

    @property
    def learned(self) -> bool:
        """Did the pool teach a linear rule?"""
        return self.rule == "linear" and bool(self.rule_[:-2].any())

    def _fit_rule(self, wild: Tensor, labelled: int, k: int) -> None:
        """From the bank, whose first ``labelled`` rows are labelled samples, and the (n, d) normalized wild samples."""
        self.rule_ = torch.cat([self.bank_.new_zeros(self.bank_.shape[1]), self.bank_.new_tensor([1.0, 0.0])])  # S = d_K
        if self.attribution_ is None or self.wild_scores_ is None:
            return
        apart = own_groups(wild, self.attribution_, k)
        if int(apart.sum()) <= max(k, len(self.rule_)):
            return
        rows = self.bank_[:labelled]
        inside = torch.ones(labelled, dtype=torch.bool, device=rows.device)
        near = torch.cat([leave_one_out(rows, inside, self.bank_, 0, k), self.wild_scores_[self.attribution_.known]])
        samples = torch.cat([self.bank_, wild[apart]])
        self.rule_ = separate(samples, torch.cat([near, self.wild_scores_[apart]]), len(self.bank_))
        self.wild_scores_ = apply_rule(self.rule_, wild, self.wild_scores_)

    def _score(self, *, features: Tensor) -> Tensor:
        same_width(self, "features", features, self.bank_.shape[1])
        queries = normalize(features)
        distance = knn_score(queries, self.bank_, int(self.neighbours_))
        return apply_rule(self.rule_, queries, distance) if self.rule == "linear" else distance

    def graph(self) -> nn.Module:
        self.check_fitted()
        return KthDistance(self.bank_, int(self.neighbours_), self.rule_ if self.rule == "linear" else None)


def apply_rule(rule: Tensor, rows: Tensor, distance: Tensor) -> Tensor:
    """(d + 2,) rule, (n, d) normalized rows, (n,) their d_K -> (n,) S."""
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
