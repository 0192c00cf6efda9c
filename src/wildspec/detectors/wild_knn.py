"""KNN whose bank also holds the wild samples that belong to a known class: how far is the nearest known thing?

    S(x) = || g(x) - g_(k) ||,  g_(k) the k-th nearest of: labelled samples, wild samples attributed to a known class

g = f / ||f||. With labelled samples alone (`KNN`) a noisy image of a known class is far from everything, like an unknown
one; the wild pool holds noisy images of known classes too, and to those it is near. Which wild samples they are is told by
`wildspec.decision.attribution`, with no OOD label. Scoring needs the bank alone.
"""

from typing import ClassVar

import torch
from torch import Tensor

from wildspec.checks import integer
from wildspec.decision.attribution import Attribution, known_bank, neighbours
from wildspec.detectors.base import Detector, register
from wildspec.detectors.inputs import same_width
from wildspec.detectors.knn import knn_score
from wildspec.errors import InputError
from wildspec.graph.nearest import normalize


@register
class WildKNN(Detector):
    """Wild samples are the rows with label -1 at fitting. Without any it is `KNN` with another rule for k.

    ``k``: which neighbour; None: one in 500 of the labelled samples, at least 5. Learned: ``bank_`` (m, d), normalized,
    labelled rows first; ``neighbours_``: the k in use. After `fit`, as evidence: ``attribution_`` and ``wild_scores_`` (n,),
    the scores of the wild samples, each with itself left out of the bank (both None without wild samples, and not saved).
    """

    name = "wild_knn"
    summary = "distance to the k-th nearest labelled or attributed wild sample, normalized features"
    paper = "this library; score of Sun et al., 2022"
    uses_wild = True
    fit_needs = ("features", "labels")
    score_needs = ("features",)
    state_names: ClassVar[tuple[str, ...]] = ("bank_", "neighbours_")
    attribution_: Attribution | None = None
    wild_scores_: Tensor | None = None

    def __init__(self, k: int | None = None) -> None:
        self.k = None if k is None else integer("k", k, minimum=1)

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

    def _score(self, *, features: Tensor) -> Tensor:
        same_width(self, "features", features, self.bank_.shape[1])
        return knn_score(normalize(features), self.bank_, int(self.neighbours_))

    def cut_scores(self, held_out: Tensor) -> tuple[Tensor, Tensor] | None:
        """Of held-out features and of the wild pool: other scores than its own in which to look for the pool's two groups;
        None: its own will do (`wildspec.evaluation.calibrate_jointly`)."""
        return None
