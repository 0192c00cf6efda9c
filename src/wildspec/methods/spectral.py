"""The paper's method: spectral contrastive pre-training on labelled + wild views, then fine-tuning on the labelled set.

Stage ``pretrain`` minimizes the spectral loss (eq. 6) of the penultimate features, norm-clipped to sqrt(mu); stage
``finetune`` minimizes cross-entropy (Section 5, appendix F); with ``joint`` > 0 it keeps the spectral loss beside it, and
wild samples go on shaping the space. SCL and NSCL are the two special cases the paper compares with.
"""

import math
import warnings

import torch.nn.functional as F
from torch import Tensor

from wildspec.checks import choice, non_negative
from wildspec.data.augment import Augmentation
from wildspec.losses import SpectralWildLoss
from wildspec.methods.base import Batch, Method, Network, Stage
from wildspec.methods.recipes import PRESETS

SHRUNK, EARLY = 0.05, 200  # l2 below this share of mu after so many steps: the embeddings are about 0 (docs/dev/log.md)


class Spectral(Method):
    """Labelled and wild samples together are the unlabelled set (Definition 3.1)."""

    name = "spectral"
    summary = "spectral contrastive pre-training on labelled + wild data, fine-tuned with cross-entropy"
    paper = "Wang and Li, 2024 (NeurIPS)"
    needs_wild = True
    unlabelled = "all"

    def __init__(
        self, num_classes: int, eta_l: float = 0.5, eta_u: float = 2.0, mu: float = 1.0, cross_weight: float = 1.0,
        joint: float = 0.0,
    ) -> None:
        super().__init__(num_classes)
        self.joint = non_negative("joint", joint)
        self._warned_of: str | None = None
        self.spectral = SpectralWildLoss(
            eta_l, eta_u, mu=mu, cross_weight=cross_weight, unlabelled=self.unlabelled, num_classes=num_classes
        )

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        """``paper``: 60 million views (1000 epochs of the published loop, which ends with its shortest loader) and 20 plain
        fine-tuning epochs. ``fast``: 25 million views, larger batches, stronger views, cosine schedule, and a warm-up of 15
        epochs: with 5 the rate of 0.12 comes before the embeddings have spread, and with some wild pools they all shrink to
        0 for a quarter of a short run (docs/dev/log.md)."""
        choice("preset", preset, PRESETS)
        views = Augmentation(scale=(0.5, 1.0), jitter_p=0.2, grey=0.2)
        if preset == "paper":
            return self._seen_twice(
                Stage("pretrain", epochs=600, lr=0.03, batch_labelled=128, batch_wild=128, labelled_views=2, wild_views=2,
                      schedule="step", augmentation=views),
                Stage("finetune", epochs=20, lr=0.005, batch_labelled=512, schedule="constant",
                      augmentation=Augmentation.none()),
            )
        return self._seen_twice(
            Stage("pretrain", epochs=250, lr=0.12, batch_labelled=256, batch_wild=256, labelled_views=2, wild_views=2,
                  schedule="cosine", warmup=15, augmentation=Augmentation(scale=(0.3, 1.0), jitter_p=0.5, grey=0.2)),
            Stage("finetune", epochs=20, lr=0.005, batch_labelled=512, schedule="cosine",
                  augmentation=Augmentation.none()),
        )

    def _seen_twice(self, pretrain: Stage, finetune: Stage) -> tuple[Stage, Stage]:
        """With ``joint`` the spectral loss needs in fine-tuning what it has in pre-training: two views, and wild samples."""
        if self.joint == 0:
            return pretrain, finetune
        size = finetune.batch_labelled
        return pretrain, finetune.scaled(
            batch_wild=size, labelled_views=2, wild_views=2, augmentation=pretrain.augmentation
        )

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        if stage.name == "pretrain":
            return self.spectral_terms(batch, model.features(batch.images))
        if self.joint == 0 or stage.wild_views == 0:
            return F.cross_entropy(model(batch.labelled_images).float(), batch.labels), {}
        features = model.features(batch.images)
        spectral, terms = self.spectral_terms(batch, features)
        supervised = self.supervised(model, batch, features)
        return supervised + self.joint * spectral, {"ce": supervised.detach(), **terms}

    def look_at(self, stage: Stage, step: int, values: dict[str, float]) -> None:
        """Warn, once a stage, when all embeddings have shrunk to about 0: the loss has no slope there, and they may stay."""
        if step < EARLY or stage.name == self._warned_of or values.get("l2", math.inf) >= SHRUNK * self.spectral.mu:
            return
        self._warned_of = stage.name
        warnings.warn(
            f"{stage.name}: at step {step:,} the embeddings have shrunk to almost nothing (l2 = {values['l2']:.2g}); they "
            f"may stay so for thousands of steps. A longer warm-up ({stage.name}.warmup, now {stage.warmup:g} epochs) or a "
            f"lower rate ({stage.name}.lr, now {stage.lr:g}) avoids it",
            stacklevel=2,
        )

    def spectral_terms(self, batch: Batch, features: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The spectral loss of all views (two of each sample) and its terms."""
        self.spectral.reduce = self.reduce
        (z1, z2), wild = batch.split(features)
        u1, u2 = wild if wild else (z1[:0], z2[:0])
        out = self.spectral(z1, z2, batch.labels, u1, u2)
        return out.total, {"l1": out.l1, "l2": out.l2, "l3": out.l3, "l4": out.l4, "l5": out.l5}

    def supervised(self, model: Network, batch: Batch, features: Tensor) -> Tensor:
        """Mean cross-entropy over all labelled views, from features already computed."""
        labelled = batch.labels.shape[0] * batch.labelled_views
        logits = model.head(features[:labelled]).float()
        return F.cross_entropy(logits, batch.labels.repeat(batch.labelled_views))


class NSCL(Spectral):
    """The unlabelled set is the wild set alone, and the cross term has twice its weight, as published."""

    name = "nscl"
    summary = "spectral contrastive learning with the wild pool alone as unlabelled set"
    paper = "Sun et al., 2023 (ICML)"
    unlabelled = "wild"

    def __init__(
        self, num_classes: int, eta_l: float = 0.5, eta_u: float = 2.0, mu: float = 1.0, cross_weight: float = 2.0
    ) -> None:
        super().__init__(num_classes, eta_l, eta_u, mu, cross_weight)

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        """``fast``: as `Spectral`'s, at the published rate and batch, after a warm-up of 5 epochs. With that one's rate of
        0.12 all embeddings shrink to nothing, and stay so until the schedule has brought the rate down."""
        pretrain, finetune = super().stages(preset)
        short = min(pretrain.warmup, 5.0)
        return pretrain.scaled(lr=0.03, batch_labelled=128, batch_wild=128, warmup=short), finetune


class SCL(Spectral):
    """No labels before fine-tuning: eta_l = 0 on labelled + wild samples together."""

    name = "scl"
    summary = "unsupervised spectral contrastive learning on labelled + wild data, then fine-tuning"
    paper = "HaoChen et al., 2021 (NeurIPS)"

    def __init__(self, num_classes: int, mu: float = 1.0) -> None:
        super().__init__(num_classes, eta_l=0.0, eta_u=1.0, mu=mu)
