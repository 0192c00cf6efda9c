"""SAL: gradients single out the wild samples that are unlike labelled ones; a logistic output learns to tell them.

f: features, p = softmax of the logits, c = the predicted class. The gradient of cross-entropy at class c with respect to its
row of the last layer is (p_c - 1) f. Then

    g = (p_c - 1) f - mean of the same over labelled samples predicted as c
    v_c = first right singular vector of the g of wild samples predicted as c,   score = |g . v_c|
    candidates: wild samples above the ``keep`` quantile of the labelled samples' scores, those of classes with a v_c
    L = mean CE + weight x 1/2 [ mean softplus(u) of labelled + mean softplus(-u) of candidates ],  u: the logistic output

At test time the score is u.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from wildspec.checks import non_negative, open_fraction
from wildspec.losses.spectral import at_least_float32
from wildspec.methods.base import Batch, Context, Network, Stage
from wildspec.methods.environments import cross_entropies
from wildspec.methods.modules import evaluating
from wildspec.methods.open_set import OpenSetMethod, wild_images
from wildspec.methods.pooled import masked_mean
from wildspec.methods.recipes import WILD_EPOCHS, supervised
from wildspec.models.outputs import ExtraOutputs


def row_gradients(features: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """(n, d), (n, C) -> (n, d) gradient of cross-entropy at the predicted class with respect to its row of the last layer,
    and (n,) that class."""
    own, predicted = logits.softmax(1).max(1)
    return (own - 1)[:, None] * features, predicted


def filter_scores(
    labelled: Tensor, classes: Tensor, wild: Tensor, predicted: Tensor, n_classes: int
) -> tuple[Tensor, Tensor]:
    """Gradients (n, d), (m, d) with their classes -> scores (n,), (m,); 0 where one side has no sample of the class."""
    scores = labelled.new_zeros(len(labelled)), wild.new_zeros(len(wild))
    for c in range(n_classes):
        mine, theirs = classes == c, predicted == c
        if not bool(mine.any()) or not bool(theirs.any()):
            continue
        mean = labelled[mine].mean(0)
        moved = wild[theirs] - mean
        first = torch.linalg.eigh((moved.T @ moved).double())[1][:, -1].to(moved.dtype)  # of the right singular vectors
        scores[0][mine] = ((labelled[mine] - mean) @ first).abs()
        scores[1][theirs] = (moved @ first).abs()
    return scores


def candidates(
    labelled: Tensor, classes: Tensor, wild: Tensor, predicted: Tensor, n_classes: int, keep: float
) -> Tensor:
    """As `filter_scores` -> (m,) True for wild samples above the ``keep`` quantile of the labelled ones, of classes with a
    direction: the zeros of others are no scores."""
    inside, outside = filter_scores(labelled, classes, wild, predicted, n_classes)
    compared = inside[torch.isin(classes, predicted)]
    return outside > torch.quantile(compared, keep) if len(compared) else torch.zeros_like(outside, dtype=torch.bool)


class SAL(OpenSetMethod):
    """``candidate``: (m,) which wild images the output learns to tell."""

    name = "sal"
    summary = "separate and learn: gradients filter the wild pool, a logistic output learns what is left"
    paper = "Du et al., 2024 (ICLR)"
    default_detector = "unknown_head"
    pool_buffers = ("candidate",)
    candidate: Tensor

    def __init__(self, num_classes: int, weight: float = 10.0, keep: float = 0.95) -> None:
        super().__init__(num_classes)
        self.weight = non_negative("weight", weight)
        self.keep = open_fraction("keep", keep)
        self.register_buffer("candidate", torch.zeros(0, dtype=torch.bool))

    @property
    def outputs(self) -> ExtraOutputs:
        return ExtraOutputs(unknown=True)

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        first = supervised(preset, "pretrain")
        return first, first.scaled(name="wild", epochs=WILD_EPOCHS[preset], lr=1e-3, batch_wild=128, wild_views=1)

    def start_stage(self, context: Context) -> None:
        if context.stage.name == "pretrain":
            return
        with torch.no_grad(), evaluating(context.model) as network:
            assert context.views is not None
            known = _gradients(network, (images for images, _ in context.labelled()))
            mixed = _gradients(network, (views[0] for views in context.views("wild", 0)))
            self.candidate = candidates(*known, *mixed, self.num_classes, self.keep)

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        if stage.name == "pretrain":
            return cross_entropies(model(batch.labelled_images), batch.labels).mean(), {}
        assert batch.wild_rows is not None
        assert model.unknown is not None
        known, mixed = model.features(batch.labelled_images), model.features(wild_images(batch))
        ce = cross_entropies(model.head(known), batch.labels).mean()
        inside, outside = (at_least_float32(model.unknown(each)[:, 0]) for each in (known, mixed))
        told = masked_mean(F.softplus(-outside), self.candidate[batch.wild_rows], self.reduce)
        binary = 0.5 * (F.softplus(inside).mean() + told)
        return ce + self.weight * binary, {"ce": ce.detach(), "binary": binary.detach()}


def _gradients(network: torch.nn.Module, batches: Iterator[Tensor]) -> tuple[Tensor, Tensor]:
    """(n, d) gradients and (n,) predicted classes of images."""
    kind = next(network.parameters()).dtype
    features = torch.cat([network.features(images.to(kind)).float() for images in batches])  # type: ignore[operator]
    return row_gradients(features, network.head(features.to(kind)).float())  # type: ignore[operator]
