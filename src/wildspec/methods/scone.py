"""SCONE: WOODS with a margin, so that shifted samples of known classes are not pushed out together with unknown ones.

    B = mean_wild sigmoid(-(w (lse(z) - margin) + b)),    margin = -10

everything else, the term of the labelled samples included, is WOODS. w turns negative, so a negative margin moves the wild
samples' h down by |w margin|: they must lie that much further below the labelled ones in lse to count as called out.
"""

from typing import ClassVar

from wildspec.checks import number
from wildspec.methods.woods import CE_FACTOR, FALSE_ALARMS, WOODS


class SCONE(WOODS):
    """One more hyper-parameter and a lower rate."""

    name = "scone"
    summary = "WOODS with an energy margin that leaves room for shifted samples of known classes"
    paper = "Bai et al., 2023 (ICML)"
    wild_lr: ClassVar[dict[str, float]] = {"paper": 1e-4, "fast": 1e-4}

    def __init__(
        self,
        num_classes: int,
        margin: float = -10.0,
        false_alarms: float = FALSE_ALARMS,
        ce_factor: float = CE_FACTOR,
        out_weight: float = 1.0,
        dual_lr: float = 1.0,
        penalty_growth: float = 1.5,
        tolerance: float = 0.05,
        shared_multiplier: bool = False,
        logistic_init: str = "standardized",
    ) -> None:
        super().__init__(
            num_classes, false_alarms, ce_factor, out_weight, dual_lr, penalty_growth, tolerance, shared_multiplier,
            logistic_init,
        )
        self.margin = number("margin", margin)
