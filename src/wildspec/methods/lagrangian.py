"""The augmented Lagrangian of a problem with inequality constraints: min f subject to g_i <= 0.

Between dual updates one minimizes f + sum_i psi(g_i, l_i, b_i); then, with G_i the constraint over the whole set,

    psi(g, l, b) = l g + b g^2 / 2     where b g + l >= 0,      else -l^2 / (2 b)
    l_i <- l_i + rate G_i              where b_i G_i + l_i >= 0, else l_i - rate l_i / b_i
    b_i <- growth b_i                  where G_i > tolerance

psi is the pointwise maximum over multipliers of a proximal term, so it is continuously differentiable and its gradient in g
is max(0, b g + l): the multiplier the constraint would have now.
"""

import torch
from torch import Tensor, nn

from wildspec.checks import integer, number, positive
from wildspec.errors import InputError


def penalty(g: Tensor, multiplier: Tensor, weight: Tensor) -> Tensor:
    """psi, elementwise."""
    active = weight * g + multiplier >= 0
    return torch.where(active, multiplier * g + 0.5 * weight * g**2, -(multiplier**2) / (2 * weight))


class Multipliers(nn.Module):
    """Multipliers l (start 0) and penalty weights b (start 1) of several constraints, as buffers.

    ``shared``: one multiplier under all names, so that each constraint's update moves it in turn (the published code of
    WOODS, where two names point to one tensor).
    """

    multipliers: Tensor
    weights: Tensor

    def __init__(
        self, constraints: int, rate: float = 1.0, growth: float = 1.5, tolerance: float = 0.0, shared: bool = False
    ) -> None:
        super().__init__()
        self.rate = positive("dual_lr", rate)
        self.growth = positive("penalty_growth", growth)
        if self.growth < 1:
            raise InputError(f"penalty_growth must be 1 or greater, got {self.growth:g}")
        self.tolerance = number("tolerance", tolerance)
        self.shared = bool(shared)
        self.register_buffer("multipliers", torch.zeros(integer("constraints", constraints, 1)))
        self.register_buffer("weights", torch.ones(constraints))

    def forward(self, g: Tensor) -> Tensor:
        """(k,) constraint values of a batch -> scalar sum of psi."""
        return penalty(g, self.multipliers, self.weights).sum()

    @torch.no_grad()
    def update(self, g: Tensor) -> None:
        """Dual step with (k,) constraint values of the whole set."""
        g = g.to(self.multipliers)
        if self.shared:
            current = self.multipliers[0].clone()
            for value, weight in zip(g, self.weights, strict=True):
                current = self._moved(current, value, weight)
            self.multipliers.copy_(current.expand_as(self.multipliers))
        else:
            self.multipliers.copy_(self._moved(self.multipliers, g, self.weights))
        self.weights.copy_(torch.where(g > self.tolerance, self.growth * self.weights, self.weights))

    def _moved(self, multiplier: Tensor, g: Tensor, weight: Tensor) -> Tensor:
        active = weight * g + multiplier >= 0
        return torch.where(active, multiplier + self.rate * g, multiplier - self.rate * multiplier / weight)


