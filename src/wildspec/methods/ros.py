"""ROS: how well a turned image's rotation is told, class by class, says how known it looks; then unknown ones are a class.

E: the backbone; Y: a new layer of 256 and K + 1 classes; rot_r: r quarter turns counter-clockwise.

    separate   CE(Y) + 3 CE(R_1([E(x), E(rot_r x)]), 4 y + r) + ``centre`` x mean |h - c_{4y+r}|^2
               R_1: K branches of 4 outputs, one softmax over 4 K;  h: K further branches, c: 4 K centres, whose gradient is
               divided by ``centre``
    between    pi_r = softmax of R_1 for each wild image and each turn;  N = max_k 1/4 sum_r pi_r[4k + r];
               H = mean_r entropy(pi_r), scaled to [0, 1] over the pool;  normality = max(N, 1 - H);
               tau = (floor(10 mean normality) + 1) / 10, at most 1;  a = how many lie above it, at least 1;
               known set = the a highest, unknown set = the a lowest
    adapt      CE(Y) of labelled images, and of the unknown set as class K + 1 with weight v, over both together
               + 3 CE(R_2([E(x), E(rot_r x)]), r) and 0.1 x mean entropy of Y on the known set

The i-th image of a batch is turned i mod 4 times: batches are shuffled, so that is a random turn, and each comes as often.
"""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wildspec.checks import choice, non_negative, positive
from wildspec.data.augment import Augmentation
from wildspec.losses.open_set import reverse_gradient
from wildspec.losses.spectral import at_least_float32
from wildspec.methods.base import Batch, Context, Network, Stage
from wildspec.methods.environments import cross_entropies
from wildspec.methods.modules import evaluating
from wildspec.methods.open_set import (
    BATCH,
    Branches,
    OpenSetMethod,
    backbone_width,
    entropies,
    open_logits,
    wild_images,
)
from wildspec.methods.pooled import masked_mean
from wildspec.models import Classifier
from wildspec.models.outputs import ExtraOutputs

WIDTH, TURNS = 256, 4
EPOCHS = {"paper": (150.0, 45.0), "fast": (30.0, 9.0)}  # of the two stages, as on Office-Home


def turned(images: Tensor) -> tuple[Tensor, Tensor]:
    """(n, 3, S, S) -> the i-th turned i mod 4 quarters counter-clockwise, and (n,) how often."""
    times = torch.arange(len(images), device=images.device) % TURNS
    out = images.clone()
    for r in range(1, TURNS):
        out[r::TURNS] = torch.rot90(images[r::TURNS], r, (2, 3))
    return out, times


def rotation_normality(probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """(n, 4, 4K) softmax outputs of the four turns -> N (n,) and mean entropy (n,)."""
    n, turns, wide = probabilities.shape
    at = torch.arange(turns, device=probabilities.device)
    right = probabilities.view(n, turns, wide // TURNS, TURNS)[:, at, :, at]  # (turns, n, K): turn r's own output r
    entropy = -torch.xlogy(probabilities, probabilities).sum(2).mean(1)
    return right.mean(0).amax(1), entropy


def normality(probabilities: Tensor) -> Tensor:
    """(n, 4, 4K) -> (n,) max(N, 1 - H), H scaled to [0, 1] over the n images."""
    right, entropy = rotation_normality(probabilities)
    span = entropy.max() - entropy.min()
    return torch.maximum(right, 1 - (entropy - entropy.min()) / span.clamp_min(1e-12))


def threshold(mean: float) -> float:
    """The first decimal above the mean normality; at most 1."""
    return min(1.0, (math.floor(10 * mean) + 1) / 10)


def unknown_weight(labelled: float, n_classes: int, chosen: int) -> float:
    """v = 2 N / (K a): the unknown class together weighs as much as two known ones."""
    return 2 * labelled / (n_classes * chosen)


class ROS(OpenSetMethod):
    """``known_set``, ``unknown_set``: (m,) which wild images are in them; ``weight``: v."""

    name = "ros"
    summary = "rotation recognition tells known from unknown wild images, which then are a class"
    paper = "Bucci et al., 2020 (ECCV)"
    pool_buffers = ("known_set", "unknown_set")
    known_set: Tensor
    unknown_set: Tensor
    weight: Tensor

    def __init__(
        self, num_classes: int, rotation: float = 3.0, centre: float = 0.001, entropy: float = 0.1,
        rotation_known: float = 3.0,
    ) -> None:  # fmt: skip
        super().__init__(num_classes)
        self.rotation = non_negative("rotation", rotation)
        self.centre = positive("centre", centre)
        self.entropy = non_negative("entropy", entropy)
        self.rotation_known = non_negative("rotation_known", rotation_known)
        self.register_buffer("known_set", torch.zeros(0, dtype=torch.bool))
        self.register_buffer("unknown_set", torch.zeros(0, dtype=torch.bool))
        self.register_buffer("weight", torch.tensor(1.0))

    @property
    def outputs(self) -> ExtraOutputs:
        return ExtraOutputs((WIDTH,), "leaky", unknown=True)

    def adapt(self, model: Classifier) -> None:
        super().adapt(model)
        if not hasattr(self, "turns"):
            width = 2 * backbone_width(model)
            self.turns = Branches(self.num_classes, width, WIDTH, TURNS)
            self.branches = Branches(self.num_classes, width, WIDTH, 0)
            self.centres = nn.Parameter(torch.randn(TURNS * self.num_classes, WIDTH * self.num_classes))
            self.turns_known = Branches(1, width, WIDTH, TURNS)

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        first, second = EPOCHS[choice("preset", preset, EPOCHS)]
        separate = Stage(
            "separate", epochs=first, lr=0.003, batch_labelled=BATCH, labelled_views=2, schedule="inverse", backbone_lr=0.1,
            backbone_part="last", augmentation=replace(Augmentation.flip_and_shift(4), flip=0.0),
        )  # fmt: skip
        return separate, separate.scaled(name="adapt", epochs=second, labelled_views=1, batch_wild=BATCH, wild_views=2)

    def start_stage(self, context: Context) -> None:
        if context.stage.name != "adapt":
            return
        values = normality(self._answers(context))
        chosen = max(1, int((values > threshold(float(values.mean()))).sum()))
        order = values.argsort(descending=True)
        for name, rows in (("known_set", order[:chosen]), ("unknown_set", order[-chosen:])):
            mask = torch.zeros(len(values), dtype=torch.bool, device=values.device)
            mask[rows] = True
            setattr(self, name, mask)
        # they come at the pool's rate, not at the labelled set's: m images of the pool for each of the labelled
        stage = context.stage
        self.weight.fill_(unknown_weight(len(values) * stage.batch_labelled / stage.batch_wild, self.num_classes, chosen))

    @torch.no_grad()
    def _answers(self, context: Context) -> Tensor:
        """(m, 4, 4K) softmax outputs of R_1 for the four turns of every wild image, un-augmented."""
        assert context.views is not None
        mode = self.turns.training
        self.turns.eval()
        parts = []
        with evaluating(context.model) as network:
            kind = next(network.parameters()).dtype
            backbone = network.get_submodule("backbone")
            for views in context.views("wild", 0):
                images = views[0].to(kind)
                straight = backbone(images)
                answers = [
                    self.turns(torch.cat([straight, backbone(torch.rot90(images, r, (2, 3)))], 1)).flatten(1).softmax(1)
                    for r in range(TURNS)
                ]
                parts.append(torch.stack(answers, 1).float())
        self.turns.train(mode)
        return torch.cat(parts)

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        return self._separate(model, batch) if stage.name == "separate" else self._adapt(model, batch)

    def _separate(self, model: Network, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        straight, again = batch.images.chunk(2)
        other, times = turned(again)
        seen = model.backbone(straight)
        pair = torch.cat([seen, model.backbone(other)], 1)
        ce = cross_entropies(open_logits(model, model.neck(seen)), batch.labels).mean()
        label = TURNS * batch.labels + times
        turn = cross_entropies(self.turns(pair).flatten(1), label).mean()
        centres = F.embedding(label, reverse_gradient(self.centres, -1 / self.centre))  # an index would add up in any order
        apart = (at_least_float32(self.branches(pair)) - centres).square().sum(1).mean()
        terms = {"ce": ce.detach(), "turn": turn.detach(), "centre": apart.detach()}
        return ce + self.rotation * turn + self.centre * apart, terms

    def _adapt(self, model: Network, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        assert batch.wild_rows is not None
        straight, again = wild_images(batch).chunk(2)
        other, times = turned(again)
        seen = model.backbone(straight)
        known, unknown = self.known_set[batch.wild_rows], self.unknown_set[batch.wild_rows]
        labelled = cross_entropies(open_logits(model, model.features(batch.labelled_images)), batch.labels)
        logits = open_logits(model, model.neck(seen))
        strange = -logits.log_softmax(1)[:, -1]
        counted = torch.cat([torch.ones_like(labelled, dtype=torch.bool), unknown])
        ce = masked_mean(torch.cat([labelled, self.weight * strange]), counted, self.reduce)
        answers = self.turns_known(torch.cat([seen, model.backbone(other)], 1))[:, 0]
        turn = masked_mean(F.cross_entropy(at_least_float32(answers), times, reduction="none"), known, self.reduce)
        entropy = masked_mean(entropies(logits), known, self.reduce)
        terms = {"ce": ce.detach(), "turn": turn.detach(), "entropy": entropy.detach()}
        return ce + self.rotation_known * turn + self.entropy * entropy, terms
