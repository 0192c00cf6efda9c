"""Products of tall, thin matrices on all cores.

The vectors of a Krylov space are a matrix of many rows and few columns. BLAS threads that meet for each thin product wait
for one another in busy loops and take the cores from the sparse products in between, so BLAS is given one thread and blocks
of rows run in the pool that the sparse products use. The blocks do not depend on the number of threads, and their sums are
taken in order: neither does the result.
"""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from wildspec.graph.inputs import Array

ROWS = 16_384  # at most so many in a block: 64 columns of it are 8 MiB

Result = TypeVar("Result")


class Tall:
    """Products with matrices of ``size`` rows; ``pool`` None = one core. Columns contiguous (Fortran order) is fastest."""

    def __init__(self, size: int, pool: ThreadPoolExecutor | None = None) -> None:
        self.size = size
        pairs = -(-size // (2 * ROWS)) if size > ROWS else 0  # blocks even in number and alike: cores end together
        edges = np.linspace(0, size, max(1, 2 * pairs) + 1).astype(np.int64).tolist()
        self._blocks = [slice(start, stop) for start, stop in itertools.pairwise(edges)]
        self._pool = pool if len(self._blocks) > 1 else None

    def inner(self, one: Array, two: Array) -> Array:
        """one^T two; ``two`` may be a vector."""
        return np.sum(self.each(lambda rows: one[rows].T @ two[rows]), axis=0)

    def times(self, matrix: Array, small: Array) -> Array:
        """matrix @ small as a new matrix."""
        out = np.empty((self.size, small.shape[1]), order="F")

        def work(rows: slice) -> None:
            np.matmul(small.T, matrix[rows].T, out=out[rows].T)  # transposed: the rows of out.T are contiguous

        self.each(work)
        return out

    def subtract(self, target: Array, matrix: Array, small: Array) -> None:
        """target -= matrix @ small, in place; ``target`` may be a vector."""

        def work(rows: slice) -> None:
            target[rows] -= matrix[rows] @ small

        self.each(work)

    def turn(self, matrix: Array, small: Array) -> None:
        """The first columns of ``matrix`` become matrix @ small, in place."""

        def work(rows: slice) -> None:
            matrix[rows, : small.shape[1]] = matrix[rows] @ small

        self.each(work)

    def each(self, work: Callable[[slice], Result]) -> list[Result]:
        """``work`` on every block of rows, results in order."""
        return list((map if self._pool is None else self._pool.map)(work, self._blocks))
