"""What methods of open-set domain adaptation share: source = labelled images, target = wild pool, one more output.

The network gets layers below its head where the published system has them, and an output for "none of the classes"
(`wildspec.models.outputs`). Labelled and wild images go through it as two batches: batch norm sees one domain at a time.
Images chosen from the pool between two stages are kept in buffers as long as the pool (`pool_buffers`), which a step looks
up by `Batch.wild_rows`.
"""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from wildspec.losses.spectral import at_least_float32
from wildspec.methods.base import Batch, Method, Network
from wildspec.models import Classifier
from wildspec.models.outputs import SLOPE

BATCH = 32  # labelled, and wild, images of a step in all the published programs but OVANet's


class OpenSetMethod(Method):
    """Base of methods with an output for unknown images."""

    needs_wild = True
    default_detector = "unknown_logit"
    pool_buffers: ClassVar[tuple[str, ...]] = ()  # buffers with one entry an image of the wild pool

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *more: Any) -> None:
        for name in self.pool_buffers:  # a new method does not know how large the pool is
            saved = state_dict.get(f"{prefix}{name}")
            if saved is not None:
                setattr(self, name, torch.empty_like(saved, device=getattr(self, name).device))
        super()._load_from_state_dict(state_dict, prefix, *more)


def backbone_width(model: Classifier) -> int:
    """d of what the backbone gives, below a neck."""
    first = next((layer for layer in model.neck.modules() if isinstance(layer, nn.Linear)), model.head)
    return first.in_features


def wild_images(batch: Batch) -> Tensor:
    """(W m, 3, H, W): all wild views, below the labelled ones."""
    return batch.images[batch.labels.shape[0] * batch.labelled_views :]


def open_logits(model: Network, features: Tensor) -> Tensor:
    """(n, d) -> (n, K+1), the unknown one last; float32 at least."""
    assert model.unknown is not None
    return at_least_float32(torch.cat([model.head(features), model.unknown(features)], 1))


class Branches(nn.Module):
    """``count`` small networks side by side: linear d -> ``width``, batch norm, leaky ReLU, linear -> ``outputs``.

    (n, d) -> (n, count, outputs). ``outputs`` = 0: the hidden layers themselves, (n, count * width).
    """

    def __init__(self, count: int, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        wide = count * width
        self.hidden = nn.Sequential(nn.Linear(inputs, wide), nn.BatchNorm1d(wide), nn.LeakyReLU(SLOPE))
        self.count, self.outputs = count, outputs
        if outputs:
            bound = 1 / math.sqrt(width)  # the usual start of a linear layer
            self.weight = nn.Parameter(torch.empty(count, outputs, width).uniform_(-bound, bound))
            self.bias = nn.Parameter(torch.empty(count, outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden(x)
        if not self.outputs:
            return hidden  # type: ignore[no-any-return]
        return torch.einsum("nkw,kow->nko", hidden.view(len(x), self.count, -1), self.weight) + self.bias


def discriminator(inputs: int, width: int = 1024) -> nn.Sequential:
    """(n, inputs) -> (n, 1), the logit of "source"; two hidden layers with batch norm."""
    layers: list[nn.Module] = []
    for wide in (inputs, width):
        layers += [nn.Linear(wide, width), nn.BatchNorm1d(width), nn.LeakyReLU(SLOPE)]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def entropies(logits: Tensor) -> Tensor:
    """(n, C) logits -> (n,) entropy of softmax."""
    logs = logits.log_softmax(1)
    return -(logs.exp() * logs).sum(1)
