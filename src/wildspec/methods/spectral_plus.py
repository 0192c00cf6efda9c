"""The spectral learner that goes on learning from the wild samples it can name.

    pretrain        the paper's spectral loss on labelled + wild views
    warmup_head     (``warmup_head=True``) cross-entropy on labelled samples. Where the shift is strong and the views do not
                    hide it, pre-training separates the shifted domain from all classes; fine-tuning brings its samples back,
                    and attribution then sees classes instead of domains
    pseudo_label    every wild sample is attributed to a known class or to none, once, by distances in the spectral space
                    (`wildspec.decision.attribution`, one round); attributed samples then count as labelled ones in the
                    spectral loss: eq. 6 with the class means over both. This ties the shifted samples of a class to the
                    labelled ones and leaves unknown classes where they are
    finetune        cross-entropy on labelled samples, plus ``pseudo`` times the one on attributed wild samples

``rounds`` > 1 repeats pseudo_label (and warmup_head before it), attributing anew. One round is the default: what more rounds
do is in docs/results.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from wildspec.checks import fraction, integer, non_negative
from wildspec.decision.attribution import NO_CLASS, attribute
from wildspec.losses.spectral import clip_norm, spectral_loss
from wildspec.methods.base import Batch, Context, Network, Stage
from wildspec.methods.spectral import Spectral

# For photographs and a full-length run: fine-tune before attributing, attribute by the images themselves and by neighbours
# that agree, twice, and fine-tune on labelled images alone at the end (docs/dev/log.md)
PHOTOGRAPHS: dict[str, Any] = {"warmup_head": True, "agreement": 0.9, "views": 0, "pseudo": 0.0, "rounds": 2}
WARMUP_PRETRAIN_EPOCHS = 100.0  # of pre-training in preset ``fast`` with ``warmup_head``: enough for the rounds after it


class SpectralPlus(Spectral):
    """``wild_label``: (n,) class of each wild sample, or -1, as last attributed; saved with checkpoints."""

    name = "spectral+"
    default_detector = "wild_linear"
    summary = "spectral learner that attributes wild samples to known classes and learns from them"
    paper = "this library; loss and space of Wang and Li, 2024"
    wild_label: Tensor

    def __init__(
        self, num_classes: int, eta_l: float = 0.5, eta_u: float = 2.0, mu: float = 1.0, pseudo: float = 1.0,
        views: int = 8, rounds: int = 1, warmup_head: bool = False, agreement: float = 0.0,
    ) -> None:
        super().__init__(num_classes, eta_l, eta_u, mu)
        self.pseudo = non_negative("pseudo", pseudo)
        self.views = integer("views", views, 0)
        self.rounds = integer("rounds", rounds, 1)
        self.warmup_head = bool(warmup_head)
        self.agreement = fraction("agreement", agreement)
        self.register_buffer("wild_label", torch.empty(0, dtype=torch.int64))

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        """The learner's own two stages; between them one ``pseudo_label`` (``pseudo_label2``, ...) per round, a third as
        long as pre-training (a fifth after ``warmup_head``, which is a better start), each after its ``warmup_head``
        where asked for: pseudo-labelling, like pre-training, leaves a space in which attribution takes in more unknown
        samples. ``fast`` with ``warmup_head``: pre-training is cut to 100 epochs, each ``pseudo_label`` keeps its 50."""
        pretrain, finetune = super().stages(preset)
        length = pretrain.epochs / (5 if self.warmup_head else 3)
        if preset == "fast" and self.warmup_head:
            pretrain = pretrain.scaled(epochs=WARMUP_PRETRAIN_EPOCHS)
        pseudo_label = pretrain.scaled(name="pseudo_label", epochs=length, lr=pretrain.lr / 2, warmup=0.0)
        between = [finetune.scaled(name="warmup_head"), pseudo_label] if self.warmup_head else [pseudo_label]
        numbers = ["", *range(2, self.rounds + 1)]  # pseudo_label, pseudo_label2, pseudo_label3
        rounds = [stage.scaled(name=f"{stage.name}{number}") for number in numbers for stage in between]
        if self.pseudo:
            finetune = finetune.scaled(batch_wild=finetune.batch_labelled, wild_views=1)
        return (pretrain, *rounds, finetune)

    def start_stage(self, context: Context) -> None:
        if context.stage.name.startswith("pseudo_label"):
            self.wild_label = self.attribute(context)

    @torch.no_grad()
    def attribute(self, context: Context) -> Tensor:
        """(n,) class of each wild sample, or -1."""
        labels = torch.cat([labels for _, labels in context.labelled()])
        labelled, wild = (self._embed(context, part) for part in ("labelled", "wild"))
        found = attribute(labelled, labels, wild, weights=context.wild_weights, agreement=self.agreement, rounds=1)
        return found.label.to(labels.device)

    def _embed(self, context: Context, part: str) -> Tensor:
        """(n, d): the mean over views (0: the image itself) of normalized features, of the network as it is now, in
        evaluation mode."""
        assert context.views is not None
        network: Any = getattr(context.model, "model", context.model)  # not compiled: other shapes than in training
        mode = network.training
        network.eval()
        kind = next(network.parameters()).dtype
        means = []
        for views in context.views(part, self.views):  # (views, b, 3, H, W)
            flat = views.flatten(0, 1).to(kind).contiguous(memory_format=torch.channels_last)
            with torch.autocast(flat.device.type, dtype=torch.bfloat16, enabled=flat.is_cuda):
                features = network.features(flat)
            means.append(F.normalize(features.float(), dim=1).view(len(views), views.shape[1], -1).mean(dim=0))
        network.train(mode)
        return torch.cat(means)

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        if stage.name.startswith("pseudo_label"):
            return self._pseudo_labelled(batch, model.features(batch.images))
        if stage.name == "finetune" and stage.wild_views:
            return self._finetune(model, batch)
        return super().loss(model, batch, stage)

    def _pseudo_labelled(self, batch: Batch, features: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        (z1, z2), (u1, u2) = batch.split(features)
        named = self._named(batch)
        first, second = (clip_norm(torch.cat(pair).float(), self.spectral.mu) for pair in ((z1, u1), (z2, u2)))
        out = spectral_loss(
            first, second, torch.cat([batch.labels, named]), first, second, eta_l=self.spectral.eta_l,
            eta_u=self.spectral.eta_u, num_classes=self.num_classes, reduce=self.reduce,
        )  # label -1 is no class: such a sample is in no class mean, but stays in the unlabelled terms
        share = (named != NO_CLASS).float().mean()
        terms = {"l1": out.l1, "l2": out.l2, "l3": out.l3, "l4": out.l4, "l5": out.l5}
        return out.total, {**terms, "pseudo_labelled": share}

    def _finetune(self, model: Network, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        labelled, wild = batch.split(model(batch.images).float())
        supervised = F.cross_entropy(labelled[0], batch.labels)
        named = self._named(batch)
        # over the whole batch, not over the attributed samples: few of them then weigh little
        pseudo = F.cross_entropy(wild[0], named, ignore_index=NO_CLASS, reduction="sum") / max(1, len(named))
        return supervised + self.pseudo * pseudo, {"ce": supervised.detach(), "pseudo": pseudo.detach()}

    def _named(self, batch: Batch) -> Tensor:
        """(m,) class or -1 of the batch's wild samples; none is attributed before the first pseudo_label stage."""
        assert batch.wild_rows is not None
        if not len(self.wild_label):
            return torch.full_like(batch.wild_rows, NO_CLASS)
        return self.wild_label[batch.wild_rows]

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *more: Any) -> None:
        saved = state_dict.get(f"{prefix}wild_label")
        if saved is not None:  # as long as the wild pool, which a fresh method does not know
            self.wild_label = torch.empty_like(saved, device=self.wild_label.device)
        super()._load_from_state_dict(state_dict, prefix, *more)
