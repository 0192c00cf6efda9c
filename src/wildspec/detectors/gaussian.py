"""Gaussian statistics of features in one pass: class means, the tied covariance, and a whitening that always exists.

Memory is O(C d + d^2) in float64 whatever the number of samples: 1,000 classes of 2,048 features are 16 + 34 MB.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from wildspec.checks import fraction
from wildspec.errors import InputError

AUTO = "auto"
OAS = "oas"


class ClassSums:
    """Running counts, sums and second moment of labelled features, taken about the mean of the first labelled ones:
    ``features`` (n, d) say how wide and in what precision they come."""

    def __init__(self, features: Tensor) -> None:
        self.width = features.shape[1]
        self.dtype = features.dtype
        self.origin: Tensor | None = None  # (d,)
        self.counts = features.new_zeros(0, dtype=torch.float64)  # (C,)
        self.sums = self.counts.new_zeros(0, self.width)  # (C, d)
        self.moment = self.counts.new_zeros(self.width, self.width)  # (d, d)

    def add(self, features: Tensor, labels: Tensor) -> None:
        """A block of samples; those with label -1 are left out."""
        known = labels >= 0
        rows, where = features[known].double(), labels[known]
        if not len(rows):
            return
        if self.origin is None:  # a moment about a far-away origin would cancel digits later
            self.origin = rows.mean(dim=0)
        rows = rows - self.origin
        missing = int(where.max()) + 1 - len(self.counts)
        if missing > 0:
            self.counts = torch.cat([self.counts, self.counts.new_zeros(missing)])
            self.sums = torch.cat([self.sums, self.sums.new_zeros(missing, self.sums.shape[1])])
        self.counts.index_add_(0, where, rows.new_ones(len(rows)))
        self.sums.index_add_(0, where, rows)
        self.moment.addmm_(rows.T, rows)

    def statistics(self) -> "GaussianFit":
        """Means and both covariances (maximum likelihood, 1/N)."""
        seen = self.counts > 0
        counts, sums = self.counts[seen], self.sums[seen]
        if self.origin is None:
            raise InputError("no labelled sample to learn classes from; give labels of 0 or more")
        total = counts.sum()
        means = sums / counts.unsqueeze(1)
        overall = sums.sum(dim=0) / total
        return GaussianFit(
            overall=overall + self.origin,
            means=means + self.origin,
            within=(self.moment - means.T @ sums) / total,
            whole=self.moment / total - torch.outer(overall, overall),
            count=int(total),
            scale=float(self.moment.diagonal().max() / total),
        )


@dataclass(frozen=True)
class GaussianFit:
    """``overall`` (d,), ``means`` (C, d), ``within`` and ``whole`` covariance (d, d), float64; ``scale``: rounding unit."""

    overall: Tensor
    means: Tensor
    within: Tensor
    whole: Tensor
    count: int
    scale: float


def whitening(covariance: Tensor, count: int, shrinkage: float | str = AUTO, scale: float = 0.0) -> Tensor:
    """(d, d) covariance of ``count`` samples -> (d, r) matrix V with V V^T = its (shrunk or pseudo-) inverse.

    ``shrinkage``: rho in (1 - rho) Sigma + rho tr(Sigma)/d I; 0 is the plain pseudo-inverse; "oas" the oracle-approximating
    value; "auto" 0 where Sigma has full rank and "oas" where not: there the pseudo-inverse is blind to every direction the
    training samples do not have, and those are where unknown samples go.
    ``scale``: size of the moments Sigma was computed from, which sets what counts as zero.
    """
    values, vectors = torch.linalg.eigh(covariance)
    width = len(values)
    zero = 10 * width * torch.finfo(values.dtype).eps * max(float(values[-1]), scale)
    if float(values[-1]) <= zero:
        raise InputError(
            "the features do not vary within their classes, so there is no covariance to measure by; "
            "give at least two different samples of some class"
        )
    values = values.clamp(min=0)
    full = float(values[0]) > zero and count > width
    if shrinkage == AUTO:
        shrinkage = 0.0 if full else OAS
    rho = oas_shrinkage(values, count) if shrinkage == OAS else float(shrinkage)
    shrunk = (1 - rho) * values + rho * values.mean()
    kept = shrunk > zero
    return vectors[:, kept] / shrunk[kept].sqrt()


def oas_shrinkage(values: Tensor, count: int) -> float:
    """Oracle-approximating shrinkage from the eigenvalues of a covariance (Chen et al., 2010, eq. 23), in (0, 1].

    In the form scikit-learn uses: rho = (a + m^2) / ((n + 1)(a - m^2 / d)), a = sum(l^2) / d^2, m = mean(l).
    """
    width = len(values)
    squares, mean = float((values**2).sum()) / width**2, float(values.mean())
    denominator = (count + 1) * (squares - mean**2 / width)
    return 1.0 if denominator <= 0 else min(1.0, (squares + mean**2) / denominator)


def smallest_distance(white: Tensor, white_means: Tensor) -> Tensor:
    """(n, r) whitened samples, (C, r) whitened means -> (n,) smallest squared distance."""
    # |b|^2 - 2 a.b: (n, C) numbers, never (n, C, r). It says which mean is nearest; as a distance it would cancel where
    # classes lie far apart, so that is taken from the difference.
    nearest = ((white_means**2).sum(dim=1) - 2 * (white @ white_means.T)).argmin(dim=1)
    return ((white - white_means[nearest]) ** 2).sum(dim=1)


def check_shrinkage(value: float | str) -> float | str:
    """ "auto", "oas" or a number in [0, 1]."""
    if isinstance(value, str):
        if value not in (AUTO, OAS):
            raise InputError(f"shrinkage must be {AUTO}, {OAS} or a number in [0, 1], got {value!r}")
        return value
    return fraction("shrinkage", value)
