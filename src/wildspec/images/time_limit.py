"""A fit of a frozen network that was given minutes: it is done in time, or says early that it cannot be.

After n of N images in t seconds the rest takes t (N - n) / n. Where that ends after the limit, less what the decision and
the writing of the bundle need, the fit stops with the minutes it would take. Features that were computed are kept. Which of
the rest are kept from an earlier fit is not known before their turn: they count like new ones.
"""

import math
import time
from collections.abc import Callable

from wildspec.errors import InputError
from wildspec.training.suit import KEEP_BACK

LOOK_AFTER = 5.0  # seconds: the first images are slow, kept features take no time


def features_in_time(minutes: float | None, began: float, total: int, size: int) -> Callable[[int], None]:
    """A function that is told of images as they are done, ``total`` in all, at ``size`` px, and raises `InputError` as soon
    as the rest cannot be done within ``minutes`` of ``began`` (`time.monotonic`); None: no limit."""
    if minutes is None:
        return lambda more: None
    first, done = time.monotonic(), 0

    def advance(more: int) -> None:
        nonlocal done
        done += more
        now = time.monotonic()
        if now - first < LOOK_AFTER or not done:
            return
        end = now + (now - first) / done * (total - done)
        if end > began + 60 * minutes * (1 - KEEP_BACK):
            enough = math.ceil((end - began) / 60 / (1 - KEEP_BACK))
            raise InputError(
                f"features of {total:,} images at {size} px are not done in {minutes:g} min on this machine; allow "
                f"--minutes {enough}, or take a smaller --size or fewer wild images"
            )

    return advance
