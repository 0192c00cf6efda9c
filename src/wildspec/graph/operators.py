"""Products with S and S^T on all cores.

scipy multiplies a sparse matrix on one core but lets go of the interpreter lock meanwhile, so blocks of rows run in
threads. Every row is summed by one thread in one order: the result is the same for any number of threads.
"""

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import numpy as np
from scipy import sparse

from wildspec.graph.inputs import Array

SERIAL = 200_000  # non-zeros; below this a thread costs more than it saves


def available_cores() -> int:
    """Cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system has affinities
        return os.cpu_count() or 1


class GramOperator:
    """S (N x m, CSR) with its transpose (CSR): ``left`` = S S^T (N x N), ``right`` = S^T S (m x m), never formed."""

    def __init__(self, matrix: sparse.csr_array, threads: int | None = None) -> None:
        self.shape = matrix.shape
        count = available_cores() if threads is None else threads
        self.pool = ThreadPoolExecutor(count) if count > 1 and matrix.nnz >= SERIAL else None
        parts = count if self.pool is not None else 1
        transposed = sparse.csr_array(matrix.T)
        self._forward = [matrix, *_row_blocks(matrix, parts)]  # the whole, then its parts in the same memory
        self._backward = [transposed, *_row_blocks(transposed, parts)]

    def __enter__(self) -> "GramOperator":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self.pool is not None:
            self.pool.shutdown()

    def forward(self, x: Array) -> Array:
        """S x, for a vector or a matrix."""
        return self._product(self._forward, x)

    def backward(self, x: Array) -> Array:
        """S^T x."""
        return self._product(self._backward, x)

    def left(self, x: Array) -> Array:
        """S S^T x: the normalized adjacency."""
        return self.forward(self.backward(x))

    def right(self, x: Array) -> Array:
        """S^T S x: same non-zero eigenvalues, one dimension per source and class."""
        return self.backward(self.forward(x))

    def _product(self, matrices: list[sparse.csr_array], x: Array) -> Array:
        """A vector by blocks of rows; a matrix column by column, which scipy does faster than all columns at once."""
        whole, *parts = matrices
        if x.ndim == 1:
            if self.pool is None:
                return np.asarray(whole @ x)
            return np.concatenate(list(self.pool.map(lambda part: part @ x, parts)))
        result = np.empty((whole.shape[0], x.shape[1]), order="F")

        def column(j: int) -> None:
            result[:, j] = whole @ np.ascontiguousarray(x[:, j])

        for _ in map(column, range(x.shape[1])) if self.pool is None else self.pool.map(column, range(x.shape[1])):
            pass
        return result


def _row_blocks(matrix: sparse.csr_array, parts: int) -> list[sparse.csr_array]:
    """Rows in ``parts`` blocks of about equal work; the blocks share the matrix's memory."""
    if parts == 1:
        return [matrix]
    targets = np.linspace(0, matrix.nnz, parts + 1)[1:-1]
    edges = [0, *np.searchsorted(matrix.indptr, targets).tolist(), matrix.shape[0]]
    blocks = []
    for start, stop in itertools.pairwise(edges):
        low, high = matrix.indptr[start], matrix.indptr[stop]
        blocks.append(
            sparse.csr_array(
                (matrix.data[low:high], matrix.indices[low:high], matrix.indptr[start : stop + 1] - low),
                shape=(stop - start, matrix.shape[1]),
            )
        )
    return blocks
