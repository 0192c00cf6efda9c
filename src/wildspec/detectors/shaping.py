"""Scores of a reshaped last layer: activations or weights are changed, then S = -log sum_c exp(z_c) of the new logits.

ASH (Djurisic et al., 2023) prunes each sample's activations, SCALE (Xu et al., 2024) only scales them, ReAct (Sun et al.,
2021) clips them, DICE (Sun and Li, 2022) prunes the weights. All keep a copy of the linear head, so scoring needs only
features; the class prediction stays that of the unchanged network.
"""


import numpy as np
import torch
from torch import Tensor, nn

from wildspec.checks import choice, number
from wildspec.detectors.base import Detector, register
from wildspec.detectors.energy import energy_score
from wildspec.detectors.inputs import linear_head, same_width
from wildspec.errors import InputError

MOST = 60.0  # reached only where less than 1/60 of flat activations is kept


def percentile(name: str, value: float) -> float:
    """A percentile in [0, 100)."""
    result = number(name, value)
    if not 0 <= result < 100:
        raise InputError(f"{name} must lie in [0, 100), got {result:g}; 90 keeps the largest tenth")
    return result


def kept_count(width: int, percent: float) -> int:
    """How many of ``width`` activations survive: width - round(width * percent / 100), at least one."""
    return max(1, width - round(width * percent / 100))


def removed_count(contributions: np.ndarray, percent: float) -> int:
    """How many of (n,) contributions do not lie above their percentile; at 0 per cent none. Of several equal to it, those up
    to its rank: equal weights do not all go together."""
    if percent == 0:
        return 0
    limit = np.percentile(contributions, percent)
    removed = int((contributions <= limit).sum())
    if (contributions == limit).sum() > 1:
        removed = min(removed, int(percent / 100 * (len(contributions) - 1)) + 1)
    return removed


def ash(features: Tensor, percent: float, variant: str) -> Tensor:
    """(n, d) activations >= 0 -> shaped ones: the largest survive, the rest are 0.

    p: survivors keep their value; b: each becomes sum(all) / count; s: each is multiplied by exp(sum(all) / sum(survivors)).
    """
    survivors, where = features.topk(kept_count(features.shape[1], percent), dim=1)
    total = features.sum(dim=1, keepdim=True)
    if variant == "b":
        survivors = (total / survivors.shape[1]).expand_as(survivors)
    elif variant == "s":
        survivors = survivors * torch.exp(_ratio(total, survivors))
    return torch.zeros_like(features).scatter(1, where, survivors)


def scale(features: Tensor, percent: float) -> Tensor:
    """(n, d) activations >= 0 -> all of them times exp(sum(all) / sum(largest))."""
    largest = features.topk(kept_count(features.shape[1], percent), dim=1).values
    return features * torch.exp(_ratio(features.sum(dim=1, keepdim=True), largest))


def _ratio(total: Tensor, largest: Tensor) -> Tensor:
    """sum(all) / sum(largest), held at `MOST`: exp(89) is beyond single precision, and scores would be NaN."""
    kept = largest.sum(dim=1, keepdim=True)
    return torch.where(kept > 0, total / kept, torch.ones_like(kept)).clamp(max=MOST)  # no activation: stays as it is


class _Head(Detector):
    """A detector that keeps the linear head."""

    fit_needs: tuple[str, ...] = ("model",)
    score_needs = ("features",)
    state_names: tuple[str, ...] = ("weight_", "bias_")
    non_negative = False  # True: the formula has a meaning only for activations after a ReLU

    def _fit(self, *, model: nn.Module) -> None:
        self.weight_, self.bias_ = linear_head(self, model)

    def _score(self, *, features: Tensor) -> Tensor:
        same_width(self, "features", features, self.weight_.shape[1])
        if self.non_negative and bool((features < 0).any()):
            raise InputError(
                f"{self.name} is defined for activations after a ReLU, but features as low as {float(features.min()):.3g} "
                "came; use a network whose features are not negative, or another detector"
            )
        shaped = self._shape(features)
        return energy_score(torch.addmm(self.bias_, shaped, self.weight_.T))

    def _shape(self, features: Tensor) -> Tensor:
        return features


@register
class ASH(_Head):
    """``percent``: share of activations removed (90 for ImageNet, 95 for CIFAR in the authors' runs).

    ``variant``: p, b or s, see `ash`.
    """

    name = "ash"
    summary = "energy after pruning each sample's activations and scaling the rest (variants p, b, s)"
    paper = "Djurisic et al., Extremely simple activation shaping for out-of-distribution detection, ICLR 2023"
    non_negative = True

    def __init__(self, percent: float = 90.0, variant: str = "s") -> None:
        self.percent = percentile("percent", percent)
        self.variant = choice("variant", variant, ("p", "b", "s"))

    def _shape(self, features: Tensor) -> Tensor:
        return ash(features, self.percent, self.variant)


@register
class SCALE(_Head):
    """``percent``: 100 minus the share of activations the scale is measured by (85 in the paper)."""

    name = "scale"
    summary = "energy after scaling each sample's activations, nothing pruned"
    paper = "Xu et al., Scaling for training time and post-hoc OOD detection enhancement, ICLR 2024"
    non_negative = True

    def __init__(self, percent: float = 85.0) -> None:
        self.percent = percentile("percent", percent)

    def _shape(self, features: Tensor) -> Tensor:
        return scale(features, self.percent)


@register
class ReAct(_Head):
    """``percent``: activations are clipped at this percentile of all training activations (90 in the paper)."""

    name = "react"
    summary = "energy after clipping activations at a training percentile"
    paper = "Sun et al., ReAct: Out-of-distribution detection with rectified activations, NeurIPS 2021"
    fit_needs = ("features", "model")
    state_names = ("weight_", "bias_", "clip_")

    def __init__(self, percent: float = 90.0) -> None:
        self.percent = percentile("percent", percent)

    def _fit(self, *, features: Tensor, model: nn.Module) -> None:  # type: ignore[override]
        weight, bias = linear_head(self, model)
        same_width(self, "features", features, weight.shape[1])
        self.weight_, self.bias_ = weight.to(features), bias.to(features)
        # numpy: torch.quantile stops at 16 million values
        self.clip_ = features.new_tensor(float(np.percentile(features.cpu().numpy(), self.percent)))

    def _shape(self, features: Tensor) -> Tensor:
        return torch.minimum(features, self.clip_)


@register
class DICE(_Head):
    """``percent``: share of weights removed, those that contribute least on average (90 for CIFAR, 70 for ImageNet)."""

    name = "dice"
    summary = "energy with only the most contributing weights of the last layer"
    paper = "Sun and Li, DICE: Leveraging sparsification for out-of-distribution detection, ECCV 2022"
    fit_needs = ("features", "model")
    streams = True

    def __init__(self, percent: float = 90.0) -> None:
        self.percent = percentile("percent", percent)

    def _update(self, *, features: Tensor, model: nn.Module) -> None:
        if not hasattr(self, "_sum"):
            weight, bias = linear_head(self, model)
            self._sum_head = weight.to(features), bias.to(features)
            self._sum, self._sum_count = features.new_zeros(features.shape[1], dtype=torch.float64), 0
        same_width(self, "features", features, self._sum_head[0].shape[1])
        self._sum = self._sum + features.double().sum(dim=0)
        self._sum_count += len(features)

    def _finish(self) -> None:
        weight, self.bias_ = self._sum_head
        contribution = weight.double() * (self._sum / self._sum_count)  # (C, d): V = E[w_c * f]
        flat = contribution.flatten()
        keep = torch.ones_like(flat, dtype=torch.bool)
        keep[flat.argsort(stable=True)[: removed_count(flat.cpu().numpy(), self.percent)]] = False
        self.weight_ = weight * keep.view_as(weight)
