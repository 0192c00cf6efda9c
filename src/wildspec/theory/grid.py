"""The five-node example over a whole (alpha', beta') plane at once: batched 5 x 5 eigenproblems."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wildspec.checks import choice, integer, non_negative, positive
from wildspec.errors import InputError
from wildspec.graph.canonical import DEGENERATE
from wildspec.graph.inputs import Array
from wildspec.graph.probe import RANK_TOLERANCE, TIE_TOLERANCE
from wildspec.theory.five_node import SCENARIOS, five_node, transition_matrix


@dataclass(frozen=True)
class PlaneResult:
    """Arrays indexed [i, j] = (alpha'[i], beta'[j])."""

    alpha: Array  # (m,)
    beta: Array  # (n,)
    values: Array  # (m, n, 5) eigenvalues, descending
    separability: Array  # (m, n) S(f)
    probe_errors: NDArray[np.int64]  # (m, n) E(f) as a count: 0, 1 or 2 paintings


def paper_axis(cells: int = 50, low: float = 0.002, high: float = 0.1) -> Array:
    """The axis of the paper's figures."""
    return np.linspace(low, high, cells)


def plane(
    scenario: str, alpha: Array, beta: Array, *, gamma: float = 0.0, eta_u: float = 5.0, eta_l: float = 1.0, k: int = 3
) -> PlaneResult:
    """Exact spectrum, S(f) and E(f) for every pair; rho = 1."""
    choice("scenario", scenario, SCENARIOS)
    positive("eta_u", eta_u)
    non_negative("eta_l", eta_l)
    integer("k", k, minimum=1, maximum=4)
    alpha, beta = np.asarray(alpha, dtype=float), np.asarray(beta, dtype=float)
    for name, axis in (("alpha", alpha), ("beta", beta)):
        if axis.ndim != 1 or not len(axis) or axis.min() < 0 or axis.max() >= 1:
            raise InputError(f"{name} must be a list of values in [0, 1), the ratio to rho")
    # T is linear in its four weights, so the whole plane is one sum of outer products
    parts = [transition_matrix(scenario, *(float(i == j) for i in range(4))) for j in range(4)]
    weights = np.broadcast_arrays(1.0, alpha[:, None], beta[None, :], gamma)
    T = np.sum([w[..., None, None] * part for w, part in zip(weights, parts, strict=True)], axis=0)  # (m, n, 5, 5)
    r = 0.0 if scenario == "unlabelled" else 5.0 * eta_l / eta_u
    A = T @ T.swapaxes(-1, -2) + r * T[..., :2] @ T[..., :2].swapaxes(-1, -2)
    A = A / A.sum(axis=(-1, -2), keepdims=True)
    degrees = A.sum(axis=-1)
    values, vectors = np.linalg.eigh(A / np.sqrt(degrees[..., :, None] * degrees[..., None, :]))
    values, vectors = np.clip(values[..., ::-1], 0, None), vectors[..., ::-1]
    Z = vectors[..., :k] * np.sqrt(values[..., None, :k] / degrees[..., :, None])
    distance = np.mean(np.sum((Z[..., :2, :] - Z[..., 4:, :]) ** 2, axis=-1), axis=-1)
    probe = np.linalg.pinv(Z[..., :2, :], rcond=RANK_TOLERANCE)  # one-hot targets: M = pinv
    scores = Z[..., 2:4, :] @ probe
    own = np.diagonal(scores, axis1=-2, axis2=-1)
    other = np.diagonal(scores[..., ::-1], axis1=-2, axis2=-1)
    possible = np.linalg.norm(Z[..., 2:4, :], axis=-1) * np.linalg.norm(probe, axis=(-2, -1))[..., None]
    wrong = np.sum(own - other <= TIE_TOLERANCE * possible, axis=-1)
    # where the k-th eigenvalue is repeated beyond k, LAPACK's choice of vectors is not ours: the canonical one is
    for i, j in np.argwhere(values[..., k - 1] - values[..., k] <= DEGENERATE):
        world = five_node(scenario, 1.0, float(alpha[i]), float(beta[j]), gamma, eta_u, eta_l, k)
        distance[i, j], wrong[i, j] = world.separability, world.probe.count
    return PlaneResult(alpha, beta, values, distance, wrong)
