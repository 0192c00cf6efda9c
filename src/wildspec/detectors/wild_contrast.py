"""WildKNN with a second bank: is the sample nearer to what is known, or to what the wild pool holds of unknown things?

    S(x) = d_K(x) + max(0, d_K(x) - d_U(x))

d_K: distance to the k-th nearest of the known bank (`WildKNN`); d_U: to the k-th nearest of the wild samples that were
attributed to no class, the strangers. A few labelled samples that lie among unknown ones make d_K of these small; d_U is
smaller still, and S counts the difference. A sample nearer to the known ones has S = d_K, and S is never below d_K: unknown
samples unlike those of the pool are scored as before, which a difference or a ratio of the two distances would not do.

S jumps upward where strangers are nearer, so that a cut between the two groups of a pool, sought in S, would lie higher than
the known samples ask for. It is sought in d_K instead (``cut_scores``), and what `WildKNN` rejects is rejected.

Fewer than k + 1 strangers are no group: S is then d_K. Where attribution leaves many shifted samples of known classes among
the strangers (`wildspec.evaluation.Mixture.separated` is False), S is higher for such samples than it should be.
"""

from typing import ClassVar

import torch
from torch import Tensor

from wildspec.detectors.base import register
from wildspec.detectors.knn import knn_score
from wildspec.detectors.wild_knn import WildKNN
from wildspec.graph.nearest import leave_one_out, normalize
from wildspec.graph.precision import exact_arithmetic


@register
class WildContrast(WildKNN):
    """``k``: for both banks, as in `WildKNN`. Learned besides: ``strangers_`` (m, d), normalized; m = 0 or more than k.

    Evidence besides: ``wild_distances_`` (n,), d_K of the wild samples, each left out of the bank."""

    name = "wild_contrast"
    summary = "as wild_knn, and higher where wild samples of no class are nearer than known ones"
    paper = "this library; distances of Sun et al., 2022"
    state_names: ClassVar[tuple[str, ...]] = (*WildKNN.state_names, "strangers_")
    wild_distances_: Tensor | None = None

    def _fit(self, *, features: Tensor, labels: Tensor) -> None:
        super()._fit(features=features, labels=labels)
        self.strangers_, self.wild_distances_ = self.bank_[:0], self.wild_scores_
        if self.attribution_ is None or self.wild_scores_ is None:
            return
        rows = normalize(features[labels.to(features.device) < 0])
        strange = ~self.attribution_.known
        k = int(self.neighbours_)
        if int(strange.sum()) <= k:  # a stranger's own k-th neighbour among them must exist too
            return
        self.strangers_ = rows[strange]
        self.wild_scores_ = contrast(self.wild_scores_, leave_one_out(rows, strange, self.strangers_, 0, k))

    def cut_scores(self, held_out: Tensor) -> tuple[Tensor, Tensor] | None:
        """d_K of both."""
        if self.wild_distances_ is None:
            return None
        with torch.no_grad(), exact_arithmetic(self.bank_.device):
            known = knn_score(normalize(held_out.to(self.bank_)), self.bank_, int(self.neighbours_))
        return known, self.wild_distances_

    def _score(self, *, features: Tensor) -> Tensor:
        known = super()._score(features=features)
        if not len(self.strangers_):
            return known
        return contrast(known, knn_score(normalize(features), self.strangers_, int(self.neighbours_)))


def contrast(known: Tensor, unknown: Tensor) -> Tensor:
    """(n,) distances to both banks -> (n,) known + max(0, known - unknown)."""
    return known + torch.relu(known - unknown)
