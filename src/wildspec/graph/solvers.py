"""Top eigenpairs of a Gram operator S S^T: dense eigh for small problems, Lanczos for large ones.

Each solver returns at least the k largest eigenpairs in descending order, and more of them where the k-th eigenvalue
is repeated: the caller needs the whole eigenspace to choose from it in a way that does not depend on the machine. The
third value says whether all copies of the k-th eigenvalue are there.
"""

import numpy as np
from scipy import linalg, sparse

from wildspec.errors import ConvergenceError
from wildspec.graph.canonical import DEGENERATE
from wildspec.graph.inputs import Array
from wildspec.graph.lanczos import Apply, Krylov, Pairs, largest_pairs
from wildspec.graph.operators import GramOperator
from wildspec.graph.tall import Tall

PROBE_STEPS = 24  # Lanczos steps that look for an eigenvalue the main run has missed
EXTRA = 16  # how far beyond k a repeated k-th eigenvalue is followed
RANK = 1e-12  # eigenvalues below this are zero: their vectors carry nothing
CLEAN = 1e-6  # sigma > 1e-3: S u / sigma is good to 1e-13; at RANK it is good to 1e-10
DENSE_ROWS = 2_000  # rows of S above which S S^T is not formed for eigenvalues below CLEAN


def dense_pairs(matrix: sparse.csr_array, k: int) -> tuple[Array, Array, bool]:
    """All eigenpairs by LAPACK; on the smaller side of S when that side carries k of them well."""
    rows, columns = matrix.shape
    if columns < rows:
        values, vectors = _descending(*linalg.eigh((matrix.T @ matrix).toarray()))
        count = int((values > (CLEAN if rows <= DENSE_ROWS else RANK)).sum())
        if count >= k:
            whole = count == columns or bool(values[k - 1] - values[count] > DEGENERATE)
            return values[:count], np.asarray(matrix @ vectors[:, :count]) / np.sqrt(values[:count]), whole
        if rows > DENSE_ROWS:
            raise beyond_rank(k, count)
    return (*_descending(*linalg.eigh((matrix @ matrix.T).toarray())), True)


def beyond_rank(k: int, rank: int) -> ConvergenceError:
    return ConvergenceError(f"k = {k} exceeds the numerical rank {rank} of the graph; choose a smaller k")


def lanczos_pairs(
    operator: GramOperator, k: int, *, tol: float, max_iter: int | None, seed: int
) -> tuple[Array, Array, bool]:
    """Lanczos with thick restarts on the smaller side, then a search for what it may have missed.

    A Krylov space grown from one vector meets each eigenvalue once; copies of a repeated one appear only through
    rounding, and not always all of them. So a short Lanczos run outside the span of what was found looks for a value at or
    above the k-th; while there is one, the rest of the problem is solved for a few more pairs.
    """
    rows, columns = operator.shape
    narrow = k < columns < rows
    apply, size = (operator.right, columns) if narrow else (operator.left, rows)
    tall, rng = Tall(size, operator.pool), np.random.default_rng(seed)
    values, vectors = largest_pairs(apply, tall, k, tol=tol, max_iter=max_iter, rng=rng)
    more, complete = 1, True
    while len(values) + more < size:
        left = largest_left(apply, tall, vectors, rng, enough=values[k - 1] - DEGENERATE)
        if left < values[k - 1] - DEGENERATE:
            break
        if left <= values[k - 1] + DEGENERATE and len(values) >= k + EXTRA:
            complete = False
            break  # the k-th eigenvalue has more copies than are worth following
        found = largest_pairs(apply, tall, more, tol=tol, max_iter=max_iter, rng=rng, locked=vectors)[1]
        values, vectors = _rayleigh_ritz(apply, np.linalg.qr(np.hstack([vectors, found]))[0])
        values, vectors = values[: k + EXTRA], vectors[:, : k + EXTRA]
        more = min(2 * more, EXTRA)
    if values[k - 1] < RANK:
        raise beyond_rank(k, int(np.sum(values >= RANK)))
    if narrow:
        keep = values >= RANK
        values, vectors = values[keep], operator.forward(vectors[:, keep]) / np.sqrt(values[keep])
    return values, vectors, complete


def largest_left(
    apply: Apply, tall: Tall, vectors: Array, rng: np.random.Generator, *, enough: float, steps: int = PROBE_STEPS
) -> float:
    """Lower bound on the largest eigenvalue outside the span of ``vectors``, from a few Lanczos steps kept out of it.

    Stops early when the largest Ritz value and its error bar lie below ``enough``: by then a missed eigenvalue above it
    would have grown out of the random start (8 steps multiply it by thousands against the rest).
    """
    space = Krylov(apply, tall, steps, rng, locked=vectors)
    best = -np.inf
    while not space.full:
        space.grow()
        if space.full or (space.count >= 8 and space.count % 2 == 0):
            values, _, errors = space.ritz()
            best = float(values[0])
            if best + float(errors[0]) < enough:
                break
    return best


def _rayleigh_ritz(apply: Apply, basis: Array) -> Pairs:
    """Best eigenpairs within the span of an orthonormal basis."""
    small = basis.T @ apply(basis)
    values, rotation = _descending(*np.linalg.eigh((small + small.T) / 2))
    return values, basis @ rotation


def _descending(values: Array, vectors: Array) -> Pairs:
    order = np.argsort(-values, kind="stable")
    return np.asarray(values[order]), np.asfortranarray(vectors[:, order])  # products take column after column
