"""Arrays of samples from outside: tensors of the right rank and kind, with errors that say how to get what is missing."""

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wildspec.errors import InputError, InputTypeError, one_line

MOST_CLASSES = 1_000_000

HOW_TO_GET = {
    "features": "penultimate features (n, d), e.g. wildspec.evaluation.collect(model, images, preprocess).features",
    "logits": "class logits (n, C), e.g. wildspec.evaluation.collect(model, images, preprocess).logits",
    "labels": "the class of each training sample, (n,) whole numbers, -1 = unlabelled",
    "model": "the trained network: a module with .features(x) and a linear .head (see wildspec.models)",
    "inputs": "the normalized images (n, 3, H, W) themselves, preprocess(images): it takes a gradient to them",
}
_NDIM = {"features": (2, "(n, d)"), "logits": (2, "(n, C)"), "labels": (1, "(n,)"), "inputs": (4, "(n, 3, H, W)")}


def as_rows(name: str, value: Any) -> Tensor:
    """A tensor of the right rank and kind, every value finite."""
    tensor = _tensor(name, value).detach()
    ndim, shape = _NDIM[name]
    if tensor.ndim != ndim:
        raise InputError(f"{name} must have shape {shape}, got {tuple(tensor.shape)}")
    if name == "labels":
        if tensor.is_floating_point():
            raise InputTypeError(f"labels must be whole numbers, got {tensor.dtype}; convert them with .long()")
        tensor = tensor.long()
        if tensor.numel() and int(tensor.max()) >= MOST_CLASSES:  # memory is taken for each number up to the largest
            raise InputError(
                f"labels must be class numbers from 0, got {int(tensor.max())}; "
                "numpy.unique(labels, return_inverse=True)[1] numbers them"
            )
        return tensor
    if not tensor.is_floating_point():
        raise InputTypeError(f"{name} must be floating point, got {tensor.dtype}; {name} = {HOW_TO_GET[name]}")
    if tensor.numel():
        low, high = tensor.aminmax()  # NaN propagates; no temporary, unlike isfinite().all()
        if not bool(torch.isfinite(low) & torch.isfinite(high)):
            raise InputError(f"{name} hold NaN or infinite values; did the network diverge, or overflow in half precision?")
    return tensor


def _tensor(name: str, value: Any) -> Tensor:
    """Tensors as they are; arrays (of any strides and byte order), data frames and lists of numbers as tensors."""
    if isinstance(value, Tensor):
        return value
    try:
        if hasattr(value, "__array__"):
            value = np.asarray(value)
            value = value.astype(value.dtype.newbyteorder("="), copy=any(step < 0 for step in value.strides))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")  # nobody writes into it
            return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        line = one_line(error)
        raise InputTypeError(f"{name} must be numbers in one array ({line}); {name} = {HOW_TO_GET[name]}") from error


def single(tensor: Tensor) -> Tensor:
    """Half precision -> float32; everything else as it is."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
