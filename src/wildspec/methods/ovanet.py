"""OVANet: for each class a head that says yes or no, trained against the hardest other class; wild samples must decide.

    L = mean CE + 1/2 mean [ -log p_y(yes) + max_{k != y} -log p_k(no) ] + weight x mean entropy of the pairs of wild samples

(`wildspec.losses.one_against_rest`). Weights of the open heads have length 1, set so before every step.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from wildspec.checks import non_negative
from wildspec.losses.one_against_rest import one_against_rest_loss, pair_entropy
from wildspec.losses.spectral import at_least_float32
from wildspec.methods.base import Batch, Network, Stage
from wildspec.methods.environments import cross_entropies
from wildspec.methods.modules import module_of
from wildspec.methods.open_set import OpenSetMethod, wild_images
from wildspec.methods.recipes import supervised
from wildspec.models.outputs import ExtraOutputs

OWN_BATCH = 36
EPOCHS = {"paper": 200.0, "fast": 30.0}  # 10,000 steps on Office-Home's sources, of about 1,600 images


class OVANetMethod(OpenSetMethod):
    """One stage, ``adapt``; the backbone at a tenth of the heads' rate."""

    name = "ovanet"
    summary = "one-against-rest heads for every class, and the entropy of wild images"
    paper = "Saito and Saenko, 2021 (ICCV)"
    default_detector = "one_against_rest"

    def __init__(self, num_classes: int, entropy_weight: float = 0.1) -> None:
        super().__init__(num_classes)
        self.entropy_weight = non_negative("entropy_weight", entropy_weight)

    @property
    def outputs(self) -> ExtraOutputs:
        return ExtraOutputs(open_heads=True)

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        return (
            supervised(preset, "adapt").scaled(
                epochs=EPOCHS[preset], lr=0.01, schedule="inverse", batch_labelled=OWN_BATCH, batch_wild=OWN_BATCH,
                wild_views=1, backbone_lr=0.1,
            ),
        )  # fmt: skip

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        heads = module_of(model).open_heads
        assert isinstance(heads, torch.nn.Linear)
        with torch.no_grad():
            heads.weight.copy_(F.normalize(heads.weight, dim=1))
        known, mixed = model.features(batch.labelled_images), model.features(wild_images(batch))
        ce = cross_entropies(model.head(known), batch.labels).mean()
        hard = one_against_rest_loss(_odds(heads, known), batch.labels)
        entropy = pair_entropy(_odds(heads, mixed))
        terms = {"ce": ce.detach(), "open": hard.detach(), "entropy": entropy.detach()}
        return ce + hard + self.entropy_weight * entropy, terms


def _odds(heads: torch.nn.Linear, features: Tensor) -> Tensor:
    """(n, d) -> (n, K) log-odds of yes."""
    yes, no = at_least_float32(heads(features)).chunk(2, dim=1)
    return yes - no
