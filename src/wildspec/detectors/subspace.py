"""Distance in the directions that carry class, with those that carry the domain taken out.

    m_c = mean of the attributed wild samples of class c  -  mean of the labelled samples of class c        (normalized g)
    V   = the right singular vectors of (m_1, ..., m_C) with the largest singular values: where the shift points
    S(x) = distance of g(x) - V V^T g(x), normalized again, to the k-th nearest of the bank treated alike; high = OOD

In the five-node example (`wildspec.theory`) one eigenvector tells class from class and another domain from domain; where
the embedding keeps the latter, a shifted known sample is nearly as far from the labelled ones as an unknown one.
Without that direction it is near, and the unknown one stays far, unless the embedding has too few dimensions and novelty
shares a vector with the domain (tests/theory/test_roles.py). What it does on images: docs/dev/log-joint.md.
"""

from typing import Any

import torch
from torch import Tensor

from wildspec.checks import integer
from wildspec.detectors.knn import knn_score
from wildspec.errors import InputError
from wildspec.graph.nearest import normalize
from wildspec.tensors import as_rows


def domain_directions(labelled: Any, labels: Any, wild: Any, wild_labels: Any, rank: int = 1) -> Tensor:
    """(rank, d) orthonormal rows: where the wild samples of a class lie from its labelled ones.

    ``wild_labels``: (m,) class or -1 = to none (`wildspec.decision.attribution`); those at -1 do not count.
    """
    known, shifted = normalize(as_rows("features", labelled)), normalize(as_rows("features", wild))
    y, w = as_rows("labels", labels).to(known.device), as_rows("labels", wild_labels).to(known.device)
    if len(y) != len(known) or len(w) != len(shifted):
        raise InputError(f"one label per sample is needed, got {len(y)} for {len(known)} and {len(w)} for {len(shifted)}")
    both = [c for c in y.unique().tolist() if c >= 0 and bool((w == c).any())]
    if not both:
        raise InputError("no class has both labelled and attributed wild samples: there is no shift to see")
    rank = integer("rank", rank, 1, min(len(both), known.shape[1] - 1))
    shifts = torch.stack([shifted[w == c].mean(dim=0) - known[y == c].mean(dim=0) for c in both])
    return torch.linalg.svd(shifts, full_matrices=False).Vh[:rank]


def without(features: Any, directions: Tensor) -> Tensor:
    """(n, d) normalized features, their part along ``directions`` (r, d) removed, normalized again."""
    rows = normalize(as_rows("features", features))
    directions = directions.to(rows)
    return normalize(rows - (rows @ directions.T) @ directions)


def subspace_score(features: Any, bank: Any, directions: Tensor, k: int) -> Tensor:
    """(n,) distance to the k-th nearest of the bank, both without the directions; high = OOD."""
    return knn_score(without(features, directions), without(bank, directions), k)
