"""What a run of the training loop comes to."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from wildspec.errors import WildspecError
from wildspec.models import Classifier

EXPLODED = 1e8


class DivergenceError(WildspecError, ArithmeticError):
    """The loss became NaN or exploded."""


def check_values(values: dict[str, float], step: int, stage: str, last_good: Path | None) -> None:
    """`DivergenceError` where a logged value is not finite or enormous; it names the last good checkpoint."""
    for name, value in values.items():
        if not math.isfinite(value) or abs(value) > EXPLODED:
            raise _diverged(f"{name} is {value:g} at step {step} of stage {stage!r}", last_good)


def check_weights(model: nn.Module, step: int, last_good: Path | None) -> None:
    """The same where a weight is not finite: the last update may have done it, after the loss was taken."""
    for name, value in model.named_parameters():
        if not bool(value.isfinite().all()):
            raise _diverged(f"{name} is not finite after step {step}", last_good)


def _diverged(what: str, last_good: Path | None) -> DivergenceError:
    kept = f"the last good checkpoint is {last_good}" if last_good else "no checkpoint was written yet"
    return DivergenceError(f"training diverged: {what}; {kept}; lower the learning rate or lengthen the warm-up")


@dataclass
class TrainResult:
    """The trained model (averaged weights where a stage asked for them) and what it took."""

    model: Classifier
    finished: bool
    seconds: float
    views: int
    steps: int
    history: list[dict[str, Any]] = field(default_factory=list)
    stage_steps: list[int] = field(default_factory=list)  # taken in each stage: fewer than planned where time was short
