"""Where and how precisely to compute: device, precision, determinism."""

import os
import warnings

import torch

from wildspec.checks import choice
from wildspec.errors import InputError

PRECISIONS = ("auto", "fp32", "bf16", "fp64")


def resolve_device(name: str | torch.device = "auto") -> torch.device:
    """"auto" takes CUDA where there is one. A device that does not exist is an error that lists those that do."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and "LOCAL_RANK" in os.environ:  # one GPU per process under torchrun
        name = f"cuda:{int(os.environ['LOCAL_RANK'])}"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device {name!r} is not one torch knows; use auto, cpu, cuda or cuda:N") from error
    if device.type == "cuda":
        count = torch.cuda.device_count()
        if (device.index or 0) >= count:
            have = ", ".join(["cpu", *(f"cuda:{i}" for i in range(count))])
            raise InputError(f"device {str(name)!r} does not exist on this machine; available: {have}")
    elif device.type != "cpu":
        raise InputError(f"device {str(name)!r} is not supported; use auto, cpu, cuda or cuda:N")
    return device


def go_on_drawing(generator: torch.Generator, state: torch.Tensor, seed: int) -> None:
    """Put a saved state back, or start anew from ``seed`` where it is of another kind of device: a GPU's numbers and a CPU's
    have nothing in common."""
    if state.numel() == generator.get_state().numel():
        generator.set_state(state)
        return
    generator.manual_seed(seed)
    warnings.warn("the run was begun on another kind of device; from here on its views are drawn anew", stacklevel=2)


def resolve_precision(name: str, device: torch.device) -> str:
    """"auto": bf16 autocast on CUDA, plain float32 on the CPU."""
    choice("precision", name, PRECISIONS)
    if name == "auto":
        return "bf16" if device.type == "cuda" else "fp32"
    return name


def parameter_dtype(precision: str) -> torch.dtype:
    """Dtype the weights are kept in; bf16 is an autocast over float32 weights."""
    return torch.float64 if precision == "fp64" else torch.float32
