"""Mahalanobis score: S(x) = min_c (f - mu_c)^T Sigma^-1 (f - mu_c), high = OOD (Lee et al., 2018).

One Gaussian per class with tied covariance, fitted on penultimate features. The form that needs no OOD sample: last layer
only, no input step. ``epsilon`` adds the paper's input step; several layers: `MahalanobisEnsemble`.
"""

import torch
from torch import Tensor, nn

from wildspec.checks import non_negative
from wildspec.detectors.base import Detector, register
from wildspec.detectors.gaussian import AUTO, ClassSums, GaussianFit, check_shrinkage, smallest_distance, whitening
from wildspec.detectors.gradients import check_std, evaluation_mode, network_features, step_downhill
from wildspec.detectors.inputs import same_width


def mahalanobis_score(features: Tensor, center: Tensor, white: Tensor, white_means: Tensor) -> Tensor:
    """(n, d) -> (n,) smallest squared distance; ``white`` (d, r) with white white^T = Sigma^-1, means (C, r) whitened."""
    return smallest_distance((features - center) @ white, white_means)


@register
class Mahalanobis(Detector):
    """``shrinkage``: of the covariance, see `gaussian.whitening`; ``epsilon``: input step (0 = none), in pixels of [0, 1]
    when ``std`` is given or filled in by ``score_all``, ``evaluate`` or ``decide``. Samples with label -1 are ignored in the
    fit."""

    name = "mahalanobis"
    summary = "smallest Mahalanobis distance to a class mean, tied covariance"
    paper = "Lee et al., A simple unified framework for detecting OOD samples and adversarial attacks, NeurIPS 2018"
    fit_needs = ("features", "labels")
    score_needs: tuple[str, ...] = ("features",)
    streams = True
    state_names: tuple[str, ...] = ("center_", "whitening_", "white_means_")

    def __init__(
        self, shrinkage: float | str = AUTO, epsilon: float = 0.0, std: tuple[float, ...] | None = None
    ) -> None:
        self.shrinkage = check_shrinkage(shrinkage)
        self.epsilon = non_negative("epsilon", epsilon)
        self.std = check_std(std)
        if self.epsilon:
            self.score_needs = ("inputs", "model")

    def _update(self, *, features: Tensor, labels: Tensor) -> None:
        if not hasattr(self, "_sums"):
            self._sums = ClassSums(features)
        same_width(self, "features", features, self._sums.width)
        self._sums.add(features, labels)

    def _finish(self) -> None:
        self._learn(self._sums.statistics())

    def _learn(self, found: GaussianFit) -> None:
        white = whitening(found.within, found.count, self.shrinkage, found.scale)
        self.center_ = found.overall.to(self._sums.dtype)
        self.whitening_ = white.to(self._sums.dtype)  # (d, r)
        self.white_means_ = ((found.means - found.overall) @ white).to(self._sums.dtype)  # (C, r)

    def _score(
        self, *, features: Tensor | None = None, inputs: Tensor | None = None, model: nn.Module | None = None
    ) -> Tensor:
        if features is not None:
            return self._distance(features)
        assert inputs is not None
        assert model is not None
        network = model
        with evaluation_mode(network):
            nudged = step_downhill(
                lambda x: self._distance(network_features(network, x)), inputs, self.epsilon, self.std
            )
            with torch.no_grad():
                return self._distance(network_features(network, nudged))

    def _distance(self, features: Tensor) -> Tensor:
        same_width(self, "features", features, len(self.center_))
        return mahalanobis_score(features.to(self.center_.dtype), self.center_, self.whitening_, self.white_means_)
