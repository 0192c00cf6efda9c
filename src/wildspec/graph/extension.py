"""New points in a spectral embedding without a refit (Nystrom), functions smoothed by it, and graphs that grow.

With S = D^-1/2 B = V Sigma^1/2 U^T the embedding of a node x with the row b_x of B is

    f(x) = sqrt(lambda) v(x) / sqrt(d_x) = b_x U / (b_x B^T 1),

a weighted average over sources that needs x only through its transition T(x|.). For a node of the graph this is its row of
Z exactly; for a new point it is the Nystrom extension.

A function h on the nodes, kept to the k leading eigenvectors of D^-1 A and damped by lambda^t (diffusion for a time t), is

    h^(x) = sum_i lambda_i^t phi_i(x) <phi_i, h>_D = f(x) C,    C = Lambda^(t - 1/2) V^T D^1/2 h.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from wildspec.checks import non_negative
from wildspec.errors import ConvergenceError, InputError
from wildspec.graph.adjacency import AugmentationGraph
from wildspec.graph.inputs import Array, as_array, column_sums
from wildspec.graph.operators import GramOperator
from wildspec.graph.spectrum import SpectralEmbedding, _finish, spectral_embedding

WARM_CYCLES = 50
GUARD = 8  # vectors beyond k in the warm-started block: they speed up the last wanted ones
NEGLIGIBLE = 1e-12  # eigenvalues below this carry nothing and cannot be divided by


@dataclass(frozen=True, eq=False)
class SpectralExtension:
    """``coordinates`` (n + C, k): scaled U. ``mass`` (n + C,): scaled B^T 1. f(x) = (t_x coordinates) / (t_x mass)."""

    coordinates: Array
    mass: Array
    n_sources: int

    @classmethod
    def of(cls, graph: AugmentationGraph, embedding: SpectralEmbedding) -> "SpectralExtension":
        if embedding.values[-1] < NEGLIGIBLE:
            rank = int((embedding.values >= NEGLIGIBLE).sum())
            raise InputError(f"the embedding has only {rank} directions with weight; choose k = {rank}")
        matrix = graph.scaled_factor()  # S, (N, n + C)
        right = np.asarray(matrix.T @ embedding.vectors) / np.sqrt(embedding.values)  # U, (n + C, k)
        sums = column_sums(graph.factor())  # B^T 1
        scale = np.full(matrix.shape[1], np.sqrt(graph.eta_l / graph.total))
        if graph.eta_u > 0:
            scale[: graph.n_sources] = np.sqrt(graph.eta_u * graph.prior / graph.total)
        return cls(right * scale[:, None], sums * scale, graph.n_sources if graph.eta_u > 0 else 0)

    def extend(self, rows: Any, class_rows: Any = None) -> Array:
        """(m, n) transitions T(x|x_j) of m points -> (m, k) embeddings.

        class_rows: (m, C) entries of the class means m_c at these points; a new point has none (it carries no label).
        """
        shape = np.shape(rows)  # before scipy sees it: what it makes of a single row depends on its version
        if len(shape) != 2 or shape[1] != self.n_sources:
            raise InputError(f"rows must have one column for each of the {self.n_sources} sources, got shape {shape}")
        weights = sparse.csr_array(rows, dtype=np.float64)
        if class_rows is not None:
            weights = sparse.csr_array(sparse.hstack([weights, sparse.csr_array(class_rows)], format="csr"))
        width = weights.shape[1]
        degree = np.asarray(weights @ self.mass[:width])
        empty = np.flatnonzero(degree <= 0)
        if empty.size:
            raise InputError(f"rows {empty[:5].tolist()} have no weight on any source: a point needs at least one neighbour")
        return np.asarray(weights @ self.coordinates[:width]) / degree[:, None]


def low_pass(embedding: SpectralEmbedding, functions: Any, time: float = 0.0) -> Array:
    """(N, p) functions on the nodes -> C (k, p), so that ``embedding.embedding @ C`` is their smoothed version.

    time: t in lambda^t; 0 is the plain projection on the k leading eigenvectors.
    """
    non_negative("time", time)
    values = np.asarray(functions)
    if len(values) != len(embedding.degrees):
        raise InputError(f"functions must have one row for each of the {len(embedding.degrees)} nodes, got {len(values)}")
    if embedding.values[-1] < NEGLIGIBLE:
        raise InputError("the embedding has directions without weight; choose a smaller k")
    weighted = embedding.vectors * np.sqrt(embedding.degrees)[:, None]  # (N, k)
    return np.asarray(embedding.values[:, None] ** (time - 0.5) * (weighted.T @ values))


def warm_embedding(
    graph: AugmentationGraph, start: Any, *, tol: float = 1e-8, seed: int = 0, max_iter: int = WARM_CYCLES
) -> SpectralEmbedding:
    """The embedding of ``graph`` with k = columns of ``start``, found from a guess of its rows of Z (N, k).

    A graph that grew a little has almost the old eigenvectors: the old embedding, extended to the new nodes, needs a few
    block Krylov steps instead of a solution from scratch. If these do not converge, the ordinary solver does the work.
    """
    import torch

    from wildspec.graph.torch_solver import _block_krylov, _to_torch

    guess = as_array("start", start, np.float64)
    if guess.ndim != 2:
        raise InputError(f"start must be a (nodes, k) matrix, got shape {guess.shape}")
    count, k = guess.shape
    if count != graph.n_nodes:
        raise InputError(f"start must have one row for each of the {graph.n_nodes} nodes, got {count}")
    width = min(k + GUARD, count)
    rng = np.random.default_rng(seed)
    block = np.hstack([guess * np.sqrt(graph.degrees())[:, None], rng.standard_normal((count, width - k))])
    matrix = graph.scaled_factor()
    cpu = torch.device("cpu")
    outer, inner = _to_torch(matrix, cpu), _to_torch(sparse.csr_array(matrix.T), cpu)
    try:
        vectors = _block_krylov(outer, inner, torch.from_numpy(block), k, tol, max_iter)[1].numpy()
    except ConvergenceError:
        return spectral_embedding(graph, k, tol=tol, seed=seed)
    with GramOperator(matrix) as operator:
        values, vectors, residuals = _finish(operator, vectors, k)
    return SpectralEmbedding(values, vectors, graph.degrees(), residuals, "warm", False)
