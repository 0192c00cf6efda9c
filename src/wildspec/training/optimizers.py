"""Optimizers whose learning rate lives in a tensor on CUDA, so that a captured step follows the schedule."""

import torch
from torch import Tensor, nn

from wildspec.methods.base import Stage


def build_optimizer(stage: Stage, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """SGD with (Nesterov) momentum or Adam, as the stage says."""
    on_cuda = parameters[0].is_cuda
    lr: float | Tensor = torch.tensor(stage.lr, device=parameters[0].device) if on_cuda else stage.lr
    if stage.optimizer == "adam":
        return torch.optim.Adam(parameters, lr, weight_decay=stage.weight_decay, fused=on_cuda, capturable=on_cuda)
    return torch.optim.SGD(
        parameters, lr, momentum=stage.momentum, weight_decay=stage.weight_decay,
        nesterov=stage.nesterov and stage.momentum > 0, fused=on_cuda,
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate without making a captured step stale."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def forget(optimizer: torch.optim.Optimizer) -> None:
    """Back to the state of a new optimizer, in place: a captured step goes on using the same memory."""
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state as named tensors: ``<parameter number>.<name>``."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return {
        f"{number}.{name}": value
        for number, parameter in enumerate(parameters)
        for name, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put named tensors back; what is absent starts fresh."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for key, value in tensors.items():
        number, name = key.split(".", 1)
        parameter = parameters[int(number)]
        if value.shape == parameter.shape:  # same strides as the parameter: fused optimizers insist on it
            optimizer.state[parameter][name] = torch.empty_like(parameter).copy_(value).detach()
        else:
            optimizer.state[parameter][name] = value.to(parameter.device if parameter.is_cuda else "cpu").clone()
