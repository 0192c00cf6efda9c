"""KNN whose bank also holds the wild samples that belong to a known class: how far is the nearest known thing?

    d_K(x) = || g(x) - g_(k) ||,  g_(k) the k-th nearest of: labelled samples, wild samples attributed to a known class
    rule="distance"   S(x) = d_K(x)
    rule="linear"     S(x) = w . g(x) + v d_K(x) + b

g = f / ||f||. With labelled samples alone (`KNN`) a noisy image of a known class is far from everything, like an unknown
one; the wild pool holds noisy images of known classes too, and to those it is near. Which wild samples they are is told by
`wildspec.decision.attribution`, with no OOD label. Scoring needs the bank alone.

The linear rule, log-odds of unknown against known, is learned from the pool (`wildspec.decision.linear_rule`). A distance
sees how near the nearest known samples are, not from which side; a direction in which all unknown samples of the pool lie
tells them from known ones where distances overlap. v d_K keeps samples high that are like nothing seen so far. Where the
pool teaches no rule, S is d_K. Where none of the pool is attributed, no rule is learned: the detector is `KNN`.
"""

import torch
from torch import Tensor, nn

from wildspec.checks import choice, integer
from wildspec.decision.attribution import Attribution, known_bank, neighbours
from wildspec.decision.linear_rule import apply_rule, learn_rule
from wildspec.detectors.base import Detector, register
from wildspec.detectors.graphs import KthDistance
from wildspec.detectors.inputs import same_width
from wildspec.detectors.knn import knn_score
from wildspec.errors import InputError
from wildspec.graph.nearest import normalize

RULES = ("distance", "linear")


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
        self.attribution_ = self.wild_scores_ = rule = None
        if len(wild) >= 2:
            found = known_bank(known, labels[labels >= 0], wild, k)
            bank, self.attribution_, self.wild_scores_ = found.rows, found.attribution, found.wild_distance
            if self.rule == "linear" and self.attributed:
                rule = learn_rule(found, normalize(wild), len(known))
                if rule is not None:
                    self.wild_scores_ = apply_rule(rule, normalize(wild), found.wild_distance)
        self.bank_ = bank
        self.neighbours_ = torch.tensor(k, device=bank.device)
        if self.rule == "linear":
            self.rule_ = torch.cat([bank.new_zeros(bank.shape[1]), bank.new_tensor([1.0, 0.0])]) if rule is None else rule

    @property
    def attributed(self) -> bool:
        """Was a wild sample of the fit attributed to a class? Where none was this is plain KNN."""
        return self.attribution_ is not None and bool(self.attribution_.known.any())

    @property
    def learned(self) -> bool:
        """Did the pool teach a linear rule?"""
        return self.rule == "linear" and bool(self.rule_[:-2].any())

    def _score(self, *, features: Tensor) -> Tensor:
        same_width(self, "features", features, self.bank_.shape[1])
        queries = normalize(features)
        distance = knn_score(queries, self.bank_, int(self.neighbours_))
        return apply_rule(self.rule_, queries, distance) if self.rule == "linear" else distance

    def graph(self) -> nn.Module:
        self.check_fitted()
        return KthDistance(self.bank_, int(self.neighbours_), self.rule_ if self.rule == "linear" else None)
