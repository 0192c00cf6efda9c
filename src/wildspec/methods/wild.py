"""Methods that pull labelled and wild samples apart: pre-training on the labelled set, then a stage on both.

One forward pass serves the labelled and the wild images of a step.
"""

from typing import ClassVar

from torch import Tensor

from wildspec.losses.spectral import at_least_float32
from wildspec.methods.base import Batch, Method, Network, Stage
from wildspec.methods.environments import cross_entropies
from wildspec.methods.recipes import wild


class WildMethod(Method):
    """Stage ``pretrain``: cross-entropy. Stage ``wild``: `wild_loss`."""

    needs_wild = True
    default_detector = "energy"
    begins_as = "erm"
    wild_lr: ClassVar[dict[str, float]] = {"paper": 1e-4, "fast": 1e-3}  # docs/deviations.md says why

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        return wild(preset, self.wild_lr)

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        if stage.name == "pretrain":
            return cross_entropies(model(batch.labelled_images), batch.labels).mean(), {}
        (known,), (mixed,) = batch.split(at_least_float32(model(batch.images)))
        return self.wild_loss(known, batch.labels, mixed)

    def wild_loss(self, known: Tensor, labels: Tensor, mixed: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits (n, C) and labels (n,) of labelled samples, logits (m, C) of wild ones -> loss and values to log."""
        raise NotImplementedError
