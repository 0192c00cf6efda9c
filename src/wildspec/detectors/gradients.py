"""A small step of the input that makes the network surer: shared by ODIN and Mahalanobis."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from wildspec.checks import positive
from wildspec.errors import InputError


def step_downhill(
    loss: Callable[[Tensor], Tensor], inputs: Tensor, epsilon: float, std: tuple[float, ...] | None
) -> Tensor:
    """x - epsilon sign(grad_x sum loss(x)) / std, with sign(0) = +1; ``loss``: (n, 3, H, W) -> (n,) or a scalar.

    ``std``: what each channel was divided by, so that epsilon is a step in pixels of [0, 1]; None: in the input's units.
    """
    with torch.inference_mode(False), torch.enable_grad():
        x = inputs.detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(x).sum(), x)  # to the input only; weights collect nothing
    sign = torch.where(gradient >= 0, 1.0, -1.0)
    scale = 1.0 if std is None else inputs.new_tensor(std).view(1, -1, 1, 1)
    return inputs - epsilon * sign / scale


def check_std(std: tuple[float, ...] | None) -> tuple[float, ...] | None:
    """Three positive numbers or None."""
    if std is None:
        return None
    values = tuple(positive("std", value) for value in std)
    if len(values) != 3:
        raise InputError(f"std must hold one number for each of 3 channels, got {len(values)}; use preprocess.std")
    return values


def network_features(model: nn.Module, inputs: Tensor) -> Tensor:
    """(n, d) features, in single precision; the network runs in its own."""
    return model.features(inputs.to(precision_of(model))).float()  # type: ignore[operator]


def precision_of(model: nn.Module) -> torch.dtype:
    """That of its weights: training with fp64 leaves a network in double precision."""
    return next((parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()), torch.float32)


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """``model.eval()`` for a while; every module gets its own mode back (some may have been frozen)."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
