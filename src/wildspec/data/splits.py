"""Who is trained on, validated on, tested on: disjoint, reproducible from a seed, with a hash of every part's members.

The paper's appendix ("Details of data split for OOD datasets") and the code of SCONE it follows:

- the ID training set: 50 % labelled, 50 % unlabelled (``half_split``);
- the unlabelled half: 60 % wild training, 10 % ID validation, 30 % wild validation
  (``wild_split(..., "in_distribution")``; the code cuts the covariate set in the same way);
- a semantic set with its own test split (SVHN): 70 % wild training, 30 % wild validation of its training split
  (``"semantic_with_test"``);
- any other semantic set: 70 % wild, 30 % test, and of the wild part again 70 % training and 30 % validation, so
  49 / 21 / 30 % of the whole (``"semantic"``).

Sizes are rounded by largest remainder, so every part is within one image of its exact share (of each class when
stratified).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wildspec.checks import choice, integer, open_fraction
from wildspec.data.apportion import apportion
from wildspec.errors import InputError

WILD_SCHEMES: dict[str, dict[str, float]] = {
    "in_distribution": {"train": 0.6, "id_validation": 0.1, "wild_validation": 0.3},
    "semantic_with_test": {"train": 0.7, "validation": 0.3},
    "semantic": {"train": 0.49, "validation": 0.21, "test": 0.3},
}


@dataclass(frozen=True)
class Split:
    """Named, disjoint sets of indices that together cover 0..n-1. ``ids``: optional content id per index, for the hash."""

    members: Mapping[str, np.ndarray]
    n: int
    seed: int
    ids: Sequence[str] | None = None

    def __post_init__(self) -> None:
        joined = np.concatenate([np.asarray(part, dtype=np.int64) for part in self.members.values()])
        if len(joined) != self.n or not np.array_equal(np.sort(joined), np.arange(self.n)):
            raise InputError(f"the parts of a split must hold each of {self.n} indices exactly once")
        if self.ids is not None and len(self.ids) != self.n:
            raise InputError(f"ids must have one entry per image ({self.n}), got {len(self.ids)}")

    def __getitem__(self, name: str) -> np.ndarray:
        return self.members[choice("split", name, self.members)]

    def hash(self, name: str) -> str:
        """sha256 over the sorted member indices: decimal, one per line, with a space and the id where there are ids."""
        digest = hashlib.sha256()
        for index in np.sort(self[name]).tolist():
            line = f"{index} {self.ids[index]}" if self.ids is not None else str(index)
            digest.update(line.encode() + b"\n")
        return digest.hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Record for result files: sizes and hashes, not the members (those follow from n and the seed)."""
        parts = {name: {"count": len(part), "sha256": self.hash(name)} for name, part in self.members.items()}
        return {"n": self.n, "seed": self.seed, "parts": parts}


def fraction_split(
    n: int,
    fractions: Mapping[str, float],
    seed: int,
    *,
    labels: np.ndarray | None = None,
    ids: Sequence[str] | None = None,
) -> Split:
    """Random split of 0..n-1 into named parts of given fractions (sum 1), within each class where ``labels`` are given.

    Members are sorted. ``labels``: (n,) whole numbers; -1 counts as a class of its own.
    """
    n = integer("n", n, 1)
    shares = [open_fraction(f"fraction of {name!r}", value) for name, value in fractions.items()]
    if abs(sum(shares) - 1) > 1e-9:
        raise InputError(f"the fractions of a split must add up to 1, got {sum(shares):g}")
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([integer("seed", seed), n])))
    parts: list[list[np.ndarray]] = [[] for _ in shares]
    for group in _groups(n, labels):
        order = generator.permutation(group)
        ends = np.cumsum(apportion(shares, len(group)))[:-1]
        for part, piece in zip(parts, np.split(order, ends), strict=True):
            part.append(piece)
    members = {name: np.sort(np.concatenate(part)) for name, part in zip(fractions, parts, strict=True)}
    return Split(members, n, seed, ids)


def half_split(
    n: int, seed: int, *, labels: np.ndarray | None = None, ids: Sequence[str] | None = None
) -> Split:
    """The ID training set in two halves, ``labelled`` and ``unlabelled``; class-stratified where ``labels`` are given."""
    return fraction_split(n, {"labelled": 0.5, "unlabelled": 0.5}, seed, labels=labels, ids=ids)


def wild_split(
    n: int,
    seed: int,
    scheme: str = "semantic",
    *,
    labels: np.ndarray | None = None,
    ids: Sequence[str] | None = None,
) -> Split:
    """One of the paper's splits of a wild component (``WILD_SCHEMES``; the module's docstring says which is for what)."""
    return fraction_split(n, WILD_SCHEMES[choice("scheme", scheme, WILD_SCHEMES)], seed, labels=labels, ids=ids)


def holdout(
    labels: np.ndarray, fraction: float, seed: int, *, ids: Sequence[str] | None = None
) -> Split:
    """Stratified ``train`` and ``holdout`` (about ``fraction`` of each class).

    A class of two or more images has at least one on either side; a class of one image stays in ``train``.
    """
    labels = np.asarray(labels)
    share = open_fraction("fraction", fraction)
    n = integer("the number of labels", len(labels), 1)
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([integer("seed", seed), n, 1])))
    train, held = [], []
    for group in _groups(n, labels):
        order = generator.permutation(group)
        take = min(max(round(share * len(group)), 1), len(group) - 1)
        held.append(order[:take])
        train.append(order[take:])
    return Split({"train": np.sort(np.concatenate(train)), "holdout": np.sort(np.concatenate(held))}, n, seed, ids)


def _groups(n: int, labels: np.ndarray | None) -> list[np.ndarray]:
    if labels is None:
        return [np.arange(n, dtype=np.int64)]
    labels = np.asarray(labels)
    if labels.shape != (n,):
        raise InputError(f"labels must have one entry per image ({n}), got shape {labels.shape}")
    return [np.flatnonzero(labels == c) for c in np.unique(labels)]
