"""Empirical quantile risk minimization: minimize the alpha-quantile of the environments' risks.

The risks' distribution is smoothed with Gaussian kernels (bandwidth h = 1.06 s m^(-1/5), s the sample standard deviation of
m risks), and x solves F(x) = mean_e Phi((x - R_e) / h) = alpha. Its gradient is the implicit one,

    dx / dR_e = -(dF / dR_e) / (dF / dx),     F's dependence on h included,

got by finding x without gradients and taking one Newton step x - (F(x) - alpha) / F'(x) with the numerator differentiable:
the step leaves the value where it is and carries exactly that gradient.
"""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from wildspec.checks import open_fraction, positive
from wildspec.methods.base import Batch, Network, Stage
from wildspec.methods.environments import EnvironmentMethod
from wildspec.methods.pooled import masked_mean
from wildspec.methods.recipes import domainbed

_ROUNDS, _POINTS = 5, 64  # 64^-5 = 1e-9 of the bracket, then one Newton step


def bandwidth(risks: Tensor, present: Tensor) -> Tensor:
    """1.06 s m^(-1/5), s with divisor m - 1; a hair above 0 when all risks are equal."""
    count = present.sum()
    deviations = (risks - masked_mean(risks, present)) ** 2 * present
    variance = deviations.sum() / (count - 1).clamp_min(1)
    return 1.06 * torch.sqrt(variance + 1e-12) * count.clamp_min(1).to(risks.dtype) ** -0.2


def smoothed_quantile(risks: Tensor, alpha: float, present: Tensor | None = None) -> Tensor:
    """(E,) risks -> their alpha-quantile under the kernel density; differentiable. Only environments ``present`` count."""
    given = risks
    risks = risks.double()
    if present is None:
        present = torch.ones_like(risks, dtype=torch.bool)
    h = bandwidth(risks, present)
    normal_quantile = math.sqrt(2) * float(torch.erfinv(torch.tensor(2 * alpha - 1, dtype=torch.float64)))
    with torch.no_grad():  # all kernels are equally wide: the quantile lies between those of the two outermost kernels
        infinity = torch.full_like(risks, math.inf)
        low = torch.where(present, risks, infinity).amin() + h * normal_quantile
        high = torch.where(present, risks, -infinity).amax() + h * normal_quantile
        grid = torch.arange(_POINTS + 1, device=risks.device, dtype=risks.dtype) / _POINTS
        for _ in range(_ROUNDS):
            points = low + (high - low) * grid
            below = (_cdf(points, risks, h, present) < alpha).sum() - 1
            step = (high - low) / _POINTS
            low = low + step * below.clamp(0, _POINTS - 1)
            high = low + step
        x = 0.5 * (low + high)
        kernels = torch.exp(-0.5 * ((x - risks) / h) ** 2) / (h * math.sqrt(2 * math.pi))
        density = masked_mean(kernels, present)
    return (x - (_cdf(x[None], risks, h, present)[0] - alpha) / density).to(given.dtype)


def _cdf(x: Tensor, risks: Tensor, h: Tensor, present: Tensor) -> Tensor:
    """(K,) points -> (K,) kernel distribution function."""
    kernels = torch.special.ndtr((x[:, None] - risks) / h) * present
    return kernels.sum(1) / present.sum().clamp_min(1)


class EQRM(EnvironmentMethod):
    """Stage ``burnin`` minimizes the mean risk, ``quantile`` the quantile, with a fresh optimizer at a rate of its own."""

    name = "eqrm"
    summary = "minimize a high quantile of the environments' risks"
    paper = "Eastwood et al., 2022 (NeurIPS)"
    published: ClassVar[dict[str, Any]] = {"quantile_lr": 0.05}  # 1e-6 is Adam's; here SGD, a second cosine from half

    def __init__(
        self, num_classes: int, quantile: float = 0.75, quantile_lr: float = 1e-6, num_environments: int = 4
    ) -> None:
        super().__init__(num_classes, num_environments)
        self.quantile = open_fraction("quantile", quantile)
        self.quantile_lr = positive("quantile_lr", quantile_lr)

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        """Half of the steps each, as 2,500 of 5,000 in DomainBed."""
        whole = domainbed(preset, "burnin")
        half = whole.scaled(epochs=whole.epochs / 2)
        return half, half.scaled(name="quantile", lr=self.quantile_lr)

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        risks, present = self.risks(model(batch.labelled_images), batch)
        mean = masked_mean(risks, present)
        if stage.name == "burnin":
            return mean, {}
        return smoothed_quantile(risks, self.quantile, present), {"risk": mean.detach()}
