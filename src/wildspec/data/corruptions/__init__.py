"""Covariate shift on purpose: the seven corruptions of the paper (appendix, CIFAR-10-C), severities 1 to 5."""

from wildspec.data.corruptions.apply import CORRUPTIONS, corrupt

__all__ = ["CORRUPTIONS", "corrupt"]
