"""Means over the joint batch of all processes: sums and counts are added up first, then divided.

A mean of means is right for a loss that is linear in the means; a product, square, quantile or multiplier rule of means is
not. Those take their means from here. ``reduce`` sums a flat tensor over processes and is differentiable (None = alone).
No shape depends on the data and nothing waits for the host, so a step can be captured in a CUDA graph.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Reduce = Callable[[Tensor], Tensor]


def one_hot(groups: Tensor, num_groups: int, dtype: torch.dtype) -> Tensor:
    """(n,) group numbers -> (n, G) of zeros and ones; a number outside [0, G) belongs to no group."""
    return (groups[:, None] == torch.arange(num_groups, device=groups.device)).to(dtype)


def group_means(values: Tensor, groups: Tensor, num_groups: int, reduce: Reduce | None = None) -> tuple[Tensor, Tensor]:
    """(n,) values, (n,) group numbers -> means (G,) and counts (G,) of the joint batch; the mean of an empty group is 0."""
    member = one_hot(groups, num_groups, values.dtype)
    sums = torch.cat([(member * values[:, None]).sum(0), member.sum(0)])  # no matmul: autocast would round it to bf16
    if reduce is not None:
        sums = reduce(sums)
    total, count = sums.chunk(2)
    return total / count.clamp_min(1), count


def pooled_means(*values: Tensor, reduce: Reduce | None = None) -> tuple[Tensor, ...]:
    """Mean of each (n_k,) tensor over the joint batch, all in one exchange."""
    if reduce is None:
        return tuple(value.mean() for value in values)
    sums = [value.sum() for value in values]
    counts = [value.new_tensor(float(value.numel())) for value in values]
    total, count = reduce(torch.stack([*sums, *counts])).chunk(2)
    return tuple((total / count.clamp_min(1)).unbind())


def pooled_mean(values: Tensor, reduce: Reduce | None = None) -> Tensor:
    """Mean of (n,) values over the joint batch."""
    return pooled_means(values, reduce=reduce)[0]


def masked_mean(values: Tensor, mask: Tensor, reduce: Reduce | None = None) -> Tensor:
    """Mean of the values where ``mask`` is true, 0 where it never is; with ``reduce`` over the joint batch."""
    weight = mask.to(values.dtype)
    sums = torch.stack([(values * weight).sum(), weight.sum()])
    total, count = (sums if reduce is None else reduce(sums)).unbind()
    return total / count.clamp_min(1)
