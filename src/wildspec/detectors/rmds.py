"""Relative Mahalanobis: S(x) = min_c d_c(x)^2 - d_0(x)^2, high = OOD (Ren et al., 2021).

d_c as in Mahalanobis; d_0 is the distance under one Gaussian fitted to all training samples regardless of class. What makes
a sample unusual for every class alike cancels.
"""

import torch
from torch import Tensor

from wildspec.detectors.base import register
from wildspec.detectors.gaussian import AUTO, GaussianFit, smallest_distance, whitening
from wildspec.detectors.inputs import same_width
from wildspec.detectors.mahalanobis import Mahalanobis
from wildspec.errors import InputError


def rmds_score(features: Tensor, center: Tensor, white: Tensor, white_means: Tensor, background: Tensor) -> Tensor:
    """(n, d) -> (n,); ``white`` (d, r) and ``background`` (d, r') whiten by the tied and the whole covariance, means (C, r)
    are whitened."""
    centered = features - center
    return smallest_distance(centered @ white, white_means) - ((centered @ background) ** 2).sum(dim=1)


@register
class RMDS(Mahalanobis):
    """``shrinkage``: of both covariances, see `gaussian.whitening`. Samples with label -1 are ignored in the fit."""

    name = "rmds"
    summary = "Mahalanobis distance minus that to one background Gaussian"
    paper = "Ren et al., A simple fix to Mahalanobis distance for improving near-OOD detection, 2021"
    state_names = (*Mahalanobis.state_names, "background_")

    def __init__(self, shrinkage: float | str = AUTO) -> None:
        super().__init__(shrinkage)

    def _learn(self, found: GaussianFit) -> None:
        if len(found.means) < 2:  # the class is the background: every score would be 0
            raise InputError(
                f"rmds compares classes with all samples together and needs at least 2 of them, got {len(found.means)}; "
                "use mahalanobis"
            )
        super()._learn(found)
        self.background_ = whitening(found.whole, found.count, self.shrinkage, found.scale).to(self._sums.dtype)  # (d, r')

    def _distance(self, features: Tensor) -> Tensor:
        same_width(self, "features", features, len(self.center_))
        state = self.center_, self.whitening_, self.white_means_, self.background_
        scores = rmds_score(features, *state)
        far = ~torch.isfinite(scores)  # squares of features beyond 1e19: infinite less infinite would be no number
        if bool(far.any()):
            scores[far] = rmds_score(features[far].double(), *(value.double() for value in state)).to(scores.dtype)
        return scores
