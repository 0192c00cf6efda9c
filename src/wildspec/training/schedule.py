"""Learning rate as a pure function of the place in the stage, so resuming needs no schedule state."""

import math

from wildspec.methods.base import Stage

STEP_AT = (0.5, 0.75, 0.9)  # of the stage, the published recipe
STEP_FACTOR = 0.5


def learning_rate(stage: Stage, step: float, total: int, steps_per_epoch: int) -> float:
    """Rate at ``step`` = 0 .. total - 1: linear warm-up from lr / warm-up steps, then the stage's schedule.

    A stage that is short of time passes over steps (`wildspec.training.budget`) and may be anywhere between two.
    """
    warm = round(stage.warmup * steps_per_epoch)
    if step < warm:
        return stage.lr * min(1.0, (step + 1) / warm)
    if stage.schedule == "constant":
        return stage.lr
    if stage.schedule == "inverse":
        first, last = stage.decay
        return stage.lr * inverse_decay(first + (last - first) * step / max(1, total))
    if stage.schedule == "step":
        return stage.lr * STEP_FACTOR ** sum(step >= share * total for share in STEP_AT)
    progress = (step - warm) / max(1, total - warm)
    return stage.lr * 0.5 * (1 + math.cos(math.pi * progress))


def inverse_decay(progress: float) -> float:
    """(1 + 10 p)^-3/4, the factor of domain adaptation's usual schedule at the share p of its length; 0.17 at the end."""
    return float((1 + 10 * min(1.0, progress)) ** -0.75)
