"""Batch norm folded into the convolution before it: one layer instead of two, for networks that are not trained any more.

    gamma (W * x + b - mean) / s + beta  =  (gamma / s) W * x + gamma (b - mean) / s + beta,    s = sqrt(var + eps)
"""

import copy

import torch
from torch import Tensor, nn


def fold_batch_norm(network: nn.Module) -> nn.Module:
    """A copy in evaluation mode in which every convolution that a batch norm follows in an `nn.Sequential` has taken it in.

    Layers that are called in another order elsewhere are left alone: only a Sequential says what follows what.
    """
    folded = copy.deepcopy(network).eval()
    for module in folded.modules():
        if type(module) is nn.Sequential:
            for index in range(len(module) - 1):
                first, second = module[index], module[index + 1]
                if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d) and second.running_mean is not None:
                    module[index], module[index + 1] = _folded(first, second), nn.Identity()
    return folded


def _folded(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> nn.Conv2d:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    made = copy.deepcopy(convolution)  # keeps the class: a convolution may have padding of its own
    deviation = torch.sqrt(norm.running_var + norm.eps)
    gamma, beta = _or(norm.weight, 1.0, deviation), _or(norm.bias, 0.0, deviation)
    scale = gamma / deviation
    bias = _or(convolution.bias, 0.0, deviation)
    with torch.no_grad():
        made.weight = nn.Parameter(convolution.weight * scale.view(-1, 1, 1, 1), requires_grad=False)
        made.bias = nn.Parameter(scale * (bias - norm.running_mean) + beta, requires_grad=False)
    return made


def _or(value: Tensor | None, otherwise: float, like: Tensor) -> Tensor:
    return torch.full_like(like, otherwise) if value is None else value.detach()
