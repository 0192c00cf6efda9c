"""Simplified Hopfield energy: S(x) = -<f, m_y>, y the predicted class, high = OOD (Zhang et al., 2023).

m_c is the mean feature of the training samples of class c that are classified right.
"""

import torch
from torch import Tensor

from wildspec.checks import choice
from wildspec.detectors.base import Detector, register
from wildspec.detectors.inputs import same_width
from wildspec.errors import InputError
from wildspec.graph.nearest import normalize


def she_score(features: Tensor, patterns: Tensor, metric: str = "inner") -> Tensor:
    """(n, d) features and the stored pattern of each sample's class, (n, d) -> (n,) scores, high = OOD."""
    if metric == "inner":
        return -(features * patterns).sum(dim=1)
    if metric == "cosine":
        return -(normalize(features) * normalize(patterns)).sum(dim=1)
    return (features - patterns).norm(dim=1)


@register
class SHE(Detector):
    """``metric``: inner (the paper's), cosine or euclidean (its ablation). A class none of whose training samples is
    classified right keeps the zero pattern: whatever is predicted as that class scores 0, which looks unknown where features
    are not negative; with euclidean its own length, which says nothing."""

    name = "she"
    summary = "inner product with the mean pattern of the predicted class"
    paper = "Zhang et al., Out-of-distribution detection based on in-distribution data patterns memorization, ICLR 2023"
    fit_needs = ("features", "logits", "labels")
    score_needs = ("features", "logits")
    streams = True
    state_names = ("patterns_",)

    def __init__(self, metric: str = "inner") -> None:
        self.metric = choice("metric", metric, ("inner", "cosine", "euclidean"))

    def _update(self, *, features: Tensor, logits: Tensor, labels: Tensor) -> None:
        if not hasattr(self, "_sum"):
            self._sum = features.new_zeros(logits.shape[1], features.shape[1], dtype=torch.float64)
            self._sum_counts = features.new_zeros(logits.shape[1], dtype=torch.float64)
            self._sum_dtype = features.dtype
        same_width(self, "features", features, self._sum.shape[1])
        right = logits.argmax(dim=1) == labels
        self._sum.index_add_(0, labels[right], features[right].double())
        self._sum_counts.index_add_(0, labels[right], self._sum_counts.new_ones(int(right.sum())))

    def _finish(self) -> None:
        if not float(self._sum_counts.sum()):
            raise InputError("she needs training samples that are classified right, but none is; train the network first")
        self.patterns_ = (self._sum / self._sum_counts.clamp(min=1).unsqueeze(1)).to(self._sum_dtype)  # (C, d)

    def _score(self, *, features: Tensor, logits: Tensor) -> Tensor:
        same_width(self, "features", features, self.patterns_.shape[1])
        same_width(self, "logits", logits, self.patterns_.shape[0])
        return she_score(features, self.patterns_[logits.argmax(dim=1)], self.metric)
