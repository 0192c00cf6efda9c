"""Relative Mahalanobis: S(x) = min_c d_c(x)^2 - d_0(x)^2, high = OOD (Ren et al., 2021).

d_c as in Mahalanobis; d_0 is the distance under one Gaussian fitted to all training samples regardless of class. What makes
a sample unusual for every class alike cancels.
"""

import torch
from torch import Tensor

from wildspec.detectors.base import Detector, register
from wildspec.detectors.gaussian import AUTO, ClassSums, check_shrinkage, smallest_distance, whitening
from wildspec.detectors.inputs import same_width


def rmds_score(features: Tensor, center: Tensor, white: Tensor, white_means: Tensor, background: Tensor) -> Tensor:
    """(n, d) -> (n,); ``white`` (d, r) and ``background`` (d, r') whiten by the tied and the whole covariance, means (C, r)
    are whitened."""
    centered = features - center
    return smallest_distance(centered @ white, white_means) - ((centered @ background) ** 2).sum(dim=1)


@register
class RMDS(Detector):
    """``shrinkage``: of both covariances, see `gaussian.whitening`. Samples with label -1 are ignored in the fit."""

    name = "rmds"
    summary = "Mahalanobis distance minus that to one background Gaussian"
    paper = "Ren et al., A simple fix to Mahalanobis distance for improving near-OOD detection, 2021"
    fit_needs = ("features", "labels")
    score_needs = ("features",)
    streams = True
    state_names = ("center_", "whitening_", "white_means_", "background_")

    def __init__(self, shrinkage: float | str = AUTO) -> None:
        self.shrinkage = check_shrinkage(shrinkage)

    def _update(self, *, features: Tensor, labels: Tensor) -> None:
        if not hasattr(self, "_sums"):
            self._sums = ClassSums(features)
        same_width(self, "features", features, len(self._sums.origin))
        self._sums.add(features, labels)

    def _finish(self) -> None:
        found = self._sums.statistics()
        white = whitening(found.within, found.count, self.shrinkage, found.scale)
        background = whitening(found.whole, found.count, self.shrinkage, found.scale)
        self.center_ = found.overall.to(self._sums.dtype)
        self.whitening_ = white.to(self._sums.dtype)  # (d, r)
        self.white_means_ = ((found.means - found.overall) @ white).to(self._sums.dtype)  # (C, r)
        self.background_ = background.to(self._sums.dtype)  # (d, r')

    def _score(self, *, features: Tensor) -> Tensor:
        same_width(self, "features", features, len(self.center_))
        state = self.center_, self.whitening_, self.white_means_, self.background_
        scores = rmds_score(features, *state)
        far = ~torch.isfinite(scores)  # squares of features beyond 1e19: infinite less infinite would be no number
        if bool(far.any()):
            scores[far] = rmds_score(features[far].double(), *(value.double() for value in state)).to(scores.dtype)
        return scores
