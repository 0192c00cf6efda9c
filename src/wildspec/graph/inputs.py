"""Checks of what a graph is made from; every error names the argument, what came, and what to do."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wildspec.errors import InputError, InputTypeError, one_line

Array = NDArray[np.float64]


def listed(indices: NDArray[Any], most: int = 5) -> str:
    """The first few indices as text: ``3, 7, 9, ... (12 in all)``."""
    text = ", ".join(str(int(i)) for i in indices[:most])
    return text if len(indices) <= most else f"{text}, ... ({len(indices)} in all)"


def as_array(name: str, value: Any, dtype: Any) -> NDArray[Any]:
    """Lists, numpy arrays and torch tensors (any device, half precision, with gradient) as a numpy array of numbers."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value  # which numpy does not know
    try:
        with np.errstate(over="ignore"):  # beyond single precision is infinite, and refused where that matters
            return np.asarray(value, dtype=dtype)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputTypeError(f"{name} must be numbers: {one_line(error)}") from error


def as_transition(transition: Any, normalize: bool) -> sparse.csr_array:
    """(N, n) weights as float64 CSR: finite, non-negative, no empty column; columns sum to 1 if ``normalize``."""
    if sparse.issparse(transition):
        matrix = sparse.csr_array(transition, dtype=np.float64)
    else:
        dense = as_array("transition", transition, np.float64)
        if dense.ndim != 2:
            raise InputError(f"transition must have 2 dimensions (nodes, sources), got shape {dense.shape}")
        matrix = sparse.csr_array(dense)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"transition must be a non-empty (nodes, sources) matrix, got shape {matrix.shape}")
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # summing duplicates works in place; the caller's matrix stays as it was
        matrix.sum_duplicates()
    matrix = short_indices(matrix)
    if not np.isfinite(matrix.data).all():
        raise InputError("transition must be finite, got NaN or infinite weights; remove or replace them")
    if matrix.nnz and matrix.data.min() < 0:
        raise InputError(f"transition must be 0 or greater, got {matrix.data.min():g}; weights are probabilities")
    mass = column_sums(matrix)
    empty = np.flatnonzero(mass == 0)
    if empty.size:
        raise InputError(
            f"transition has all-zero columns ({listed(empty)}): a source must reach at least one node; "
            "drop these columns or give them weight"
        )
    if not normalize:
        return matrix
    return sparse.csr_array((matrix.data / mass[matrix.indices], matrix.indices, matrix.indptr), shape=matrix.shape)


def short_indices(matrix: sparse.csr_array) -> sparse.csr_array:
    """The same matrix with 32-bit indices where they suffice: a product reads a third less memory."""
    if matrix.indices.dtype == np.int32 or max(matrix.nnz, *matrix.shape) > np.iinfo(np.int32).max:
        return matrix
    return sparse.csr_array(
        (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)), shape=matrix.shape
    )


def column_sums(matrix: sparse.csr_array) -> Array:
    """Sum of every column, without a dense copy."""
    return np.asarray(np.bincount(matrix.indices, weights=matrix.data, minlength=matrix.shape[1]), dtype=np.float64)


def as_labels(name: str, labels: Any, length: int) -> NDArray[np.int64]:
    """``length`` whole numbers: -1 = unlabelled, classes 0..C-1, each with at least one sample."""
    if labels is None:
        return np.full(length, -1, dtype=np.int64)
    array = np.asarray(labels)
    if array.ndim != 1 or len(array) != length:
        raise InputError(f"{name} must have one entry for each of the {length} sources, got shape {array.shape}")
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.round(array)).all():
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputTypeError(f"{name} must be whole numbers (-1 = unlabelled), got dtype {array.dtype}")
    array = array.astype(np.int64)
    if length and array.min() < -1:
        raise InputError(f"{name} must be -1 (unlabelled) or a class 0..C-1, got {int(array.min())}")
    present = np.unique(array[array >= 0])
    if present.size and int(present[-1]) != present.size - 1:
        absent = np.setdiff1d(np.arange(present[-1]), present)
        raise InputError(
            f"{name}: class {listed(absent)} has no sample; number the classes 0..C-1 without gaps "
            "(numpy.unique(..., return_inverse=True) does it)"
        )
    return array


def as_prior(prior: Any, length: int) -> Array:
    """Weights of the sources as a distribution (sums to 1); None = uniform."""
    if prior is None:
        return np.full(length, 1.0 / length)
    try:
        array = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"prior must be numbers, one for each source: {error}") from error
    if array.shape != (length,):
        raise InputError(f"prior must have one entry for each of the {length} sources, got shape {array.shape}")
    if not np.isfinite(array).all() or array.min() < 0:
        raise InputError("prior must be finite and 0 or greater; it is the share of each source")
    if array.sum() == 0:
        raise InputError("prior must not be all zero; it is the share of each source")
    return array / array.sum()
