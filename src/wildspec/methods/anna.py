"""ANNA: parts of labelled images that look like no class teach "unknown"; the two domains are aligned cell by cell.

The backbone's map has cells (7 x 7 of a ResNet at 224 px). C: two new layers of 1024 (h is what they give) and K + 1
outputs; it takes the averaged map, or each cell as if it were one, then with batch norm's running statistics.

    warmup     cross-entropy of labelled images
    adapt      steps take turns, as they are taken (a late run passes over places of its schedule, never over a turn):
      source   L_cls + L_mine + alignment with label 1
               mining: a cell is known where its image's class is the largest of the K, hidden unknown where that is not
               among the 3 largest; an image counts with both kinds and more known than unknown cells. With at least 2
               such images and n_k, n_u cells of theirs: L_mine = n_u / (n_u + n_k) x mean -log p_unknown over unknown
               cells (its gradient below h times 0.2), L_cls is multiplied by n_k / (n_u + n_k); else L_mine = 0, factor 1
      target   mean l_{1/2}(p_unknown) with reversal 1/2 between h and the last layer + alignment with label 0
    alignment  mean over cells of w_k BCE(D_k) + w_u BCE(D_u), w_u = p_unknown of the cell, w_k = 1 - w_u, without gradient;
               D_k, D_u: which domain, cells with reversal 0.1

The norm of each step's gradient is cut to 4.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wildspec.checks import choice, integer, non_negative, positive
from wildspec.data.augment import Augmentation
from wildspec.losses.open_set import reverse_gradient, unknown_log_odds, unknown_losses
from wildspec.losses.spectral import at_least_float32
from wildspec.methods.base import Batch, Context, Network, Stage
from wildspec.methods.environments import cross_entropies
from wildspec.methods.modules import module_of
from wildspec.methods.open_set import BATCH, OpenSetMethod, backbone_width, discriminator, open_logits, wild_images
from wildspec.models import Classifier
from wildspec.models.outputs import ExtraOutputs

DROPOUT, NEAREST, ENOUGH = 0.3, 3, 2  # of the new layers; classes a known cell may be; images that must count
CLIP = 4.0
TOTAL = {"paper": 75.0, "fast": 15.0}  # epochs, warm-up among them; after it two steps for each pair of batches


def mined_cells(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(n, cells, K) scores and (n,) labels -> masks (n, cells) of known and of hidden unknown cells of images that count."""
    own = labels[:, None]
    known = scores.argmax(2) == own
    nearest = scores.topk(min(NEAREST, scores.shape[2]), dim=2).indices
    hidden = (nearest != own[:, :, None]).all(2)
    counts = (known.any(1) & hidden.any(1) & (known.sum(1) > hidden.sum(1)))[:, None]
    enough = counts.sum() >= ENOUGH
    return known & counts & enough, hidden & counts & enough


def aligned(domain_known: Tensor, domain_unknown: Tensor, unknown: Tensor, label: float) -> Tensor:
    """Logits of "source" by D_k and D_u (c,), p_unknown (c,) -> mean w_k BCE(D_k) + mean w_u BCE(D_u)."""
    truth = torch.full_like(domain_known, label)
    losses = [F.binary_cross_entropy_with_logits(each, truth, reduction="none") for each in (domain_known, domain_unknown)]
    return ((1 - unknown) * losses[0]).mean() + (unknown * losses[1]).mean()


@contextmanager
def running_statistics(module: nn.Module) -> Iterator[None]:
    """Batch norm uses and keeps its running statistics; the rest stays in its mode."""
    norms = [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    modes = [norm.training for norm in norms]
    for norm in norms:
        norm.training = False
    try:
        yield
    finally:
        for norm, mode in zip(norms, modes, strict=True):
            norm.training = mode


class ANNA(OpenSetMethod):
    """``warmup``: epochs of the first stage, of 75 in all."""

    name = "anna"
    summary = "hidden unknown parts of labelled images, and alignment of known and unknown cells"
    paper = "Li et al., 2023 (CVPR)"
    capturable = False  # source and target steps are different ones
    taken: Tensor

    def __init__(
        self, num_classes: int, warmup: float = 10.0, units: int = 1024, alignment: float = 0.1, reversal: float = 0.5,
        below: float = 0.2,
    ) -> None:  # fmt: skip
        super().__init__(num_classes)
        self.warmup = positive("warmup", warmup)
        self.units = integer("units", units, 1)
        self.alignment = non_negative("alignment", alignment)
        self.reversal = non_negative("reversal", reversal)
        self.below = non_negative("below", below)
        self.register_buffer("taken", torch.tensor(0))  # steps of this stage; below 0: not known
        self._taken = 0  # the same on the host: a look at a GPU's would stall every step

    @property
    def outputs(self) -> ExtraOutputs:
        return ExtraOutputs((self.units, self.units), "relu", DROPOUT, unknown=True)

    def adapt(self, model: Classifier) -> None:
        super().adapt(model)
        if not hasattr(self, "domain_known"):
            width = backbone_width(model)
            self.domain_known, self.domain_unknown = discriminator(width), discriminator(width)

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        total = TOTAL[choice("preset", preset, TOTAL)]
        first = min(self.warmup * total / TOTAL["paper"], 0.9 * total)
        warmup = Stage(
            "warmup", epochs=first, lr=1e-3, batch_labelled=BATCH, schedule="constant", weight_decay=1e-4,
            augmentation=Augmentation.flip_and_shift(0),
        )  # fmt: skip
        return warmup, warmup.scaled(name="adapt", epochs=2 * (total - first), batch_wild=BATCH, wild_views=1)

    def start_stage(self, context: Context) -> None:
        self._count(0)

    def before_step(self, stage: Stage, step: int) -> bool:
        if self._taken < 0:  # resumed from a checkpoint that does not say: turns went by the place in the schedule
            self._count(step)
        return False

    def backward(self, model: Network, batch: Batch, stage: Stage) -> dict[str, Tensor]:
        logged = super().backward(model, batch, stage)
        nn.utils.clip_grad_norm_([*module_of(model).parameters(), *self.parameters()], CLIP)
        self._count(self._taken + 1)
        return logged

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        if stage.name == "warmup":
            logits = open_logits(model, model.features(batch.labelled_images))
            return cross_entropies(logits, batch.labels).mean(), {"turn": logits.new_zeros(())}
        turn = self._taken % 2
        if turn == 0:
            total = self.source_loss(model, batch.labelled_images, batch.labels)
        else:
            total = self.target_loss(model, wild_images(batch))
        return total, {"turn": total.new_tensor(float(turn))}

    def source_loss(self, model: Network, images: Tensor, labels: Tensor) -> Tensor:
        maps = model.maps(images)
        classified = cross_entropies(open_logits(model, model.neck(maps.mean(dim=(2, 3)))), labels).mean()
        cells = maps.flatten(2).transpose(1, 2)  # (n, cells, d)
        logits = self._cells(model, cells.flatten(0, 1))
        with torch.no_grad():
            known, hidden = mined_cells(logits[:, :-1].view(*cells.shape[:2], -1), labels)
            counts = known.sum(), hidden.sum()
            share = counts[1] / (counts[0] + counts[1]).clamp_min(1)  # 0 where no image counts
        unknown = F.softplus(-unknown_log_odds(logits)) * hidden.flatten()
        mine = share * unknown.sum() / counts[1].clamp_min(1)
        return (1 - share) * classified + mine + self._align(cells.flatten(0, 1), logits, 1.0)

    def target_loss(self, model: Network, images: Tensor) -> Tensor:
        maps = model.maps(images)
        hidden = reverse_gradient(model.neck(maps.mean(dim=(2, 3))), self.reversal)
        cells = maps.flatten(2).transpose(1, 2).flatten(0, 1)
        with torch.no_grad():
            logits = self._cells(model, cells)
        return unknown_losses(open_logits(model, hidden)).mean() + self._align(cells, logits, 0.0)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        state_dict.setdefault(f"{prefix}taken", torch.tensor(-1))  # checkpoints of earlier versions lack it
        super()._load_from_state_dict(state_dict, prefix, *rest)
        self._taken = int(self.taken)

    def _count(self, taken: int) -> None:
        self._taken = taken
        self.taken.fill_(taken)

    def _cells(self, model: Network, cells: Tensor) -> Tensor:
        """(c, d) -> (c, K+1); the gradient below h times ``below``."""
        with running_statistics(model.neck):
            hidden = model.neck(cells)
        return open_logits(model, reverse_gradient(hidden, -self.below))

    def _align(self, cells: Tensor, logits: Tensor, label: float) -> Tensor:
        away = reverse_gradient(cells, self.alignment)
        known, unknown = (at_least_float32(each(away)[:, 0]) for each in (self.domain_known, self.domain_unknown))
        return aligned(known, unknown, torch.sigmoid(unknown_log_odds(logits.detach())), label)
