"""Generalized entropy: S(x) = sum_{c in top M} p_c^gamma (1 - p_c)^gamma, high = OOD (Liu et al., 2023)."""

import torch
from torch import Tensor

from wildspec.checks import integer, open_fraction
from wildspec.detectors.base import Detector, register


def gen_score(logits: Tensor, gamma: float = 0.1, top: int = 100) -> Tensor:
    """(n, C) logits -> (n,) scores from the ``top`` largest probabilities, high = OOD.

    1 - p of the largest one is the sum of the others: the plain difference is 0 in single precision for confident samples,
    and a power of 0.1 makes much of what is lost (1e-8 ^ 0.1 = 0.16).
    """
    p = torch.softmax(logits, dim=1)
    largest, where = p.topk(min(top, p.shape[1]), dim=1)
    rest = 1 - largest
    rest[:, 0] = p.scatter(1, where[:, :1], 0.0).sum(dim=1)
    return (largest * rest).pow(gamma).sum(dim=1)


@register
class GEN(Detector):
    """``gamma``: exponent in (0, 1); ``top``: M, how many of the largest probabilities enter (all when C is smaller)."""

    name = "gen"
    summary = "generalized entropy of the largest softmax probabilities"
    paper = "Liu et al., GEN: Pushing the limits of softmax-based out-of-distribution detection, CVPR 2023"
    score_needs = ("logits",)

    def __init__(self, gamma: float = 0.1, top: int = 100) -> None:
        self.gamma = open_fraction("gamma", gamma)
        self.top = integer("top", top, minimum=1)

    def _score(self, *, logits: Tensor) -> Tensor:
        return gen_score(logits, self.gamma, self.top)
