"""Maximum logit: S(x) = -max_c z_c, high = OOD (Hendrycks et al., 2022)."""

from torch import Tensor

from wildspec.detectors.base import Detector, register


def maxlogit_score(logits: Tensor) -> Tensor:
    """(n, C) logits -> (n,) scores, high = OOD."""
    return -logits.amax(dim=1)


@register
class MaxLogit(Detector):
    """No parameters, nothing to fit."""

    name = "maxlogit"
    summary = "negative largest logit"
    paper = "Hendrycks et al., Scaling out-of-distribution detection for real-world settings, ICML 2022"
    score_needs = ("logits",)

    def _score(self, *, logits: Tensor) -> Tensor:
        return maxlogit_score(logits)
