"""Embedding bundles of version 0.1 (format 1): read and asked, never made any more.

    S(x) = r (1 - (1 - u) (1 - far_W)) + (1 - r) far_L,   rejected above max(t_id, r t_shift)

r: posterior of the shifted group; u: rank of three kinds of evidence among shifted wild samples; far_W, far_L: logistic
steps of the distances to wild and to labelled samples. Fit again to have the rule of `wildspec.decision.rule`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.decision.bank import ClassBank
from wildspec.decision.calibration import calibrate, samples_needed
from wildspec.decision.probe import LinearProbe
from wildspec.decision.rule import Decided
from wildspec.decision.rule_state import restore_graph, restore_index
from wildspec.decision.thresholds import Thresholds
from wildspec.errors import CheckpointError
from wildspec.graph.search import NeighborIndex, Rows, unit_rows
from wildspec.graph.wild_graph import GraphSettings, WildGraph

Vector = NDArray[np.float64]
BLOCK = 4096
CLIP = 30.0


@dataclass(frozen=True, eq=False)
class FormerThresholds(Thresholds):
    """``shifted``: t_shift; ``joint``: False where only t_id counted."""

    joint: bool = True

    def at(self, decided: Decided) -> Vector:
        if not self.joint:
            return np.full(len(decided.score), self.value)
        return np.maximum(self.value, decided.shifted * self.shifted)


@dataclass(frozen=True, eq=False)
class FormerWild:
    """What the shifted wild samples taught."""

    direction: Vector
    offset: float
    means: Vector
    deviations: Vector
    share: float
    graph: WildGraph
    bank: ClassBank
    singles: Vector
    sums: Vector
    probe: LinearProbe
    far: tuple[float, float]
    long: tuple[float, float]

    def score(self, rows: Rows) -> tuple[Vector, Vector, Vector, Rows]:
        """(n, d) -> r (n,), strangeness among shifted samples (n,), class probabilities (n, C), aligned rows (n, d)."""
        r = 1.0 / (1.0 + np.exp(-np.clip(rows @ self.direction + self.offset, -CLIP, CLIP)))
        weight = r[:, None].astype(np.float32)
        means, inverse = self.means.astype(np.float32), (1.0 / self.deviations).astype(np.float32)
        standard = (rows - means[0]) * inverse[0] * (1 - weight) + (rows - means[1]) * inverse[1] * weight
        aligned = unit_rows(standard)
        features = self.graph.denoise(aligned)
        adapted = self.probe.probabilities(features)
        nearest = (features @ self.bank.rows.T).max(axis=1)
        found = np.stack([-adapted.max(axis=1), -nearest, -self.bank.compare(features)[1]], axis=1)
        sums = sum(_rank(np.asarray(one), values) for one, values in zip(self.singles.T, found.T, strict=True))
        below, above = (np.searchsorted(self.sums, sums, side=side) for side in ("left", "right"))
        u = (below + above + 1) / (2 * len(self.sums) + 2)
        length = np.sqrt(np.einsum("ij,ij->i", standard, standard))
        inside = (1 - _step(self.far, self.graph.distances(aligned))) * (1 - _step(self.long, length))
        return r, 1 - (1 - u) * inside, adapted, aligned


@dataclass(frozen=True, eq=False)
class FormerRule:
    """Stands where a `wildspec.decision.rule.Rule` stands; ``wild`` is None where no shift was found."""

    labelled: Rows
    labels: NDArray[np.int64]
    n_classes: int
    index: NeighborIndex
    naming: LinearProbe
    far: tuple[float, float]
    wild: FormerWild | None

    @property
    def graph(self) -> WildGraph | None:
        return None if self.wild is None else self.wild.graph

    def decide(self, rows: Rows) -> Decided:
        """(n, d) prepared rows -> decisions."""
        parts = [self._decide(rows[start : start + BLOCK]) for start in range(0, len(rows), BLOCK)]
        if not parts:
            return Decided(np.empty((0, self.n_classes)), np.empty(0), np.empty(0), np.empty((0, 3)))
        return Decided(*(np.concatenate([getattr(part, name) for part in parts]) for name in Decided.__dataclass_fields__))

    def _decide(self, rows: Rows) -> Decided:
        alone, nothing = _step(self.far, self.index.search(rows, 1)[0][:, 0]), np.zeros((len(rows), 3))
        if self.wild is None:
            return Decided(self.naming.probabilities(rows), alone, np.zeros(len(rows)), nothing)
        r, strange, adapted, aligned = self.wild.score(rows)
        probabilities = r[:, None] * adapted + (1 - r)[:, None] * self.naming.probabilities(aligned)
        return Decided(probabilities, r * strange + (1 - r) * alone, r, nothing)


def restore(arrays: dict[str, np.ndarray], record: dict[str, Any]) -> tuple[FormerRule, FormerThresholds]:
    """From the state that version 0.1 wrote."""
    model = record["model"]
    seed = int(model["settings"]["seed"])
    labelled, labels, n_classes = arrays["labelled"], arrays["labels"], int(model["n_classes"])
    if len(labelled) != len(labels) or len(labels) == 0 or labels.min() < 0 or labels.max() >= n_classes:
        raise CheckpointError("the model's labelled samples and their labels do not fit together; fit it again")
    rule = FormerRule(
        labelled, labels, n_classes, restore_index(labelled, "index", model["index"], arrays, seed),
        LinearProbe(arrays["naming.weights"], arrays["naming.bias"]), tuple(model["far"]),
        _wild(model["wild"], arrays, GraphSettings.of(model["settings"]["graph"]), n_classes) if "wild" in model else None,
    )  # fmt: skip
    scores, alpha = np.sort(arrays["held_scores"]), float(record["alpha"])
    calibration = calibrate(scores, alpha) if len(scores) >= samples_needed(alpha) else None
    share = 1.0 if rule.wild is None else rule.wild.share
    unknown = float(record["unknown"]) * share
    thresholds = FormerThresholds(
        scores, calibration, alpha, float(record["shifted_threshold"]), unknown, (unknown, unknown),
        joint=record["mode"] == "joint",
    )  # fmt: skip
    return rule, thresholds


def _wild(record: dict[str, Any], arrays: dict[str, np.ndarray], settings: GraphSettings, n_classes: int) -> FormerWild:
    return FormerWild(
        arrays["shift.direction"], float(record["offset"]), arrays["shift.means"], arrays["shift.deviations"],
        float(record["share"]), restore_graph(record, arrays, settings),
        ClassBank(arrays["bank.rows"], arrays["bank.labels"], n_classes), arrays["ranks.singles"], arrays["ranks.sums"],
        LinearProbe(arrays["adapted.weights"], arrays["adapted.bias"]), tuple(record["far"]), tuple(record["long"]),
    )  # fmt: skip


def _rank(reference: Vector, values: Vector) -> Vector:
    below, above = (np.searchsorted(reference, values, side=side) for side in ("left", "right"))
    return (below + above) / (2 * len(reference))


def _step(tail: tuple[float, float], distances: Rows) -> Vector:
    place, width = tail
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip((distances.astype(np.float64) - place) / width, -500, 500))))
