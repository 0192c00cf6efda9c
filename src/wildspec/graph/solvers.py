"""Top eigenpairs of a Gram operator S S^T: dense eigh for small problems, Lanczos for large ones.

Each solver returns at least the k largest eigenpairs in descending order, and more of them where the k-th eigenvalue
is repeated: the caller needs the whole eigenspace to choose from it in a way that does not depend on the machine. The
third value says whether all copies of the k-th eigenvalue are there.
"""

from collections.abc import Callable

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from wildspec.errors import ConvergenceError
from wildspec.graph.canonical import DEGENERATE
from wildspec.graph.inputs import Array
from wildspec.graph.operators import GramOperator

PROBE_STEPS = 24  # Lanczos steps that look for an eigenvalue the main run has missed
EXTRA = 16  # how far beyond k a repeated k-th eigenvalue is followed
RANK = 1e-12  # eigenvalues below this are zero: their vectors carry nothing

Apply = Callable[[Array], Array]
Pairs = tuple[Array, Array]  # (m,) descending eigenvalues, (size, m) orthonormal eigenvectors


def dense_pairs(matrix: sparse.csr_array, k: int) -> tuple[Array, Array, bool]:
    """All eigenpairs by LAPACK; on the smaller side of S when that side carries k of them well."""
    if matrix.shape[1] < matrix.shape[0]:
        values, vectors = _descending(*linalg.eigh((matrix.T @ matrix).toarray()))
        keep = values > 1e-6  # sigma > 1e-3: S u / sigma is good to 1e-13
        if keep.sum() >= k and (keep.sum() == k or values[k] < values[k - 1] - DEGENERATE):
            return values[keep], np.asarray(matrix @ vectors[:, keep]) / np.sqrt(values[keep]), True
    return (*_descending(*linalg.eigh((matrix @ matrix.T).toarray())), True)


def lanczos_pairs(
    operator: GramOperator, k: int, *, tol: float, max_iter: int | None, seed: int
) -> tuple[Array, Array, bool]:
    """Implicitly restarted Lanczos (ARPACK) on the smaller side, then a search for what it may have missed.

    A Krylov space grown from one vector meets each eigenvalue once; copies of a repeated one appear only through
    rounding, and not always all of them. So a short Lanczos run, deflated by what was found, looks for a value at or
    above the k-th; while there is one, the deflated problem is solved for a few more pairs.
    """
    rows, columns = operator.shape
    narrow = k < columns < rows
    apply, size = (operator.right, columns) if narrow else (operator.left, rows)
    rng = np.random.default_rng(seed)
    values, vectors = _arpack(apply, size, k, tol, max_iter, rng)
    more, complete = 1, True
    while len(values) + more < size:
        left = largest_left(apply, vectors, rng, enough=values[k - 1] - DEGENERATE)
        if left < values[k - 1] - DEGENERATE:
            break
        if left <= values[k - 1] + DEGENERATE and len(values) >= k + EXTRA:
            complete = False
            break  # the k-th eigenvalue has more copies than are worth following
        found = _arpack(_deflated(apply, vectors), size, more, tol, max_iter, rng)[1]
        found -= vectors @ (vectors.T @ found)
        values, vectors = rayleigh_ritz(apply, np.linalg.qr(np.hstack([vectors, found]))[0])
        values, vectors = values[: k + EXTRA], vectors[:, : k + EXTRA]
        more = min(2 * more, EXTRA)
    if values[k - 1] < RANK:
        raise ConvergenceError(
            f"k = {k} exceeds the numerical rank {int(np.sum(values >= RANK))} of the graph; choose a smaller k"
        )
    if narrow:
        keep = values >= RANK
        values, vectors = values[keep], operator.forward(vectors[:, keep]) / np.sqrt(values[keep])
    return values, vectors, complete


def rayleigh_ritz(apply: Apply, basis: Array) -> Pairs:
    """Best eigenpairs within the span of an orthonormal basis."""
    small = basis.T @ apply(basis)
    values, rotation = _descending(*np.linalg.eigh((small + small.T) / 2))
    return values, basis @ rotation


def largest_left(
    apply: Apply, vectors: Array, rng: np.random.Generator, *, enough: float, steps: int = PROBE_STEPS
) -> float:
    """Lower bound on the largest eigenvalue outside the span of ``vectors``, from a few deflated Lanczos steps.

    Stops early when the largest Ritz value and its error bar lie below ``enough``: by then a missed eigenvalue above it
    would have grown out of the random start (8 steps multiply it by thousands against the rest).
    """
    size = len(vectors)
    steps = min(steps, size - vectors.shape[1])
    basis = np.empty((size, steps), order="F")
    alpha, beta = np.zeros(steps), np.zeros(steps)
    current = rng.standard_normal(size)
    best = -np.inf
    for step in range(steps):
        current = current - vectors @ (vectors.T @ current)  # in every step: what is known must not grow back
        for _ in range(2):
            current = current - basis[:, :step] @ (basis[:, :step].T @ current)
        beta[step] = np.linalg.norm(current)
        if step >= 8 and step % 2 == 0:
            ritz, weights = linalg.eigh_tridiagonal(alpha[:step], beta[1:step])
            best = float(ritz[-1])
            if best + beta[step] * abs(float(weights[-1, -1])) < enough:
                return best
        if beta[step] < 1e-10:  # the space is exhausted: what was found so far is exact
            steps = step
            break
        basis[:, step] = current / beta[step]
        current = apply(basis[:, step])
        alpha[step] = basis[:, step] @ current
    return float(linalg.eigvalsh_tridiagonal(alpha[:steps], beta[1:steps])[-1]) if steps else best


def _arpack(
    apply: Apply, size: int, k: int, tol: float, max_iter: int | None, rng: np.random.Generator
) -> Pairs:
    linear = LinearOperator((size, size), matvec=apply, dtype=np.float64)
    try:
        found = eigsh(linear, k=k, which="LA", v0=rng.standard_normal(size), tol=tol, maxiter=max_iter)
    except ArpackNoConvergence as error:
        raise ConvergenceError(
            f"Lanczos found {len(error.eigenvalues)} of {k} eigenpairs to tolerance {tol:g}; "
            "raise max_iter, loosen tol, or choose k where the spectrum has a gap"
        ) from error
    return _descending(*found)


def _deflated(apply: Apply, vectors: Array) -> Apply:
    def project(x: Array) -> Array:
        return x - vectors @ (vectors.T @ x)

    return lambda x: project(apply(project(np.ravel(x))))


def _descending(values: Array, vectors: Array) -> Pairs:
    order = np.argsort(-values, kind="stable")
    return np.asarray(values[order]), np.asfortranarray(vectors[:, order])  # products take column after column
