"""OSBP: the classifier puts target samples on the fence between known and unknown, the features push them off it.

    C minimizes L_s + L_t,   G minimizes L_s - L_t
    L_s = mean cross-entropy of labelled samples over K + 1,   L_t = mean l_t(p_unknown) of wild ones, t = 1/2

by one reversal of the gradient between G (backbone and two new layers) and C (one linear layer to K + 1): G may make
p_unknown larger or smaller than t, and target samples separate by themselves (`wildspec.losses.open_set`).
"""

from torch import Tensor

from wildspec.checks import integer, open_fraction
from wildspec.losses.open_set import reverse_gradient, unknown_losses
from wildspec.methods.base import Batch, Network, Stage
from wildspec.methods.environments import cross_entropies
from wildspec.methods.open_set import BATCH, OpenSetMethod, open_logits, wild_images
from wildspec.methods.recipes import supervised
from wildspec.models.outputs import ExtraOutputs

DROPOUT = 0.5


class OSBP(OpenSetMethod):
    """One stage, ``adapt``. The authors' default trains the new layers alone."""

    name = "osbp"
    summary = "open-set domain adaptation by backpropagation: one more output, trained against the features"
    paper = "Saito et al., 2018 (ECCV)"

    def __init__(self, num_classes: int, target: float = 0.5, units: int = 1000, whole: bool = False) -> None:
        super().__init__(num_classes)
        self.target = open_fraction("target", target)
        self.units = integer("units", units, 1)
        self.whole = bool(whole)

    @property
    def outputs(self) -> ExtraOutputs:
        return ExtraOutputs((self.units, self.units), "relu", DROPOUT, unknown=True)

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        return (
            supervised(preset, "adapt").scaled(
                lr=1e-3, schedule="constant", batch_labelled=BATCH, batch_wild=BATCH, wild_views=1,
                backbone_lr=1.0 if self.whole else 0.0,
            ),
        )  # fmt: skip

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        ce = cross_entropies(open_logits(model, model.features(batch.labelled_images)), batch.labels).mean()
        away = reverse_gradient(model.features(wild_images(batch)))
        fence = unknown_losses(open_logits(model, away), self.target).mean()
        return ce + fence, {"ce": ce.detach(), "fence": fence.detach()}
