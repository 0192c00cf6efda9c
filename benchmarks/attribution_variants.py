"""Other ways to tell which wild samples belong to a known class; compared by joint_digits.py.

Each is ``rule(method, context) -> (n,)`` class of every wild sample or -1, put in the place of spectral+'s own rule (Otsu's
cut of the distance to the k-th nearest labelled sample). All look at means over views in the pre-trained space, none at an
OOD label, except `true_membership`, which shows what a rule without error would give.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import kneighbors_graph
from torch import Tensor, nn

from wildspec.detectors.otsu import otsu_cut
from wildspec.methods.base import Context
from wildspec.methods.spectral_plus import SpectralPlus

Rule = Callable[["Ruled", Context], Tensor]


class Ruled(SpectralPlus):
    """spectral+ with another rule of attribution."""

    def __init__(self, num_classes: int, rule: Rule) -> None:
        super().__init__(num_classes)
        self.rule = rule

    def attribute(self, context: Context) -> Tensor:
        return self.rule(self, context)


def _look(method: SpectralPlus, context: Context) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labelled features, labels, wild features: means over views."""
    with torch.no_grad():
        labels = torch.cat([labels for _, labels in context.labelled()])
        labelled, wild = (method._embed(context, part) for part in ("labelled", "wild"))
    return labelled.double().numpy(), labels.numpy(), wild.double().numpy()


def confidence(classifier: nn.Module, least: float = 0.8) -> Rule:
    """By a classifier: the mean over views of its probabilities is above ``least`` for some class."""

    def rule(method: Ruled, context: Context) -> Tensor:
        assert context.views is not None
        classifier.eval()
        found = []
        with torch.no_grad():
            for views in context.views("wild", method.views):
                p = classifier(views.flatten(0, 1)).softmax(1).view(len(views), views.shape[1], -1).mean(0)
                found.append(torch.where(p.amax(1) > least, p.argmax(1), -1))
        return torch.cat(found)

    return rule


def propagation(neighbours: int = 10, alpha: float = 0.9) -> Rule:
    """Labels spread over the neighbour graph: F = (I - alpha S)^-1 Y; Otsu's cut of the log of the mass that arrives."""

    def rule(method: Ruled, context: Context) -> Tensor:
        labelled, labels, wild = _look(method, context)
        rows = np.concatenate([labelled, wild])
        graph = kneighbors_graph(rows, neighbours).toarray()
        graph = np.maximum(graph, graph.T)
        root = 1 / np.sqrt(graph.sum(1))
        spread = np.linalg.inv(np.eye(len(rows)) - alpha * root[:, None] * graph * root)
        arrived = spread[len(labelled) :, : len(labelled)] @ np.eye(labels.max() + 1)[labels]
        mass = np.log(arrived.sum(1) + 1e-12)
        return torch.from_numpy(np.where(mass >= otsu_cut(mass), arrived.argmax(1), -1))

    return rule


def clusters(per_class: int = 3) -> Rule:
    """k-means on labelled and wild together; a cluster is kept when its share of labelled samples is at least half of that
    in all, and has the class most frequent among them."""

    def rule(method: Ruled, context: Context) -> Tensor:
        labelled, labels, wild = _look(method, context)
        rows, known = np.concatenate([labelled, wild]), len(labelled)
        where = KMeans(per_class * (int(labels.max()) + 1), n_init=5, random_state=0).fit_predict(rows)
        found = np.full(len(wild), -1)
        for c in range(where.max() + 1):
            votes = np.bincount(labels[where[:known] == c], minlength=1)
            if votes.sum() >= 0.5 * known / len(rows) * np.sum(where == c):
                found[where[known:] == c] = votes.argmax()
        return torch.from_numpy(found)

    return rule


def positive_unlabelled() -> Rule:
    """A logistic regression of labelled against wild: the log density ratio; Otsu's cut of it; class of the nearest mean."""

    def rule(method: Ruled, context: Context) -> Tensor:
        labelled, labels, wild = _look(method, context)
        rows, which = np.concatenate([labelled, wild]), np.r_[np.ones(len(labelled)), np.zeros(len(wild))]
        ratio = LogisticRegression(max_iter=2000, class_weight="balanced").fit(rows, which).decision_function(wild)
        means = np.stack([labelled[labels == c].mean(0) for c in range(labels.max() + 1)])
        nearest = np.linalg.norm(wild[:, None] - means[None], axis=2).argmin(1)
        return torch.from_numpy(np.where(ratio >= otsu_cut(ratio), nearest, -1))

    return rule


def true_membership(component: Any) -> Rule:
    """No rule but the truth about who is known (not about the class: that of the nearest labelled samples)."""

    def rule(method: Ruled, context: Context) -> Tensor:
        from wildspec.detectors.attribution import attribute

        labelled, labels, wild = _look(method, context)
        nearest = attribute(torch.from_numpy(labelled), torch.from_numpy(labels), torch.from_numpy(wild)).nearest
        return torch.where(torch.as_tensor(component) < 2, nearest, -1)

    return rule
