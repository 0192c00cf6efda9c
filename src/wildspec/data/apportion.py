"""Whole numbers in given proportions."""

from collections.abc import Sequence

import numpy as np

from wildspec.checks import integer
from wildspec.errors import InputError


def apportion(shares: Sequence[float], total: int) -> tuple[int, ...]:
    """Split ``total`` into whole numbers proportional to ``shares`` (largest remainder; ties go to the earlier share).

    Every part is its exact quota rounded down or up, the parts add up to ``total``, and a share of 0 gets 0:
    (0.4, 0.5, 0.1) of 128 = (51.2, 64, 12.8) -> (51, 64, 13).
    """
    weights = np.asarray(shares, dtype=np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        listed = ", ".join(f"{value:g}" for value in weights)
        raise InputError(f"shares must be 0 or greater, finite, and not all 0, got ({listed})")
    total = integer("total", total)
    quota = weights / weights.sum() * total
    # A quota that is whole up to rounding error (0.7 * 10 = 6.999...) must not lose one.
    floor = np.floor(quota + 1e-9)
    rest = np.where(weights > 0, np.round(quota - floor, 9), -np.inf)
    missing = int(total - floor.sum())
    for index in np.argsort(-rest, kind="stable")[:missing]:
        floor[index] += 1
    return tuple(int(value) for value in floor)
