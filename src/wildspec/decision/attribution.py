"""Which wild samples belong to a known class? Told from distances in feature space alone; no OOD label, no classifier.

d(x) = distance to the k-th nearest known sample, normalized features (averaged over views where views were made). Samples
of known classes, shifted or not, lie near a labelled class and the others do not: the distances of a wild pool have two
modes. Otsu's cut between them (the one that leaves the least variance within the two sides) attributes a sample to the class
most frequent among its k nearest known ones, or to none.

Known are at first the labelled samples, then also the wild ones that were attributed, with their class, each for all but
itself; this is repeated until none is added. A shifted sample far from every labelled one is so reached through those less
shifted, as far as they lie closer to each other than to what is unknown. Who is attributed stays so.

A pool whose distances are not two groups (`wildspec.decision.cut`) has no gap at which this would stop: there the first
round is the last. Nor does its cut say that the near side is known: all of the pool may be unknown. So there a sample must
also be as near as labelled samples are to each other (the 99 % quantile of their own d, each left out); where fewer than 5 %
of the pool are, none is attributed.

In the spectral space this works before any fine-tuning: augmentation ties the shifted samples of a class to each other and,
through the mildly shifted ones, to the labelled samples of the class.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wildspec.checks import fraction, integer
from wildspec.decision.cut import otsu_cut, two_groups
from wildspec.errors import InputError
from wildspec.graph.nearest import kth_distance, leave_one_out, normalize, search_nearest
from wildspec.tensors import as_rows

NO_CLASS = -1
MOST_ROUNDS = 20  # the last ones add a sample or two
LIKE_LABELLED = 0.99  # of the labelled samples' own distances
FEW = 0.05  # share of the pool
MOST_LABELLED = 10_000  # labelled samples whose own distances are taken


def neighbours(bank: int) -> int:
    """k for a bank of that many samples: one in 500, at least 5; the paper's 50 at its 25,000 labelled images."""
    return min(bank, max(5, round(bank / 500)))


@dataclass(frozen=True)
class Attribution:
    """``label``: (n,) class, or -1 = to none. ``nearest``: (n,) class whether attributed or not. ``distance``: (n,) d(x) and
    ``cut`` of the last round. ``share``: (n,) of the k neighbours then that were of the most frequent class. ``rounds``: how
    often distances were taken."""

    label: Tensor
    nearest: Tensor
    distance: Tensor
    cut: float
    share: Tensor
    rounds: int

    @property
    def known(self) -> Tensor:
        """(n,) True where attributed to a class."""
        return self.label != NO_CLASS


def attribute(
    labelled: Any, labels: Any, wild: Any, *, k: int | None = None, weights: Any = None, agreement: float = 0.0,
    rounds: int = MOST_ROUNDS,
) -> Attribution:
    """Features (n, d) with labels (n,), wild features (m, d) -> who belongs to which class. ``k``: default `neighbours`.

    ``weights``: (m,) how often each wild sample is met, where the pool at hand is no fair sample of the wild data.
    ``agreement``: least share of the k neighbours that must be of one class; 0: the most frequent class, however rare.
    ``rounds``: at most; 1: known are the labelled samples alone.
    """
    bank = normalize(as_rows("features", labelled))
    classes = as_rows("labels", labels).to(bank.device, torch.int64)
    if len(bank) != len(classes) or (len(classes) and int(classes.min()) < 0):
        raise InputError(f"attribution needs one class per labelled sample, got {len(classes)} labels for {len(bank)}")
    if not len(bank):
        raise InputError("attribution needs labelled samples, got none")
    queries = normalize(as_rows("features", wild)).to(bank)
    if len(queries) < 2:
        raise InputError(f"attribution compares wild samples with each other and needs at least 2, got {len(queries)}")
    k = neighbours(len(bank)) if k is None else integer("k", k, 1, len(bank))
    fraction("agreement", agreement)
    away, where = search_nearest(queries, bank, k)
    near = classes[where]  # (m, k) of the k nearest known: distance, class
    label = torch.full((len(queries),), NO_CLASS, device=bank.device)
    for done in range(1, integer("rounds", rounds, 1) + 1):
        distance = away.amax(dim=1)
        nearest, share = _vote(near, int(classes.max()) + 1)
        cut = otsu_cut(distance, weights)
        new = (label == NO_CLASS) & (distance <= cut) & (share >= agreement - 1e-6)
        two = two_groups(distance, cut, weights=weights)
        if not two and done == 1:
            new &= _like_labelled(distance, bank, k, weights)
        if two or done == 1:
            label = torch.where(new, nearest, label)
        if done == rounds or not two or not bool(new.any()):
            break
        away, near = _join(queries, new, nearest, away, near)
    nearest = torch.where(label == NO_CLASS, nearest, label)
    return Attribution(label, nearest, distance, cut, share, done)


@dataclass(frozen=True)
class KnownBank:
    """``rows`` (m, d) normalized: labelled samples, then the wild ones attributed to a class. ``wild_distance`` (n,): from
    each wild sample to the ``k``-th nearest of them, itself left out. ``attribution``: who belongs to which class."""

    rows: Tensor
    k: int
    wild_distance: Tensor
    attribution: Attribution


def known_bank(labelled: Any, labels: Any, wild: Any, k: int | None = None) -> KnownBank:
    """Features (n, d) with labels (n,), wild features (m, d) -> everything known, and how far wild samples are from it."""
    found = attribute(labelled, labels, wild, k=k)
    known = normalize(as_rows("features", labelled))
    rows = normalize(as_rows("features", wild)).to(known)
    k = neighbours(len(known)) if k is None else k
    bank = torch.cat([known, rows[found.known]])
    return KnownBank(bank, k, leave_one_out(rows, found.known, bank, len(known), k), found)


def own_groups(wild: Any, found: Attribution, k: int) -> Tensor:
    """(m,) True for wild samples in a group of their own: attributed to none, and less than half as far from the k-th
    nearest other such sample as from the k-th nearest known one. A known sample that was left out has no such group."""
    rows, alone = normalize(as_rows("features", wild)).to(found.distance), ~found.known
    if int(alone.sum()) <= k:  # no k others
        return torch.zeros_like(alone)
    return alone & (2 * leave_one_out(rows, alone, rows[alone], 0, k) < found.distance)


def _vote(near: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(m, k) classes -> (m,) the most frequent one, and its share."""
    votes = torch.zeros(len(near), count, device=near.device)
    votes.scatter_add_(1, near, torch.ones_like(near, dtype=votes.dtype))
    most, nearest = votes.max(dim=1)
    return nearest, most / near.shape[1]


def _like_labelled(distance: Tensor, bank: Tensor, k: int, weights: Any) -> Tensor:
    """(m,) True for wild samples as near as labelled ones are to each other; nobody, with a warning, where hardly any is."""
    near = distance <= _spacing(bank, k)
    weight = torch.ones_like(distance) if weights is None else torch.as_tensor(weights).to(distance)
    share = float(weight[near].sum() / weight.sum())
    if share >= FEW:
        return near
    warnings.warn(
        f"the wild pool looks like nothing labelled: {share:.0%} of its {len(distance)} samples are as near to labelled "
        "samples as those are to each other, so none is attributed to a class",
        stacklevel=4,
    )
    return torch.zeros_like(near)


def _spacing(bank: Tensor, k: int) -> float:
    """How far the k-th nearest other labelled sample is at most, for 99 % of them. Infinite where they do not say: k or
    fewer, or copies of each other."""
    if k >= len(bank):
        return math.inf
    some = bank[:: math.ceil(len(bank) / MOST_LABELLED)]
    found = float(torch.quantile(kth_distance(some, bank, k + 1), LIKE_LABELLED))  # its nearest is itself, at distance 0
    return found or math.inf


def _join(queries: Tensor, new: Tensor, nearest: Tensor, away: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """The k nearest after the ``new`` ones, of the classes ``nearest``, have joined the known; none is its own neighbour."""
    k, bank, rows = away.shape[1], queries[new], new.nonzero().squeeze(1)
    further, where = search_nearest(queries, bank, min(k + 1, len(bank)))
    itself = rows[where] == torch.arange(len(queries), device=queries.device).unsqueeze(1)
    further = further.masked_fill(itself, torch.inf)
    found = torch.cat([away, further], dim=1).topk(k, dim=1, largest=False)
    return found.values, torch.cat([near, nearest[rows][where]], dim=1).gather(1, found.indices)
