"""Scores from outside: numbers, one per sample, high = OOD, in whatever array they come."""

from typing import Any

import numpy as np
import numpy.typing as npt

from wildspec.errors import InputError, InputTypeError

Array = npt.NDArray[np.float64]


def as_scores(name: str, scores: Any, *, minimum: int = 1) -> Array:
    """Torch tensor, array or list -> (n,) float64 without NaN."""
    if hasattr(scores, "detach"):
        scores = scores.detach().cpu()
        scores = (scores.double() if scores.is_floating_point() else scores).numpy()
    try:
        array = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"{name} must be numbers, one per sample, got {type(scores).__name__}") from error
    if array.ndim != 1:
        raise InputError(f"{name} must have shape (n,), got {array.shape}")
    if len(array) < minimum:
        raise InputError(f"{name} must hold at least {minimum} sample{'s' * (minimum > 1)}, got {len(array)}")
    if np.isnan(array).any():
        raise InputError(f"{name} hold {int(np.isnan(array).sum())} NaN among {len(array)}; check the detector's input")
    return array
