"""The one rule as a module for export: rows (n, d) of length 1 in, everything that is decided about them out.

The same formulas as `wildspec.decision.rule`, `answers` and `thresholds`, in tensor operations alone, as ONNX needs them.
Neighbours are searched exactly, also where the rule has an approximate index.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wildspec.decision.answers import AnsweredRule
from wildspec.decision.bank import VOTERS
from wildspec.decision.decision import PValues
from wildspec.decision.probe import LinearProbe
from wildspec.decision.rule import Rule
from wildspec.decision.shift import CLIP
from wildspec.decision.temperature import SMALLEST
from wildspec.decision.thresholds import Thresholds
from wildspec.errors import InputError
from wildspec.graph.neighbors import CANDIDATES, FLOOR, SCALE_NEIGHBOR, TWIN
from wildspec.graph.wild_graph import WildGraph

FAR = 1e30  # exponent of a sample that is no neighbour


class RuleGraph(nn.Module):
    """rows (n, d) -> class (n,), probabilities (n, C), score, p_value, reject, threshold, (n,) each."""

    centre: Tensor
    spread: Tensor

    def __init__(self, rule: Rule | AnsweredRule, thresholds: Thresholds, temperature: float) -> None:
        super().__init__()
        base = rule.rule if isinstance(rule, AnsweredRule) else rule
        if not isinstance(base.probe, LinearProbe) or not isinstance(base.naming, LinearProbe):
            raise InputError("only classifier='auto' can be exported: another classifier is no fixed graph")
        assert thresholds.calibration is not None
        self.temperature, self.shifted = temperature, base.shift.found
        self.everywhere = thresholds.promise is not None and thresholds.promise.everywhere
        self.limit = float(thresholds.value)
        self.raise_by = max(0.0, float(thresholds.shifted) - self.limit)
        self.p_values = PValues(thresholds.calibration)
        self.align = _Align(base)
        self.filter = None if base.graph is None or base.strength == 0 else _Filter(base.graph)
        self.strength = base.strength
        self.probe, self.naming = _linear(base.probe), _linear(base.naming)
        self.bank = _Bank(base)
        self.labelled = _Nearest(base.labelled, base.usual[0])
        self.pool = None if base.graph is None else _Nearest(base.graph.rows, base.usual[1])
        _buffer(self, "centre", base.centre)
        _buffer(self, "spread", base.spread)
        self.classes = base.n_classes
        self.head: nn.Linear | None = None
        if isinstance(rule, AnsweredRule):
            self.head, self.weight = _linear(rule.head), float(rule.weight)
            self.head_centre, self.head_spread = float(rule.centre), float(rule.spread)

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        r, aligned = self.align(rows)
        features = aligned if self.filter is None else _unit(aligned + self.strength * self.filter(aligned))
        logits = self.probe(features)
        distance, margin = self.bank(features)
        found = torch.stack([distance, -margin, -logits.logsumexp(1)], dim=1)
        standard = ((found - self.centre) / self.spread).mean(1)
        beyond = self.labelled(rows)
        if self.pool is not None:
            beyond = torch.minimum(beyond, self.pool(aligned))
        score = standard + beyond.clamp(min=0)
        named = self.naming(aligned).softmax(1)
        probabilities = r[:, None] * logits.softmax(1) + (1 - r)[:, None] * named
        if self.head is not None:
            said = self.head(features)
            own = (self._strangeness(said) - self.head_centre) / self.head_spread
            score = score + self.weight * (own - standard)
            probabilities = (1 - self.weight) * probabilities + self.weight * said[:, : self.classes].softmax(1)
        likely = probabilities.argmax(1)
        probabilities = (probabilities.clamp(min=SMALLEST).log() / self.temperature).softmax(1)
        threshold = self.limit + (torch.ones_like(r) if self.everywhere else r) * self.raise_by
        return likely, probabilities, score, self.p_values(score), score > threshold, threshold

    def _strangeness(self, said: Tensor) -> Tensor:
        known = said[:, : self.classes]
        return said[:, self.classes] - known.amax(1) if said.shape[1] > self.classes else -known.logsumexp(1)


class _Align(nn.Module):
    """r(x) and a(x): the shift undone."""

    means: Tensor
    direction: Tensor

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self.found, self.offset = rule.shift.found, float(rule.shift.offset)
        _buffer(self, "means", rule.shift.means)
        _buffer(self, "direction", rule.shift.direction)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        r = torch.zeros_like(rows[:, 0])
        if self.found:
            r = (rows @ self.direction + self.offset).clamp(-CLIP, CLIP).sigmoid()
        return r, _unit(rows - self.means[0] * (1 - r[:, None]) - self.means[1] * r[:, None])


class _Filter(nn.Module):
    """What the wild graph's leading eigenvectors keep of a(x): `WildGraph.denoise`, with weights that are scaled so
    that the largest of a row is about 1; only their ratios count."""

    rows: Tensor
    lengths: Tensor
    scales: Tensor
    radii: Tensor
    mass: Tensor
    sources: Tensor
    coordinates: Tensor
    embedding: Tensor
    filter_: Tensor

    def __init__(self, graph: WildGraph) -> None:
        super().__init__()
        near = graph.neighbors
        self.k = near.n_neighbors
        self.count = min(CANDIDATES * self.k, len(near))
        self.least = float(FLOOR * np.median(near.scales))
        _buffer(self, "rows", graph.rows)
        _buffer(self, "lengths", (graph.rows.astype(np.float64) ** 2).sum(1))
        for name, value in (("scales", near.scales), ("radii", near.radii), ("mass", near.mass)):
            _buffer(self, name, value)
        _buffer(self, "sources", graph.extension.mass)
        _buffer(self, "coordinates", graph.extension.coordinates)
        _buffer(self, "embedding", graph.embedding)
        _buffer(self, "filter_", graph.filter_)

    def forward(self, aligned: Tensor) -> Tensor:
        found = (2 * aligned @ self.rows.T - self.lengths).topk(self.count, dim=1).indices
        away, order = _apart(aligned, self.rows, found).sort(dim=1)
        found = found.gather(1, order)
        twin = away[:, :1] <= TWIN * self.scales[found[:, :1]]
        place = torch.arange(self.count, device=aligned.device)[None]
        forward, reverse = place + (~twin).to(torch.int64) < self.k, away <= self.radii[found]
        keep = forward | reverse
        keep = keep | ((place == 0) & ~keep.any(1, keepdim=True))
        scale = (min(SCALE_NEIGHBOR, self.k - 1) - (~twin).to(torch.int64)).clamp(0, self.count - 1)
        mine = away.gather(1, scale).clamp(min=self.least)
        exponent = torch.where(keep, away**2 / (mine * self.scales[found]), torch.full_like(away, FAR))
        weights = torch.exp(exponent.amin(1, keepdim=True) - exponent) / self.mass[found]
        degree = (weights * self.sources[found]).sum(1, keepdim=True)
        extended = (weights[:, :, None] * self.coordinates[found]).sum(1) / degree
        filtered = torch.where(twin, self.embedding[found[:, 0]], extended) @ self.filter_
        return _unit(filtered[:, :-1] + (1 - filtered[:, -1:].clamp(0, 1)) * aligned)


class _Bank(nn.Module):
    """Distance to the k-th nearest labelled sample, and the difference between the two nearest classes."""

    rows: Tensor

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        _buffer(self, "rows", rule.bank.rows)
        self.nearest = min(rule.bank.nearest, max(1, len(rule.bank.rows) - 1))
        edges = np.searchsorted(rule.bank.labels, np.arange(rule.n_classes + 1)).tolist()
        self.slices = [(low, high) for low, high in pairwise(edges) if high > low]

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        similar = features @ self.rows.T
        away = 1 - similar.topk(self.nearest, dim=1).values[:, -1]
        if len(self.slices) < 2:
            return away, torch.zeros_like(away)
        near = [similar[:, low:high].topk(min(VOTERS, high - low), dim=1).values.mean(1) for low, high in self.slices]
        two = torch.stack(near, dim=1).topk(2, dim=1).values
        return away, two[:, 0] - two[:, 1]


class _Nearest(nn.Module):
    """How far beyond the usual the nearest row is."""

    rows: Tensor
    lengths: Tensor

    def __init__(self, rows: np.ndarray, usual: np.ndarray) -> None:
        super().__init__()
        _buffer(self, "rows", rows)
        _buffer(self, "lengths", (rows.astype(np.float64) ** 2).sum(1))
        middle, self.high = (float(value) for value in usual)
        self.unit = max(self.high - middle, 0.05 * middle, 1e-3)

    def forward(self, rows: Tensor) -> Tensor:
        found = (2 * rows @ self.rows.T - self.lengths).topk(1, dim=1).indices
        return (_apart(rows, self.rows, found)[:, 0] - self.high) / self.unit


def _apart(queries: Tensor, rows: Tensor, found: Tensor) -> Tensor:
    """(n, d), (m, d), (n, k) -> (n, k) distances, from differences: inner products have too few digits for near ones."""
    return (rows[found] - queries[:, None]).square().sum(2).sqrt()


def _unit(rows: Tensor) -> Tensor:
    return F.normalize(rows, dim=1, eps=1e-30)


def _linear(probe: LinearProbe) -> nn.Linear:
    made = nn.Linear(probe.weights.shape[1], probe.weights.shape[0])
    made.weight.data = torch.from_numpy(np.ascontiguousarray(probe.weights)).float()
    made.bias.data = torch.from_numpy(np.ascontiguousarray(probe.bias)).float()
    return made.requires_grad_(False)


def _buffer(module: nn.Module, name: str, value: Any) -> None:
    module.register_buffer(name, torch.from_numpy(np.ascontiguousarray(value)).float())
