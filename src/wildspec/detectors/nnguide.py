"""Nearest-neighbour guidance: S(x) = -E(x) G(x), E = log sum exp of the logits, high = OOD (Park et al., 2023).

G(x) is the mean of the k largest E_i <g(x), g_i> over the training samples, g = f / ||f||: the energy is trusted where
confident training samples are near.
"""

import torch
from torch import Tensor

from wildspec.checks import fraction, integer
from wildspec.detectors.base import Detector, register
from wildspec.detectors.inputs import same_width
from wildspec.errors import InputError
from wildspec.graph.nearest import largest_inner_products, normalize


def nnguide_score(features: Tensor, logits: Tensor, bank: Tensor, k: int) -> Tensor:
    """(n, d), (n, C), (m, d) energy-scaled normalized bank -> (n,) scores, high = OOD."""
    similarities, _ = largest_inner_products(normalize(features), bank, k)
    return -torch.logsumexp(logits, dim=1) * similarities.mean(dim=1)


@register
class NNGuide(Detector):
    """``k``: neighbours averaged; ``share``: part of the training samples kept in the bank (the paper: 1 % of ImageNet),
    drawn with ``seed``."""

    name = "nnguide"
    summary = "energy times the energy-weighted similarity to the nearest training samples"
    paper = "Park et al., Nearest neighbor guidance for out-of-distribution detection, ICCV 2023"
    fit_needs = ("features", "logits")
    score_needs = ("features", "logits")
    state_names = ("bank_",)

    def __init__(self, k: int = 10, share: float = 1.0, seed: int = 0) -> None:
        self.k = integer("k", k, minimum=1)
        self.share = fraction("share", share)
        self.seed = integer("seed", seed)

    def _fit(self, *, features: Tensor, logits: Tensor) -> None:
        if self.share < 1:
            generator = torch.Generator().manual_seed(self.seed)
            count = max(1, round(self.share * len(features)))
            chosen = torch.randperm(len(features), generator=generator)[:count].to(features.device)
            features, logits = features[chosen], logits[chosen]
        if self.k > len(features):
            raise InputError(
                f"nnguide with k = {self.k} needs a bank of at least {self.k} samples, got {len(features)}; "
                "lower k or raise share"
            )
        self.bank_ = normalize(features) * torch.logsumexp(logits, dim=1, keepdim=True)

    def _score(self, *, features: Tensor, logits: Tensor) -> Tensor:
        same_width(self, "features", features, self.bank_.shape[1])
        return nnguide_score(features, logits, self.bank_, self.k)
