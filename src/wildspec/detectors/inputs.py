"""What goes into a detector: checks that say how to get what is missing, and bounded blocks of rows."""

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from wildspec.errors import InputError
from wildspec.tensors import HOW_TO_GET, as_rows, single

BLOCK_VALUES = 1 << 23  # values of one block (32 MiB in float32): bounds the memory of every fit and score
BLOCK_IMAGES = 256  # images of one block where the network itself is run, forward and backward


class Needy(Protocol):
    """What the checks ask of a detector: its name and what it needs (`wildspec.detectors.base.Detector`)."""

    @property
    def name(self) -> str: ...

    @property
    def fit_needs(self) -> tuple[str, ...]: ...

    @property
    def score_needs(self) -> tuple[str, ...]: ...


def check_inputs(detector: Needy, verb: str, **given: Any) -> dict[str, Any]:
    """Keep what the detector needs for ``verb``; a missing, misshapen or non-finite one is an error."""
    needs = detector.score_needs if verb == "score" else detector.fit_needs
    missing = [name for name in needs if given[name] is None]
    if missing:
        raise InputError(
            f"{detector.name}.{verb} needs {', '.join(needs)}; missing: "
            + "; ".join(f"{name} = {HOW_TO_GET[name]}" for name in missing)
        )
    kept = {name: given[name] if name == "model" else as_rows(name, given[name]) for name in needs}
    lengths = {name: len(value) for name, value in kept.items() if isinstance(value, Tensor)}
    if len(set(lengths.values())) > 1:
        raise InputError(f"{detector.name}.{verb} needs one row per sample in each of its inputs, got {lengths} rows")
    if verb == "fit" and 0 in lengths.values():
        raise InputError(f"{detector.name}.fit got no samples; give it the in-distribution training samples")
    return kept


def same_width(detector: Needy, name: str, tensor: Tensor, width: int) -> None:
    """An error when samples do not have the width the detector was fitted with."""
    if tensor.shape[1] != width:
        raise InputError(
            f"{detector.name} was fitted on {name} of width {width}, got width {tensor.shape[1]}; "
            "score with the network it was fitted on"
        )


def linear_head(detector: Needy, model: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight (C, d) and bias (C,) of the model's linear head, detached copies."""
    head = getattr(model, "head", None)
    if not isinstance(head, nn.Linear):
        raise InputError(
            f"{detector.name} needs a model whose .head is an nn.Linear on its features, got "
            f"{type(head).__name__}; see wildspec.models.wrap_classifier"
        )
    weight = head.weight.detach().clone()
    weight = single(weight)
    bias = weight.new_zeros(weight.shape[0]) if head.bias is None else single(head.bias.detach().clone())
    return weight, bias


def device_of(given: dict[str, Any]) -> torch.device:
    """Where the samples are; where the model is when only that was given."""
    for value in given.values():
        if isinstance(value, Tensor):
            return value.device
        if isinstance(value, nn.Module):
            return next((parameter.device for parameter in value.parameters()), torch.device("cpu"))
    return torch.device("cpu")


def row_blocks(given: dict[str, Any], like: Tensor | None = None) -> Iterator[dict[str, Any]]:
    """The same arguments, a bounded number of rows at a time, in the precision and on the device of ``like``.

    Without ``like`` half precision becomes float32 and the rest stays as it is.
    """
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    n = next((len(value) for value in tensors.values()), 1)
    per_row = max((value.numel() // max(1, n) for value in tensors.values()), default=1)
    rows = max(1, BLOCK_VALUES // max(1, per_row))
    if "inputs" in tensors:
        rows = min(rows, BLOCK_IMAGES)
    for start in range(0, n, rows):
        yield {
            name: _as(value[start : start + rows], like) if name in tensors else value for name, value in given.items()
        }


def _as(block: Tensor, like: Tensor | None) -> Tensor:
    if like is None:
        return single(block)
    if block.ndim == 4:  # images go into the network in its own precision
        return single(block).to(like.device)
    return block.to(device=like.device, dtype=like.dtype)
