"""An image and its mirror image count as one: features are the mean over both.

    f'(x) = (f(x) + f(x mirrored left to right)) / 2

A linear head on f' gives the mean of both logits. Right where training views were mirrored at random (photographs), wrong
where left and right differ (text, digits). Scoring takes twice the time, training is not touched.
"""

import torch
from torch import Tensor, nn

from wildspec.models.classifier import Classifier


class MirrorMean(nn.Module):
    """The backbone of `mirrored`; both images go through the network in one pass."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) -> (n, d)."""
        both = self.backbone(torch.cat([x, x.flip(-1)]))
        return both.view(2, len(x), -1).mean(dim=0)


def mirrored(model: Classifier) -> Classifier:
    """A classifier with the same weights (shared, not copied) and mirrored features."""
    below = model.backbone if isinstance(model.neck, nn.Identity) else nn.Sequential(model.backbone, model.neck)
    made = Classifier(MirrorMean(below), model.feature_dim, model.num_classes)
    made.head, made.unknown, made.open_heads = model.head, model.unknown, model.open_heads
    return made.to(next(model.parameters()).device).train(model.training)
