"""What an embedding is judged by (Section 4.2): linear probing error E(f) and separability S(f)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.checks import non_negative
from wildspec.errors import InputError
from wildspec.graph.inputs import Array, as_array, as_labels

RANK_TOLERANCE = 1e-9  # singular values of Z_in below this share of the largest are rounding, not signal
TIE_TOLERANCE = 1e-8  # class scores closer than this share of ||z|| ||M||, the size a score can have, are a tie


@dataclass(frozen=True)
class ProbeError:
    """Linear probing error E(f): ``mean`` in [0, 1] and ``count`` of ``total`` samples (the paper prints the count)."""

    mean: float
    count: int
    total: int
    predictions: NDArray[np.int64]  # (m,), -1 where the classes tie
    scores: Array  # (m, C), Z_out M


def linear_probe(Z_in: Any, y_in: Any, *, n_classes: int | None = None) -> Array:
    """M = (Z^T Z)^+ Z^T Y, the paper's pseudo-inverse: (n, k) features, n labels in 0..C-1 -> (k, C) weights.

    Computed as Z^+ Y, the same matrix without squaring the condition number. Y is one-hot.
    """
    features = _matrix("Z_in", Z_in)
    classes = as_labels("y_in", y_in, len(features))
    if (classes < 0).any():
        raise InputError("y_in must have a class for every row of Z_in, got -1; drop the unlabelled rows")
    width = int(classes.max()) + 1 if n_classes is None else n_classes
    if width <= classes.max():
        raise InputError(f"n_classes must be greater than the largest label {int(classes.max())}, got {width}")
    one_hot = np.zeros((len(classes), width))
    one_hot[np.arange(len(classes)), classes] = 1.0
    return np.asarray(np.linalg.pinv(features, rcond=RANK_TOLERANCE) @ one_hot)


def linear_probe_error(
    Z_in: Any, y_in: Any, Z_out: Any, y_out: Any, *, tie_tolerance: float = TIE_TOLERANCE
) -> ProbeError:
    """E(f) of eq. 7: fit M on (Z_in, y_in), count the rows of Z_out whose class y_out does not win alone.

    A tie is an error: identical embeddings cannot be told apart (the paper's value "2" is this count for two nodes).
    """
    non_negative("tie_tolerance", tie_tolerance)
    weights = linear_probe(Z_in, y_in)
    features = _matrix("Z_out", Z_out)
    if features.shape[1] != weights.shape[0]:
        raise InputError(f"Z_out must have {weights.shape[0]} columns like Z_in, got {features.shape[1]}")
    truth = np.asarray(y_out)
    if truth.shape != (len(features),) or truth.dtype.kind not in "iu":
        raise InputError(f"y_out must hold one whole number for each of the {len(features)} rows of Z_out")
    if truth.min() < 0 or truth.max() >= weights.shape[1]:
        raise InputError(f"y_out must lie in 0..{weights.shape[1] - 1}, the classes of y_in")
    scores = features @ weights
    predictions = scores.argmax(axis=1).astype(np.int64)
    if weights.shape[1] > 1:
        runner_up = np.partition(scores, -2, axis=1)[:, -2]
        best = scores.max(axis=1)
        # not a share of the scores themselves: where all are zero but for rounding, rounding must not choose
        possible = np.linalg.norm(features, axis=1) * np.linalg.norm(weights)
        predictions[best - runner_up <= tie_tolerance * possible] = -1
    wrong = int(np.sum(predictions != truth))
    return ProbeError(wrong / len(truth), wrong, len(truth), predictions, scores)


def separability(Z_in: Any, Z_semantic: Any, *, weights_in: Any = None, weights_semantic: Any = None) -> float:
    """S(f) of eq. 8: mean over all pairs of ||z_in - z_semantic||^2, larger = easier to detect.

    Computed from moments, O((n + m) k): spread of each set plus the squared distance of the means.
    """
    inside, outside = _matrix("Z_in", Z_in), _matrix("Z_semantic", Z_semantic)
    if inside.shape[1] != outside.shape[1]:
        raise InputError(f"Z_semantic must have {inside.shape[1]} columns like Z_in, got {outside.shape[1]}")
    spread_in, mean_in = _moments("weights_in", inside, weights_in)
    spread_out, mean_out = _moments("weights_semantic", outside, weights_semantic)
    return float(spread_in + spread_out + np.sum((mean_in - mean_out) ** 2))


def _moments(name: str, features: Array, weights: Any) -> tuple[float, Array]:
    share = np.ones(len(features)) if weights is None else np.asarray(weights, dtype=np.float64)
    if share.shape != (len(features),) or not np.isfinite(share).all() or share.min() < 0 or share.sum() == 0:
        raise InputError(f"{name} must hold {len(features)} finite shares >= 0, not all zero")
    share = share / share.sum()
    mean = share @ features
    return float(share @ np.sum((features - mean) ** 2, axis=1)), mean


def _matrix(name: str, value: Any) -> Array:
    array = as_array(name, value, np.float64)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{name} must be a non-empty (samples, features) matrix, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, got NaN or infinite values")
    return array
