"""Lanczos with thick restarts for the largest eigenpairs of a symmetric operator (Wu and Simon, 2000).

The space grows by one product with the operator at a time. When it is full, the leading Ritz vectors are kept, the next
Lanczos vector is put behind them, and it grows again. In the basis V the operator is

    T = V^T A V = [diag(theta)  s          ]     s_i = beta y_mi couples Ritz vector i to the vector behind them
                  [s^T          tridiagonal]

The image of the newest vector loses its known parts along its neighbours, then one pass over the whole basis removes what
rounding let in, and another one where that was much. ARPACK does the same mathematics with a product of matrix and vector
for each vector kept at a restart and for each one returned; here each of these is one product of matrices.
"""

from collections.abc import Callable

import numpy as np

from wildspec.errors import ConvergenceError
from wildspec.graph.inputs import Array
from wildspec.graph.tall import Tall

Apply = Callable[[Array], Array]
Pairs = tuple[Array, Array]  # (m,) descending eigenvalues, (size, m) orthonormal eigenvectors

LOOKS = 4  # looks at the Ritz values in a cycle: each is a dense problem of the size of the space
RESTARTS = 2_000  # before giving up, when max_iter is not given
INVARIANT = 1e-14  # a remainder this small (the operators here have norm 1) is rounding: nothing new comes from the space
EPS = float(np.finfo(np.float64).eps)


class Krylov:
    """A growing orthonormal basis and the operator's projection on it; ``locked`` vectors are kept out of the space."""

    def __init__(
        self, apply: Apply, tall: Tall, capacity: int, rng: np.random.Generator, locked: Array | None = None
    ) -> None:
        self.apply, self.tall, self.rng = apply, tall, rng
        self.locked = 0 if locked is None else locked.shape[1]
        self.capacity = min(capacity, tall.size - self.locked)
        self.count = 0  # vectors in T; the next one stands behind them
        self.projected = np.zeros((self.capacity + 1, self.capacity + 1))  # T, and the coupling to the next vector
        self.basis = np.empty((tall.size, self.locked + self.capacity + 1), order="F")
        if locked is not None:
            self.basis[:, : self.locked] = locked
        self._append(rng.standard_normal(tall.size))

    @property
    def full(self) -> bool:
        return self.count == self.capacity

    def grow(self) -> None:
        """One product with the operator: one more row of T, and the vector after it."""
        j, T = self.count, self.projected
        newest = self.basis[:, self.locked + j]
        image = self.apply(newest)
        T[j, j] = float(newest @ image)
        first = int(np.flatnonzero(T[j, : j + 1])[0]) if T[j, : j + 1].any() else j
        self.tall.subtract(image, self.basis[:, self.locked + first : self.locked + j + 1], T[j, first : j + 1])
        self.count += 1
        T[j, j + 1] = T[j + 1, j] = self._append(image)

    def ritz(self) -> tuple[Array, Array, Array]:
        """(m,) Ritz values, descending; (m, m) their coordinates in the basis; (m,) residual norms."""
        m = self.count
        values, coordinates = np.linalg.eigh(self.projected[:m, :m])
        values, coordinates = values[::-1], coordinates[:, ::-1]
        return values, coordinates, np.abs(self.projected[m - 1, m] * coordinates[m - 1])

    def vectors(self, coordinates: Array) -> Array:
        """(m, p) coordinates -> (size, p) vectors."""
        return self.tall.times(self.basis[:, self.locked : self.locked + self.count], coordinates)

    def restart(self, values: Array, coordinates: Array) -> None:
        """Keep these Ritz pairs and the next vector."""
        m, keep, T = self.count, len(values), self.projected
        self.tall.turn(self.basis[:, self.locked : self.locked + m], coordinates)
        self.basis[:, self.locked + keep] = self.basis[:, self.locked + m]
        coupling = T[m - 1, m] * coordinates[m - 1]
        T[:] = 0.0
        T[np.arange(keep), np.arange(keep)] = values
        T[:keep, keep] = T[keep, :keep] = coupling
        self.count = keep

    def _append(self, image: Array) -> float:
        """Make ``image`` the next vector and return its length, 0 if a random vector had to take its place."""
        place = self.locked + self.count
        if place == self.tall.size:  # the basis spans everything: there is no next vector, and nobody will use it
            return 0.0
        before, length, fresh = self.basis[:, :place], float(np.linalg.norm(image)), False
        while True:
            self.tall.subtract(image, before, self.tall.inner(before, image))
            left = float(np.linalg.norm(image))
            if not np.isfinite(left):
                raise ConvergenceError("the operator gives NaN or infinite values; scale the weights of the graph")
            if left <= INVARIANT:
                image, fresh = self.rng.standard_normal(self.tall.size), True
                length = float(np.linalg.norm(image))
                continue
            if left > 0.7 * length:
                break
            length = left
        self.basis[:, place] = image / left
        return 0.0 if fresh else left


def largest_pairs(
    apply: Apply,
    tall: Tall,
    k: int,
    *,
    tol: float,
    max_iter: int | None,
    rng: np.random.Generator,
    locked: Array | None = None,
) -> Pairs:
    """The k largest eigenpairs outside the span of ``locked``, residual norms at most tol times the eigenvalue.

    A Krylov space meets each eigenvalue once: copies of a repeated one come through rounding, not always all of them.
    """
    space = Krylov(apply, tall, max(2 * k + 1, 20), rng, locked)
    pause = max(4, (space.capacity - k) // LOOKS)
    for _ in range(RESTARTS if max_iter is None else max_iter):
        while not space.full:
            space.grow()
            if space.count < k or (space.count % pause and not space.full):
                continue
            values, coordinates, errors = space.ritz()
            good = errors[:k] <= np.maximum(max(tol, EPS) * np.abs(values[:k]), EPS ** (2 / 3) * max(tol, EPS))
            if good.all():
                return values[:k], space.vectors(coordinates[:, :k])
        # room for the next cycle: half of what is not wanted, as the number of finished pairs grows
        keep = min(k + min(int(good.sum()), (space.capacity - k) // 2), space.capacity - 1)
        space.restart(values[:keep], coordinates[:, :keep])
    raise ConvergenceError(
        f"Lanczos found {int(good.sum())} of {k} eigenpairs to tolerance {tol:g}; "
        "raise max_iter, loosen tol, or choose k where the spectrum has a gap"
    )
