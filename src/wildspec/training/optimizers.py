"""Optimizers whose learning rate lives in a tensor on CUDA, so that a captured step follows the schedule."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from wildspec.methods.base import Stage


def build_optimizer(
    stage: Stage, parameters: list[nn.Parameter], backbone: Iterable[nn.Parameter] = ()
) -> torch.optim.Optimizer:
    """SGD with (Nesterov) momentum or Adam, as the stage says. ``backbone``: those whose rate has the stage's factor; what
    asks for no gradient is left out."""
    on_cuda = parameters[0].is_cuda
    slow = {id(parameter) for parameter in backbone} if stage.backbone_lr != 1 else set()
    fast = [parameter for parameter in parameters if id(parameter) not in slow and parameter.requires_grad]
    rest = [parameter for parameter in parameters if id(parameter) in slow and parameter.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": part, "factor": factor, "lr": torch.tensor(stage.lr * factor, device=part[0].device) if on_cuda
         else stage.lr * factor}
        for part, factor in ((fast, 1.0), (rest, stage.backbone_lr)) if part
    ]  # fmt: skip
    if stage.optimizer == "adam":
        return torch.optim.Adam(groups, stage.lr, weight_decay=stage.weight_decay, fused=on_cuda, capturable=on_cuda)
    return torch.optim.SGD(
        groups, stage.lr, momentum=stage.momentum, weight_decay=stage.weight_decay,
        nesterov=stage.nesterov and stage.momentum > 0, fused=on_cuda,
    )


@contextmanager
def partly_trained(backbone: nn.Module, stage: Stage) -> Iterator[None]:
    """What the stage does not train of the backbone asks for no gradient meanwhile; its batch norm still counts."""
    kept = set() if stage.backbone_lr == 0 else {
        id(parameter) for parameter in (backbone if stage.backbone_part == "all" else last_part(backbone)).parameters()
    }
    stopped = [each for each in backbone.parameters() if each.requires_grad and id(each) not in kept]
    for parameter in stopped:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in stopped:
            parameter.requires_grad_(True)


def last_part(backbone: nn.Module) -> nn.Module:
    """The last of its parts that has weights (``layer4`` of a ResNet); where there is one part, the last one of that."""
    parts = [part for part in backbone.children() if any(True for _ in part.parameters())]
    if len(parts) > 1:
        return parts[-1]
    return last_part(parts[0]) if parts else backbone


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate, times each group's factor, without making a captured step stale."""
    for group in optimizer.param_groups:
        own = rate * group["factor"]
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(own)
        else:
            group["lr"] = own


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
