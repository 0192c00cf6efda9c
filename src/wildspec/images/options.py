"""How to fit an image model."""

from dataclasses import dataclass
from typing import Any

from wildspec.checks import choice, integer, open_fraction, positive
from wildspec.errors import InputError
from wildspec.methods import METHODS
from wildspec.methods.recipes import PRESETS

WAYS = ("auto", "frozen", "end-to-end")


@dataclass(frozen=True)
class Options:
    """The constructor arguments of `wildspec.WildClassifier`, checked. ``groups``: of its ``fit``."""

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
    verbose: bool
    train: str
    per_class: bool
    groups: Any = None

    def __post_init__(self) -> None:
        if self.epochs is not None and self.minutes is not None:
            raise InputError("give epochs or minutes, not both: minutes chooses the epochs")
        for name, allowed in (("method", ("auto", *METHODS)), ("preset", PRESETS), ("train", WAYS)):
            choice(name, getattr(self, name), allowed)
        for name in ("epochs", "minutes"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        for name in ("alpha", "held_out"):
            open_fraction(name, getattr(self, name))
        if self.size is not None:
            integer("size", self.size, 8, 1024)
        integer("seed", self.seed)
