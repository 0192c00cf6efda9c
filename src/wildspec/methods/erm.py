"""Empirical risk minimization: mean cross-entropy on labelled samples. Every generalization method is a diff against it."""

from torch import Tensor

from wildspec.methods.base import Batch, Method, Network, Stage
from wildspec.methods.environments import cross_entropies
from wildspec.methods.recipes import supervised


class ERM(Method):
    """L = mean_i CE(W f(x_i) + b, y_i)."""

    name = "erm"
    summary = "cross-entropy on the labelled set"
    paper = "Vapnik, 1999; recipe of Hendrycks et al., 2019"
    default_detector = "energy"

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        return (supervised(preset),)

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        return cross_entropies(model(batch.labelled_images), batch.labels).mean(), {}
