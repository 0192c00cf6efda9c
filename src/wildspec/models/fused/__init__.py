"""Pre-activation blocks of one width, trained with batch norm inside the convolutions: fewer passes over the maps.

    if can_fuse(blocks, x): x = fused(blocks, x)

gives what ``for block in blocks: x = block(x)`` gives in training, up to the rounding of bf16, with its gradients, and
updates the running statistics. The first block may change the shape; its first convolution is left as it is. A custom
operation of torch: it can be compiled around and captured in a CUDA graph.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from wildspec.models.fused import chain
from wildspec.models.fused.compiler import KernelError
from wildspec.models.fused.plain import Plain

__all__ = ["KernelError", "able", "can_fuse", "fused"]


def able(device: torch.device) -> bool:
    """Whether this device runs the kernels: bf16 products, shared memory for two images, a compiler beside torch."""
    from wildspec.models.fused import launch

    if device.type != "cuda" or torch.cuda.get_device_capability(device) < (8, 0):
        return False
    index = device.index if device.index is not None else torch.cuda.current_device()
    shared = getattr(torch.cuda.get_device_properties(index), "shared_memory_per_block_optin", 0)
    if shared < max(map(launch.shared_bytes, launch.SHAPES)):
        return False
    try:
        return all(launch.kernels(index, channels) for channels in launch.SHAPES)
    except KernelError:
        return False


def can_fuse(blocks: Sequence[Any], x: Tensor) -> bool:
    """Whether a run of blocks has a form that the kernels know: their output (n, C, S, S) in bf16, no dropout, and no change
    of shape but in the first."""
    from wildspec.models.fused.launch import SHAPES

    whole = all(block.dropout == 0 for block in blocks) and all(block.shortcut is None for block in blocks[1:])
    first = blocks[0].conv1
    side = SHAPES.get(first.out_channels, 0) * first.stride[0]
    return len(blocks) > 1 and whole and x.dtype == torch.bfloat16 and x.shape[2] == x.shape[3] == side


def fused(blocks: Sequence[Any], x: Tensor) -> Tensor:
    """The blocks' output (n, C, S, S) in training."""
    norms = [norm for block in blocks for norm in (block.bn1, block.bn2)][1:]
    weight = torch.stack([conv.weight for block in blocks for conv in (block.conv1, block.conv2)][1:])
    gamma, beta = torch.stack([norm.weight for norm in norms]), torch.stack([norm.bias for norm in norms])
    around, x = blocks[0].begin(x)
    out, _, coefficients, variances = _blocks(x, around, gamma, beta, weight, norms[0].eps)
    with torch.no_grad():
        count = x.numel() // x.shape[1]
        unbiased = variances * (count / (count - 1))
        momentum = norms[0].momentum
        torch._foreach_lerp_([norm.running_mean for norm in norms], list(coefficients[:, 0].unbind()), momentum)
        torch._foreach_lerp_([norm.running_var for norm in norms], list(unbiased.unbind()), momentum)
        torch._foreach_add_([norm.num_batches_tracked for norm in norms], 1)
    return out


def _kernels(x: Tensor) -> chain.Kernels:
    if x.device.type != "cuda":
        return Plain()
    from wildspec.models.fused.launch import kernels

    return kernels(x.device.index, x.shape[1])


def _maps(x: Tensor) -> Tensor:
    """(n, C, S, S) -> (n, S, S, C), contiguous."""
    return x.permute(0, 2, 3, 1).contiguous()


@torch.library.custom_op("wildspec::fused_blocks", mutates_args=())
def _blocks(
    x: Tensor, around: Tensor, gamma: Tensor, beta: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    found = chain.forward(_kernels(x), _maps(x), _maps(around), gamma, beta, weight.contiguous(), eps)
    return found[0].permute(0, 3, 1, 2), *found[1:]


@_blocks.register_fake
def _(
    x: Tensor, around: Tensor, gamma: Tensor, beta: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    maps = x.new_empty(len(weight) - 1, *_like(x).permute(0, 2, 3, 1).shape)
    return _like(x), maps, gamma.new_empty(len(weight), 4, x.shape[1]), torch.empty_like(gamma)


@torch.library.custom_op("wildspec::fused_blocks_backward", mutates_args=())
def _backward(
    g: Tensor, x: Tensor, maps: Tensor, norms: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    found = chain.backward(_kernels(x), _maps(g), _maps(x), maps, norms, weight.contiguous())
    return found[0].permute(0, 3, 1, 2), found[1].permute(0, 3, 1, 2), *found[2:]


@_backward.register_fake
def _(
    g: Tensor, x: Tensor, maps: Tensor, norms: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    by_channel = torch.empty_like(norms[:, 0])
    return _like(x), _like(x), by_channel, torch.empty_like(by_channel), weight.new_empty(weight.shape)


def _like(x: Tensor) -> Tensor:
    """(n, C, S, S) of the same shape, channels the fastest."""
    n, channels, height, width = x.shape
    return x.new_empty(n, height, width, channels).permute(0, 3, 1, 2)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, _, _, _, weight, _ = inputs
    _, maps, norms, variances = output
    ctx.mark_non_differentiable(maps, norms, variances)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, maps, norms, weight)


def _gradients(ctx: Any, g: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if g is None:
        return None, None, None, None, None, None
    return (*_backward(g, *ctx.saved_tensors), None)


_blocks.register_autograd(_gradients, setup_context=_remember)
