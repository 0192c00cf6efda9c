"""Maximum softmax probability: S(x) = 1 - max_c softmax(z / T)_c, high = OOD (Hendrycks and Gimpel, 2017)."""

import torch
from torch import Tensor

from wildspec.checks import positive
from wildspec.detectors.base import Detector, register


def msp_score(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """(n, C) logits -> (n,) scores in [0, 1), high = OOD.

    The paper's -max softmax plus one: the sum of the *other* probabilities. In single precision -max softmax is exactly -1
    for every sample with a margin above 17, a wall of ties; the sum keeps their order.
    """
    probabilities = torch.softmax(logits / temperature, dim=1)
    return probabilities.scatter(1, logits.argmax(dim=1, keepdim=True), 0.0).sum(dim=1)


@register
class MSP(Detector):
    """``temperature``: T, 1 in the paper."""

    name = "msp"
    summary = "one minus the largest softmax probability"
    paper = "Hendrycks and Gimpel, A baseline for detecting misclassified and OOD examples, ICLR 2017"
    score_needs = ("logits",)

    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = positive("temperature", temperature)

    def _score(self, *, logits: Tensor) -> Tensor:
        return msp_score(logits, self.temperature)
