"""STA: separate target samples that look known from those that do not, coarsely and then finely, and adapt to the first.

F: what the backbone gives; g: the first new layer (linear, 256); Y: what follows it, over K + 1 classes.

    separate   CE(Y) + sum_k BCE(B_k(F), [y = k]) of labelled samples; B_k: one-against-rest networks
    rank       the same + CE of D_t ("known or not") on the wild samples of the batch with the largest similarity s (known)
               and the smallest (not);  STA_sum: s = sum_k B_k(F),  STA_max: s = max_k B_k(F)
    adapt      Y starts afresh, D_t is no longer trained, w = p(known) by D_t:
               CE(Y) + 0.3 [mean -log D(g) of labelled + mean w (-log(1 - D(g))) of wild] + 0.1 mean w H(Y) of wild;
               D: which domain, by a gradient reversed with growing strength
    reject     the same + 0.3 CE of "unknown" on the wild samples of the batch that D_t finds least known

The backbone is not trained before ``adapt``, and its batch norm does not move: it starts as it was given. Means over wild
samples are over all of the batch, whatever their weights.
"""

import math
from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wildspec.checks import choice, fraction, non_negative
from wildspec.data.augment import Augmentation
from wildspec.losses.open_set import reverse_gradient
from wildspec.losses.spectral import at_least_float32
from wildspec.methods.base import Batch, Context, Network, Stage
from wildspec.methods.environments import cross_entropies
from wildspec.methods.modules import frozen_statistics, module_of
from wildspec.methods.open_set import (
    BATCH,
    Branches,
    OpenSetMethod,
    backbone_width,
    discriminator,
    entropies,
    wild_images,
)
from wildspec.methods.pooled import one_hot
from wildspec.methods.recipes import PRESETS
from wildspec.models import Classifier
from wildspec.models.outputs import SLOPE, ExtraOutputs, new_weights

WIDTH = 256
# stage -> passes over the labelled set and the part of the schedule of 10,000 steps: 500, 400, 1,500 and 400 steps on
# Office-Home's sources, of about 1,600 images
LENGTHS = {"separate": (10.0, (0.0, 0.05)), "rank": (8.0, (0.05, 0.09)), "adapt": (30.0, (0.0, 0.15)),
           "reject": (8.0, (0.15, 0.19))}  # fmt: skip
FAST = 0.5  # of those lengths


def reversal_strength(calls: float) -> float:
    """2 / (1 + exp(-10 c)) - 1 at the share c of 10,000 calls of the discriminator, two a step."""
    return 2 / (1 + math.exp(-10 * calls)) - 1


def similarity(heads: Tensor, how: str) -> Tensor:
    """(n, K) probabilities of the one-against-rest networks -> (n,)."""
    return heads.sum(1) if how == "sum" else heads.amax(1)


def adversarial_loss(source: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """Logits of "source" (n,), (m,), weights (m,): mean -log D(source) + mean w (-log(1 - D(target)))."""
    return F.softplus(-source).mean() + (weights * F.softplus(target)).mean()


class STASum(OpenSetMethod):
    """``strength`` (of the reversal) and ``total`` (steps of the stage) are buffers: a captured step sees them change."""

    name = "sta_sum"
    summary = "separate to adapt: wild images weighted by how known they look (sum of the classes' similarities)"
    paper = "Liu et al., 2019 (CVPR)"
    how: ClassVar[str] = "sum"
    strength: Tensor
    total: Tensor

    def __init__(
        self, num_classes: int, extreme: float = 1 / 16, adversarial: float = 0.3, entropy: float = 0.1, unknown: float = 0.3
    ) -> None:
        super().__init__(num_classes)
        self.extreme = fraction("extreme", extreme)
        self.adversarial = non_negative("adversarial", adversarial)
        self.entropy = non_negative("entropy", entropy)
        self.unknown = non_negative("unknown", unknown)
        self.register_buffer("strength", torch.tensor(0.0))
        self.register_buffer("total", torch.tensor(1))

    @property
    def outputs(self) -> ExtraOutputs:
        return ExtraOutputs((WIDTH,), "leaky", unknown=True)

    def adapt(self, model: Classifier) -> None:
        super().adapt(model)
        width = backbone_width(model)
        if not hasattr(self, "rest"):
            self.rest = Branches(self.num_classes, width, WIDTH, 1)
            self.known = nn.Sequential(nn.Linear(width, WIDTH), nn.LeakyReLU(SLOPE), nn.Linear(WIDTH, 2))
            self.domain = discriminator(WIDTH)

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        choice("preset", preset, PRESETS)
        made = []
        for name, (epochs, decay) in LENGTHS.items():
            early = name in ("separate", "rank")
            made.append(Stage(
                name, epochs=epochs * (FAST if preset == "fast" else 1), lr=1e-3 if early else 5e-4, batch_labelled=BATCH,
                batch_wild=0 if name == "separate" else BATCH, wild_views=0 if name == "separate" else 1,
                schedule="inverse", decay=decay, backbone_lr=0.0 if early else 0.1,
                augmentation=replace(Augmentation.flip_and_shift(4), flip=0.0),
            ))  # fmt: skip
        return tuple(made)

    def start_stage(self, context: Context) -> None:
        self.total.fill_(context.total_steps)
        if context.stage.name == "adapt":
            network = module_of(context.model)
            for name in ("neck", "head", "unknown"):
                new_weights(network.get_submodule(name))

    def before_step(self, stage: Stage, step: int) -> bool:
        first, last = stage.decay
        self.strength.fill_(reversal_strength(2 * (first + (last - first) * step / max(1, int(self.total)))))
        return False

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        if stage.name in ("separate", "rank"):
            return self._separate(model, batch, stage.name == "rank")
        return self._adapt(model, batch, stage.name == "reject")

    def _separate(self, model: Network, batch: Batch, rank: bool) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.no_grad(), frozen_statistics(module_of(model).get_submodule("backbone")):
            source = model.backbone(batch.labelled_images)
            target = model.backbone(wild_images(batch)) if rank else None
        ce = cross_entropies(_classes(model, model.neck[0](source)), batch.labels).mean()  # type: ignore[index]
        truth = one_hot(batch.labels, self.num_classes, torch.float32)
        heads = at_least_float32(self.rest(source)[:, :, 0])
        rest = F.binary_cross_entropy_with_logits(heads, truth.to(heads.dtype), reduction="none").sum(1).mean()
        terms = {"ce": ce.detach(), "rest": rest.detach()}
        if target is None:
            return ce + rest, terms
        with torch.no_grad():
            order = similarity(torch.sigmoid(self.rest(target)[:, :, 0]), self.how).argsort(descending=True)
        count = self._count(len(order))
        answers = at_least_float32(self.known(target)).log_softmax(1)
        apart = -answers[order[:count], 0].mean() - answers[order[-count:], 1].mean()
        return ce + rest + apart, {**terms, "apart": apart.detach()}

    def _adapt(self, model: Network, batch: Batch, reject: bool) -> tuple[Tensor, dict[str, Tensor]]:
        source, target = model.backbone(batch.labelled_images), model.backbone(wild_images(batch))
        with torch.no_grad():
            unlike = at_least_float32(self.known(target)).softmax(1)[:, 1]
        weights = 1 - unlike
        first, second = model.neck[0](source), model.neck[0](target)  # type: ignore[index]
        ce = cross_entropies(_classes(model, first), batch.labels).mean()
        domains = [at_least_float32(self.domain(reverse_gradient(g, self.strength))[:, 0]) for g in (first, second)]
        aligned = adversarial_loss(domains[0], domains[1], weights)
        logits = _classes(model, second)
        entropy = (weights * entropies(logits)).mean()
        total = ce + self.adversarial * aligned + self.entropy * entropy
        terms = {"ce": ce.detach(), "domains": aligned.detach(), "entropy": entropy.detach()}
        if reject:
            least = unlike.topk(self._count(len(unlike))).indices
            unknown = -logits[least].log_softmax(1)[:, -1].mean()
            total = total + self.unknown * unknown
            terms["unknown"] = unknown.detach()
        return total, terms

    def _count(self, size: int) -> int:
        """How many of a batch count as extreme: 2 of 32."""
        return max(1, round(self.extreme * size))


class STAMax(STASum):
    """The similarity as the paper defines it; the published program takes the sum."""

    name = "sta_max"
    summary = "separate to adapt: wild images weighted by how known they look (largest of the classes' similarities)"
    how: ClassVar[str] = "max"


def _classes(model: Network, bottleneck: Tensor) -> Tensor:
    """g (n, 256) -> (n, K+1) logits."""
    features = bottleneck
    for layer in list(model.neck.children())[1:]:
        features = layer(features)
    assert model.unknown is not None
    return at_least_float32(torch.cat([model.head(features), model.unknown(features)], 1))
