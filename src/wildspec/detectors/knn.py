"""KNN score: S(x) = || g(x) - g_(k) ||, the distance to the k-th nearest training sample (Sun et al., 2022).

g = f / ||f|| are normalized penultimate features; g_(k) is the k-th nearest to g(x) among all training samples. The distance
is the Euclidean one, not its square (some libraries return the square: same ranking, other scale).
"""

from typing import Any

import torch
from torch import Tensor, nn

from wildspec.checks import integer
from wildspec.detectors.base import Detector, register
from wildspec.detectors.graphs import KthDistance
from wildspec.detectors.inputs import check_inputs, same_width
from wildspec.errors import InputError
from wildspec.graph.nearest import kth_distance, normalize, search_nearest
from wildspec.tensors import as_rows

knn_score = kth_distance  # high = OOD


def usual_k(labels: Tensor, most: int = 50) -> int:
    """Half the smallest class, at most the paper's 50: the k-th neighbour of a sample is then, where all is well, still of
    its own class. A class without samples (an empty folder keeps its number) and the label -1 have no say; without any class
    it is ``most``."""
    known = labels[labels >= 0].cpu()
    if not len(known):
        return most
    sizes = torch.bincount(known)
    return max(1, min(most, int(sizes[sizes > 0].min()) // 2))


@register
class KNN(Detector):
    """``k``: which neighbour (50 for CIFAR-size banks, 1000 for the full ImageNet bank). ``bank_``: (m, d), normalized."""

    name = "knn"
    summary = "distance to the k-th nearest training sample, normalized features"
    paper = "Sun et al., Out-of-distribution detection with deep nearest neighbors, ICML 2022"
    fit_needs = ("features",)
    score_needs = ("features",)
    streams = True
    state_names = ("bank_",)
    _state_is_sum = True

    def __init__(self, k: int = 50) -> None:
        self.k = integer("k", k, minimum=1)

    def _update(self, *, features: Tensor) -> None:
        if not hasattr(self, "_sum_parts"):
            # a bank may grow after it was fitted or loaded
            self._sum_parts: list[Tensor] = [self.bank_] if hasattr(self, "bank_") else []
        if self._sum_parts:
            same_width(self, "features", features, self._sum_parts[0].shape[1])
        self._sum_parts.append(normalize(features))

    def _finish(self) -> None:
        bank = torch.cat(self._sum_parts)
        self._sum_parts = [bank]  # one copy; and more may come, also when this is still too few
        if self.k > len(bank):
            raise InputError(f"knn with k = {self.k} needs a bank of at least {self.k} samples, got {len(bank)}; lower k")
        del self._sum_parts
        self.bank_ = bank

    def score(
        self,
        *,
        features: Any = None,
        logits: Any = None,
        inputs: Any = None,
        model: nn.Module | None = None,
        exclude_self: bool | Tensor = False,
    ) -> Tensor:
        """(n,) distance to the k-th nearest neighbour.

        ``exclude_self`` for samples that are in the bank: True when row i of ``features`` is row i of the bank, or the
        bank row of each sample, (n,) whole numbers.
        """
        if exclude_self is False:
            return super().score(features=features)
        features = check_inputs(self, "score", features=features)["features"]
        return self.neighbors(features, exclude_self=exclude_self)[0][:, -1]

    def _score(self, *, features: Tensor) -> Tensor:
        same_width(self, "features", features, self.bank_.shape[1])
        return knn_score(normalize(features), self.bank_, self.k)

    def neighbors(
        self, features: Any, k: int | None = None, *, exclude_self: bool | Tensor = False
    ) -> tuple[Tensor, Tensor]:
        """Distances and bank rows of the k nearest (default: the detector's k), nearest first: (n, k), (n, k)."""
        self.check_fitted()
        features = as_rows("features", features)
        same_width(self, "features", features, self.bank_.shape[1])
        k = self.k if k is None else integer("k", k, minimum=1)
        queries = normalize(features.to(device=self.bank_.device, dtype=self.bank_.dtype))
        found, where = search_nearest(queries, self.bank_, k if exclude_self is False else k + 1)
        if exclude_self is not False:
            others = _others(where, self._own_rows(exclude_self, len(features)))
            found, where = found[others].view(-1, k), where[others].view(-1, k)
        return found.to(features.device), where.to(features.device)

    def graph(self) -> nn.Module:
        self.check_fitted()
        return KthDistance(self.bank_, self.k)

    def _own_rows(self, exclude_self: bool | Tensor, n: int) -> Tensor:
        own = torch.arange(n) if exclude_self is True else torch.as_tensor(exclude_self)
        if own.shape != (n,) or (exclude_self is True and n != len(self.bank_)):
            raise InputError(
                f"exclude_self needs the bank row of each of the {n} samples (True: the whole bank of "
                f"{len(self.bank_)} in its order), got shape {tuple(own.shape)}"
            )
        return own.to(self.bank_.device)


def _others(where: Tensor, own: Tensor) -> Tensor:
    """(n, k + 1) neighbours -> (n, k + 1) True for k of them, without ``own``; where ties pushed it out of the list, without
    the last."""
    is_own = where == own.unsqueeze(1)
    is_own[:, -1] |= ~is_own.any(dim=1)
    return ~is_own
