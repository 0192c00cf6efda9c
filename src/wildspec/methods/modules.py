"""The module behind a network: its mode and batch norm's running statistics, changed for a while and put back."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from wildspec.detectors.gradients import evaluation_mode
from wildspec.methods.base import Network


def module_of(network: Network) -> nn.Module:
    """The plain module; the training loop hands methods a wrapper whose ``model`` it is."""
    found: Any = getattr(network, "model", network)
    return found  # type: ignore[no-any-return]


@contextmanager
def evaluating(network: Network) -> Iterator[nn.Module]:
    """The plain module in evaluation mode; afterwards every part of it in the mode it came in (some may be frozen)."""
    module = module_of(network)
    with evaluation_mode(module):
        yield module


@contextmanager
def frozen_statistics(module: nn.Module) -> Iterator[None]:
    """Batch norm uses the batch, as in training, but does not move its running statistics."""
    norms: list[Any] = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    try:
        for norm in norms:
            norm.momentum = 0.0
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
