"""The spectral embedding of a graph (Section 4.1): Z = D^-1/2 V_k Sigma_k^1/2, rows = nodes."""

import warnings
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from wildspec.blas import one_blas_thread
from wildspec.checks import choice, integer, non_negative
from wildspec.errors import ConvergenceError, InputError, InputTypeError
from wildspec.graph.adjacency import AugmentationGraph
from wildspec.graph.canonical import DEGENERATE, canonical_rotations
from wildspec.graph.inputs import Array
from wildspec.graph.operators import GramOperator
from wildspec.graph.solvers import dense_pairs, lanczos_pairs
from wildspec.graph.tall import Tall

SOLVERS = ("auto", "dense", "lanczos", "torch")
DENSE_SIDE = 1_000  # "auto" takes dense eigh while the smaller side of the problem is at most this
CUDA_WEIGHTS = 2_000_000  # "auto" takes a CUDA device for at least this many non-zeros


@dataclass(frozen=True)
class SpectralEmbedding:
    """Top k of the normalized adjacency A~ = D^-1/2 A D^-1/2, in descending order."""

    values: Array  # (k,) eigenvalues, 1 = values[0] >= ... >= 0
    vectors: Array  # (N, k) V_k, orthonormal columns
    degrees: Array  # (N,) diagonal of D
    residuals: Array  # (k,) ||A~ v - lambda v||
    solver: str  # what did the work: dense, lanczos or torch
    split_eigenspace: bool  # the k-th eigenvalue is repeated beyond k: the choice of vectors is a convention

    @property
    def factors(self) -> Array:
        """(N, k) F = D^1/2 Z = V_k Sigma_k^1/2: F F^T is the best rank-k approximation of A~ (eq. 5)."""
        return self.vectors * np.sqrt(self.values)

    @property
    def embedding(self) -> Array:
        """(N, k) Z = D^-1/2 V_k Sigma_k^1/2: row x is f(x)."""
        return self.factors / np.sqrt(self.degrees)[:, None]


def spectral_embedding(
    graph: AugmentationGraph,
    k: int,
    *,
    solver: str = "auto",
    seed: int = 0,
    tol: float = 1e-10,
    max_iter: int | None = None,
    device: str | None = None,
) -> SpectralEmbedding:
    """The k largest eigenpairs of the graph's normalized adjacency, 1 <= k < N.

    solver: "dense" (LAPACK), "lanczos" (on the Gram operator, any size), "torch" (block Krylov on ``device``,
        default CUDA if there is one), "auto" picks by size. tol: residual that the iterative solvers must reach;
        if they do not within ``max_iter`` restarts a ConvergenceError is raised.
    Signs and the basis of repeated eigenvalues are canonical (see ``wildspec.graph.canonical``); the same seed gives
    the same result.
    """
    if not isinstance(graph, AugmentationGraph):
        raise InputTypeError(
            f"graph must be an AugmentationGraph, got {type(graph).__name__}; "
            "of a neighbour graph it is AugmentationGraph(graph.transition())"
        )
    choice("solver", solver, SOLVERS)
    integer("k", k, minimum=1)
    integer("seed", seed)
    non_negative("tol", tol)
    if max_iter is not None:
        integer("max_iter", max_iter, minimum=1)
    if k >= graph.n_nodes:
        raise InputError(f"k must be smaller than the number of nodes N = {graph.n_nodes}, got {k}")
    matrix = graph.scaled_factor()
    if k > matrix.shape[1]:
        raise InputError(
            f"k must be at most {matrix.shape[1]}, the rank of a graph of {graph.n_sources} sources "
            f"and {graph.n_classes} classes, got {k}"
        )
    if solver == "auto":
        solver = _choose(matrix.shape, matrix.nnz)
    # Lanczos makes thousands of thin products: they share the threads of the sparse ones (see wildspec.graph.tall)
    with GramOperator(matrix) as operator, one_blas_thread() if solver == "lanczos" else nullcontext():
        if solver == "dense":
            values, vectors, complete = dense_pairs(matrix, k)
        elif solver == "lanczos":
            values, vectors, complete = lanczos_pairs(operator, k, tol=tol, max_iter=max_iter, seed=seed)
        else:
            from wildspec.graph.torch_solver import torch_pairs

            values, vectors, complete = torch_pairs(matrix, k, tol=tol, max_iter=max_iter, seed=seed, device=device)
        count = _whole_group(values, k, complete)
        values, vectors, residuals = _finish(operator, vectors[:, :count], k)
    allowed = max(100 * tol, 10 * DEGENERATE)
    if residuals.max() > allowed:
        raise ConvergenceError(
            f"solver {solver!r} left a residual of {residuals.max():.2g}, more than {allowed:.2g}; "
            "tighten tol, raise max_iter or try another solver"
        )
    return SpectralEmbedding(values, vectors, graph.degrees(), residuals, solver, count > k)


def _whole_group(values: Array, k: int, complete: bool) -> int:
    """How many pairs to keep so that the k-th eigenvalue comes with all its copies; k when it is not repeated."""
    end = k
    while end < len(values) and values[end - 1] - values[end] <= DEGENERATE:
        end += 1
    if not complete:
        warnings.warn(
            f"the eigenvalue {values[k - 1]:.6g} is repeated beyond the {end} pairs computed: which vectors k = {k} "
            "keeps depends on the seed; choose another k",
            UserWarning, stacklevel=3,
        )
    return end


def _finish(operator: GramOperator, vectors: Array, k: int) -> tuple[Array, Array, Array]:
    """A last Rayleigh-Ritz step, the canonical basis, the first k pairs and their residuals.

    The step makes errors inside the span quadratic in the solver's residual, so that vectors of close eigenvalues
    are clean; it and the residuals share one product with the operator.
    """
    tall = Tall(len(vectors), operator.pool)
    image = operator.left(vectors)
    small, gram = tall.inner(vectors, image), tall.inner(vectors, vectors)  # gram: solvers leave rounding in it
    values, rotation = linalg.eigh((small + small.T) / 2, (gram + gram.T) / 2)
    values, rotation = values[::-1], rotation[:, ::-1]
    turn = canonical_rotations(values, tall.times(vectors, rotation), k)
    values, rotation = np.clip(values[:k], 0.0, None), rotation @ turn
    final = np.empty((len(vectors), k))

    def work(rows: slice) -> Array:
        np.matmul(vectors[rows], rotation, out=final[rows])
        rest = image[rows] @ rotation
        rest -= final[rows] * values
        return np.asarray(np.einsum("ij,ij->j", rest, rest))

    return values, final, np.sqrt(np.sum(tall.each(work), axis=0))


def _choose(shape: tuple[int, int], nnz: int) -> str:
    if min(shape) <= DENSE_SIDE:
        return "dense"
    if nnz >= CUDA_WEIGHTS:
        try:
            import torch
        except ImportError:
            return "lanczos"
        if torch.cuda.is_available():
            return "torch"
    return "lanczos"
