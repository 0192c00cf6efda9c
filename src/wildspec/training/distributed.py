"""Several processes, one result: sums are exchanged, and every exchange has its exact gradient.

The loop averages gradients over processes. A loss that is a mean over samples is then right by itself. A loss that depends
on sums over the joint batch (class sums and d x d moments of the spectral loss) takes those sums through `all_sum`: every
process computes the same loss L(M), M = sum_r M_r, so the gradient of L that reaches process r's samples is dL/dM dM_r; the
sum of these over processes is wanted, the average is taken, hence the factor `world` in the backward pass. Nothing is sent
there, and the bytes of the forward pass depend on classes and dimensions, never on the batch.
"""

import importlib
import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from wildspec.errors import InputError

PATIENCE = timedelta(minutes=30)  # a process may still write its last checkpoint while the others wait for it
_TRAININGS = itertools.count()  # how many groups these processes have been in


class _AllSum(torch.autograd.Function):
    """Sum over processes, for quantities from which every process computes the same loss."""

    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        out = local.clone()
        dist.all_reduce(out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * dist.get_world_size()


class _SharedSum(_AllSum):
    """Sum over processes, for quantities that each process goes on to use differently (batch statistics)."""

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        out = gradient.clone()
        dist.all_reduce(out)
        return out


def all_sum(local: Tensor) -> Tensor:
    """`reduce` of the losses: sum of a tensor over processes, differentiable (see the module's text)."""
    return _AllSum.apply(local)


def _joint_norm(norm: Any, x: Tensor) -> Tensor:
    """Batch norm with the statistics of the joint batch: over all dimensions but the second."""
    wide = x if x.dtype == torch.float64 else x.float()
    over = [0, *range(2, x.ndim)]
    count = wide.new_tensor([float(x.numel() // x.shape[1])])
    sums = _SharedSum.apply(torch.cat([wide.sum(over), (wide * wide).sum(over), count]))
    total = sums[-1]
    mean, square = (sums[:-1] / total).chunk(2)
    variance = (square - mean * mean).clamp_min(0)
    if norm.running_mean is not None and norm.running_var is not None and norm.momentum is not None:
        with torch.no_grad():
            norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), norm.momentum)
            unbiased = variance * (total / (total - 1).clamp_min(1))
            norm.running_var.lerp_(unbiased.to(norm.running_var.dtype), norm.momentum)
            if norm.num_batches_tracked is not None:
                norm.num_batches_tracked += 1
    scale = norm.weight * torch.rsqrt(variance + norm.eps)
    shift = norm.bias - mean * scale
    shape = (1, -1, *[1] * (x.ndim - 2))
    return (wide * scale.view(shape) + shift.view(shape)).to(x.dtype)


class SyncBatchNorm2d(nn.BatchNorm2d):
    """Batch norm with the statistics of the joint batch, on any backend (torch's own needs CUDA)."""

    def forward(self, x: Tensor) -> Tensor:
        return _joint_norm(self, x) if self.training else super().forward(x)


class SyncBatchNorm1d(nn.BatchNorm1d):
    """The same for features."""

    def forward(self, x: Tensor) -> Tensor:
        return _joint_norm(self, x) if self.training else super().forward(x)


def synchronize_batch_norm(model: nn.Module) -> None:
    """Turn every batch norm of the model into the joint one, in place; parameters and names stay."""
    joint: dict[type[nn.Module], type[nn.Module]] = {nn.BatchNorm2d: SyncBatchNorm2d, nn.BatchNorm1d: SyncBatchNorm1d}
    for module in model.modules():
        if type(module) in joint:
            module.__class__ = joint[type(module)]


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace each gradient by its mean over processes, in one flat exchange."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return
    flat = torch.cat([g.reshape(-1) for g in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for gradient, piece in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(piece.view_as(gradient))


def broadcast_state(module: nn.Module) -> None:
    """Start every process from process 0's weights and buffers."""
    for tensor in module.state_dict().values():
        dist.broadcast(tensor, 0)


def world() -> tuple[int, int]:
    """(rank, number of processes); (0, 1) outside a process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def told_by_the_first(value: float, device: torch.device) -> float:
    """Process 0's value, in every process: what depends on a clock must be decided once."""
    if world()[1] == 1:
        return value
    told = torch.tensor([value], dtype=torch.float64, device=device)
    dist.broadcast(told, 0)
    return float(told.item())


def first_process() -> bool:
    """True in the process that writes and talks: torchrun's rank 0, or the only one. Known before joining."""
    return int(os.environ.get("RANK", "0")) == 0


def announced() -> int:
    """How many processes torchrun started with this one; 1 without it. Known before joining."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def joined_world(device: torch.device) -> Iterator[None]:
    """Be part of the group that torchrun describes in the environment, if any.

    All leave together: a process that hangs up while another still talks makes that one abort. After an error nobody waits.

    When we leave, the group must be gone, and its threads with it: one that lives on may drop the last hold on a tensor
    while Python shuts down, which ends a process that has done its work with "terminate called without an active exception".
    Torch keeps the group in the default arguments of `torch.distributed.nn.functional` where that module is first imported
    while the group exists, and the first optimizer imports it; so it is imported before.
    """
    if dist.is_initialized() or announced() == 1:
        yield
        return
    importlib.import_module("torch.distributed.nn.functional")
    try:
        served, rank, size = next(iter(dist.rendezvous("env://")))
        # The store outlives the group: torchrun serves it for all trainings of these processes. Each has its own names in it
        # (the addresses of a group that is gone would be taken for those of the next), and the group has its own, we ours.
        store = dist.PrefixStore(f"training {next(_TRAININGS)}", served)
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo", store=dist.PrefixStore("group", store), rank=rank, world_size=size
        )
    except (RuntimeError, ValueError) as error:
        raise InputError(f"cannot join the process group that torchrun describes: {error}") from error
    try:
        yield
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        meet(store, "finished", rank, size)
    finally:
        dist.destroy_process_group()
    meet(store, "left", rank, size)


def meet(store: "dist.Store", name: str, rank: int, size: int, patience: timedelta = PATIENCE) -> None:
    """Return when all processes have called it with this name, process 0 after all others.

    They meet in the store and not in a collective operation of the group, which ends at different times in different
    processes: the first one to return would close its connections while another still reads from them. Process 0 is the last
    to go on because it may be the one that serves the store.
    """
    if store.add(f"{name}/here", 1) == size:
        store.set(f"{name}/all", "1")
    store.wait([f"{name}/all"], patience)
    if rank > 0:
        store.set(f"{name}/seen/{rank}", "1")
    elif size > 1:
        store.wait([f"{name}/seen/{other}" for other in range(1, size)], patience)
