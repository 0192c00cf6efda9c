"""A small world with known truth: classes are directions, a shift moves and stretches all, some classes are unknown."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class World:
    """Rows (n, d) of each part with their classes; unknown classes have numbers from ``known`` on."""

    labelled: np.ndarray
    labels: np.ndarray
    wild: np.ndarray
    wild_kind: np.ndarray  # 0 like the labelled, 1 shifted and known, 2 unknown
    id_test: np.ndarray
    id_labels: np.ndarray
    shifted: np.ndarray
    shifted_labels: np.ndarray
    unknown: np.ndarray


def make_world(
    seed: int = 0, *, known: int = 3, unknown: int = 2, width: int = 24, per_class: int = 60, shift: float = 1.5,
    noise: float = 0.55,
) -> World:  # fmt: skip
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(known + unknown, width))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    move = rng.normal(size=width)
    move *= shift / np.linalg.norm(move)
    stretch = np.exp(0.3 * rng.normal(size=width) * (shift > 0))

    def draw(classes: np.ndarray, moved: bool) -> np.ndarray:
        rows = centres[classes] + noise * rng.normal(size=(len(classes), width)) / np.sqrt(width) * 2
        rows = rows * stretch + move if moved else rows
        return (rows + 0.8).astype(np.float32)

    def classes(low: int, high: int, count: int) -> np.ndarray:
        return rng.permutation(np.repeat(np.arange(low, high), count))

    y_labelled, y_wild, y_id = (classes(0, known, per_class) for _ in range(3))
    y_moved, y_shifted = classes(0, known, per_class), classes(0, known, per_class)
    strange = max(per_class // 2, 1)
    y_new, y_unknown = classes(known, known + unknown, strange), classes(known, known + unknown, strange)
    wild = np.concatenate([draw(y_wild, False), draw(y_moved, True), draw(y_new, True)])
    kind = np.repeat([0, 1, 2], [len(y_wild), len(y_moved), len(y_new)])
    order = rng.permutation(len(wild))
    return World(
        draw(y_labelled, False), y_labelled, wild[order], kind[order], draw(y_id, False), y_id,
        draw(y_shifted, True), y_shifted, draw(y_unknown, True),
    )  # fmt: skip


def likely(model: Any, rows: np.ndarray) -> np.ndarray:
    """The most probable class of each row, rejected or not."""
    return model.classes_[model.predict_proba(rows).argmax(axis=1)]
