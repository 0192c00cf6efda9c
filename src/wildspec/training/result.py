"""What a run of the training loop comes to."""

from dataclasses import dataclass, field
from typing import Any

from wildspec.errors import WildspecError
from wildspec.models import Classifier


class DivergenceError(WildspecError, ArithmeticError):
    """The loss became NaN or exploded."""


@dataclass
class TrainResult:
    """The trained model (averaged weights where a stage asked for them) and what it took."""

    model: Classifier
    finished: bool
    seconds: float
    views: int
    steps: int
    history: list[dict[str, Any]] = field(default_factory=list)
    best: float | None = None  # best validation accuracy seen
    stage_steps: list[int] = field(default_factory=list)  # taken in each stage: fewer than planned where time was short
