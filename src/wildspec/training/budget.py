"""A time to keep: a stage that is late is shortened, its schedule to the end included.

A stage of S steps is planned to take P seconds and must be over after A >= P of them. After s steps and t seconds,

    progress = max(s / S,  1 - (A - t) / min(P, A)):

the schedule has run to s / S, or to where the part of it that is left can still be done in the seconds that are left,
whichever is farther. While a run is on time the first counts: it is bit for bit the run without a limit, as its lead
A - P is spent before the second does. A late one moves on with the clock: rates fall and methods change over as they
would have, and progress is 1 when the time is over.

A is divided anew at the start of every stage: of the seconds that are left, the stage's part of what is planned from there
on. A stage that was late so leaves the later ones their part.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from wildspec.checks import positive
from wildspec.errors import InputError
from wildspec.training.distributed import told_by_the_first


@dataclass(frozen=True)
class Budget:
    """``seconds``: when the last stage must be over, counted from the start of the run (over all its pieces, where it is
    resumed). ``planned``: seconds that the steps of each stage are expected to take."""

    seconds: float
    planned: tuple[float, ...]

    def __post_init__(self) -> None:
        positive("seconds", self.seconds)
        for value in self.planned:
            positive("planned", value)

    def check(self, stages: Sequence[object]) -> None:
        """A budget is for the stages it was made for."""
        if len(self.planned) != len(stages):
            raise InputError(f"the budget plans {len(self.planned)} stages, the recipe has {len(stages)}")

    def allowed(self, stage: int, began: float) -> float:
        """A: seconds for a stage that began ``began`` seconds after the start of the run; 0 where all are spent."""
        return max(0.0, self.seconds - began) * self.planned[stage] / sum(self.planned[stage:])


def by_time(seconds: float, allowed: float, planned: float) -> float:
    """The second term of the formula above: at most 1, 0 or less while the stage has its lead."""
    left = allowed - seconds
    return 1 - left / min(planned, allowed) if left > 0 else 1.0


def shortest(*seconds: float | None) -> float | None:
    """The least of those that are known, 0 where it is over already; None where none is."""
    return min((max(0.0, one) for one in seconds if one is not None), default=None)


class Pace:
    """Where a stage of ``total`` steps is: ``at``, from 0 to total; the number of steps taken while it is on time.

    ``seconds``: the clock of the run, on which the stage began at ``began``. Several processes must agree on the place: the
    clock of the first counts, and is told to the others on ``device``. ``seen``: steps of the schedule behind it.
    """

    def __init__(
        self, total: int, budget: Budget | None, stage: int, began: float, seconds: Callable[[], float],
        device: torch.device, *, seen: int = 0,
    ) -> None:  # fmt: skip
        self.total, self._seconds, self._began = total, seconds, began
        self._limits = None if budget is None else (budget.allowed(stage, began), budget.planned[stage])
        self._device, self.seen = device, seen
        self.at: float = 0

    def move(self, step: int) -> None:
        """``step`` steps have been taken."""
        self.at = max(step, self._late() * self.total)

    def passed(self) -> range:
        """Steps of the schedule that were reached since the last call, each of them once: none is left out by a stage in
        a hurry, which a method that changes over at a certain step relies on."""
        first, self.seen = self.seen, max(self.seen, min(self.total, int(self.at) + 1))
        return range(first, self.seen)

    @property
    def over(self) -> bool:
        return self.at >= self.total

    def left(self) -> float | None:
        """Seconds until the stage must be over, by this process's clock; None without a budget."""
        return None if self._limits is None else self._limits[0] - (self._seconds() - self._began)

    def _late(self) -> float:
        if self._limits is None:
            return 0.0
        return told_by_the_first(by_time(self._seconds() - self._began, *self._limits), self._device)
