"""How to fit an image model."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Options:
    """How to fit; the constructor arguments of `WildClassifier`, checked there. ``groups``: of `WildClassifier.fit`."""

    backbone: Any
    method: str
    hparams: dict[str, Any]
    preset: str
    epochs: float | None
    minutes: float | None
    detector: Any
    alpha: float
    size: int | None
    held_out: float
    init: Any
    flip: bool
    pictures: bool
    cache: Any
    max_unreadable: float
    device: str
    seed: int
    progress: bool
    train: str = "auto"
    per_class: bool = False
    groups: Any = None
