"""DAOD: kernel regression on K known classes and "unknown" with a bound on the open-set risk of the target.

Fang, Lu, Liu, Xuan and Zhang, IEEE TNNLS 2021; parameters and steps follow the authors' published program. N = n + m rows,
source then target, of length 1; k(x, x') = exp(cos(x, x') - 1). Y (N, K+1): source one-hot, every target row "unknown";
Y2: source rows "unknown". With q = max(n, m): E = diag(q/n on source, alpha q/m on target), E2 = diag(gamma q/n on source,
0 on target).

    minimize  |E^1/2 (K b - Y)|^2 - |E2^1/2 (K b - Y2)|^2 + sigma tr b^T K b + lam tr b^T K M K b + rho tr b^T K L K b

so b = ((E - E2 + lam M + rho L) K + sigma I)^-1 (E Y - E2 Y2), F = K b, the label is the argmax over K+1. L: normalized
Laplacian of the graph of nearest neighbours. M aligns the domains, from the labels of the round before: with e (1/n on
source, -1/m_k on target samples that have a known label) and e_c the same within class c, M = (1 - mu) K e e^T
+ mu sum_c e_c e_c^T, divided by its Frobenius norm. Rounds end when the labels repeat.
Score: S = F_unknown - max_k F_k (ours), > 0 = unknown. New samples: F(x) = sum_i b_i k(x, x_i).

One N x N matrix and one factorization serve all rounds (`Ridge`): only M changes, of rank K + 1.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import cg

from wildspec.checks import integer, non_negative, positive
from wildspec.embeddings.open_set.alignment import FARTHEST, a_distance, alignment, class_weight
from wildspec.embeddings.open_set.base import Numbers, OpenSetAnswer, OpenSetClassifier, Vector, unit
from wildspec.embeddings.open_set.osnn import ClassNeighbors, osnn
from wildspec.embeddings.rows import as_seed
from wildspec.errors import InputError
from wildspec.graph.search import Rows

BLOCK = 1 << 22  # kernel values that are made at once
ACCURACY = 1e-12  # of the sparse solutions, relative


def kernel_and_laplacian(rows: Vector, neighbours: int) -> tuple[Vector, sparse.csr_array]:
    """(N, d) of length 1 -> K (N, N) with k = exp(cos - 1), and L = I - D^-1/2 W D^-1/2, sparse.

    W_ij = cos where j is among the ``neighbours`` + 1 largest of i, itself included; W = max(W, W^T).
    """
    count = len(rows)
    kernel = np.empty((count, count))
    most = min(neighbours + 1, count)
    near = np.empty((count, most), dtype=np.int64)
    values = np.empty((count, most))
    step = max(1, BLOCK // count)
    for start in range(0, count, step):
        cosine = rows[start : start + step] @ rows.T
        part = np.arange(start, start + len(cosine))
        cosine[np.arange(len(cosine)), part] = 1.0
        near[part] = np.argpartition(-cosine, most - 1, axis=1)[:, :most]
        values[part] = np.take_along_axis(cosine, near[part], axis=1)
        kernel[part] = np.exp(cosine - 1.0)
    weights = sparse.csr_array((values.ravel(), near.ravel(), np.arange(0, count * most + 1, most)), shape=(count, count))
    weights = weights.maximum(weights.T)
    weights.setdiag(1.0)  # also where a row has more duplicates than neighbours
    weights = weights.maximum(sparse.csr_array(weights.shape))  # opposite rows are no neighbours
    scale = sparse.dia_array((1.0 / np.sqrt(weights.sum(axis=1))[None], [0]), shape=(count, count))
    laplacian = sparse.eye_array(count, format="csr") - scale @ weights @ scale
    return kernel, sparse.csr_array(laplacian)


class Ridge:
    """Solutions of ((V + lam M) K + sigma I) b = R for many M of low rank; V (N, N) sparse, symmetric, positive definite.

    A = V K + sigma I is made in the kernel's own memory, column by column, and factored once. K is not needed afterwards:
    F = K b follows from V F = R - sigma b, a sparse system. With M = U diag(c) U^T, Z = A^-1 R, P = A^-1 U:
    (I + lam U^T K P diag(c)) g = U^T K Z, b = Z - lam P diag(c) g (Woodbury).
    """

    def __init__(self, kernel: Vector, weights: sparse.csr_array, sigma: float, right: Vector) -> None:
        columns = kernel.T  # symmetric: the same numbers, column by column in memory, as LAPACK wants them
        step = max(1, BLOCK // len(kernel))
        for start in range(0, len(kernel), step):
            columns[:, start : start + step] = weights @ columns[:, start : start + step]
        columns[np.diag_indices(len(kernel))] += sigma
        self._factors = linalg.lu_factor(columns, overwrite_a=True, check_finite=False)
        self._weights, self._sigma = weights, sigma
        self._plain = self._solve(right)

    def _solve(self, right: Vector) -> tuple[Vector, Vector]:
        """(N, r) -> b of A b = right, and K b."""
        found = linalg.lu_solve(self._factors, right, check_finite=False)
        values = [self._sparse(column) for column in (right - self._sigma * found).T]
        return found, np.stack(values, axis=1)

    def _sparse(self, column: Vector) -> Vector:
        """V^-1 column: V has a condition number of about ten, so that conjugate gradients need a few dozen steps."""
        scale = self._weights.diagonal()
        guess = sparse.dia_array((1.0 / scale[None], [0]), shape=self._weights.shape)
        return np.asarray(cg(self._weights, column, rtol=ACCURACY, maxiter=10_000, M=guess)[0])

    def aligned(self, factors: Vector, shares: Vector, lam: float) -> tuple[Vector, Vector]:
        """b and K b with M = factors diag(shares) factors^T; (N, r), (r,)."""
        plain, values = self._plain
        moved, moved_values = self._solve(factors)
        inner = np.eye(len(shares)) + lam * (factors.T @ moved_values) * shares
        part = lam * shares[:, None] * np.linalg.solve(inner, factors.T @ values)
        return plain - moved @ part, values - moved_values @ part


class DAOD(OpenSetClassifier):
    """Domain adaptation with an open-set risk bound, for labelled rows and a wild pool from another domain.

    Costs one factorization of an N x N matrix, N = labelled + wild samples: 8 N^2 bytes and about N^3 operations.

    Parameters
    ----------
    alpha : float, default=0.4
        Weight of calling a wild sample known. How much is called unknown follows from it and from gamma, far more than from
        the data.
    gamma : float, default=0.25
        In [0, 1): weight of calling a labelled sample unknown, which is taken off the risk.
    lam, rho, sigma : float, default=500, 1 and 1
        Weights of the alignment of both domains, of smoothness over the graph, and of the ridge.
    n_neighbors : int, default=10
        Neighbours of a sample in the graph.
    ratio : float, default=0.5
        Of the first labels, by `OSNN`.
    rounds : int, default=10
        At most.
    random_state : int, RandomState or None, default=None
        Of the linear classifiers that measure how far apart the domains are.

    Attributes
    ----------
    classes_ : (K,) the known classes.
    transduction_ : (m,) what ``predict`` says of the wild samples of ``fit``: those of X, then X_wild.
    mu_ : float, weight of the classes' alignment against the domains' in the last round.
    n_iter_ : int, rounds; ``settled_`` : bool, whether the labels repeated.
    n_wild_ : int, how many wild samples there were.

    Examples
    --------
    >>> import numpy as np
    >>> from wildspec.embeddings import DAOD
    >>> rng = np.random.default_rng(0)
    >>> means = 3 * np.eye(3)
    >>> X, y = np.repeat(means[:2], 20, axis=0) + 0.3 * rng.normal(size=(40, 3)), np.repeat([0, 1], 20)
    >>> wild = np.repeat(means, 20, axis=0) + 0.3 * rng.normal(size=(60, 3))
    >>> model = DAOD(alpha=1.0, random_state=0).fit(X, y, wild)
    >>> float(np.mean(model.transduction_[40:] == -1)) > 0.9
    True
    """

    def __init__(
        self,
        alpha: float = 0.4,
        gamma: float = 0.25,
        *,
        lam: float = 500.0,
        rho: float = 1.0,
        sigma: float = 1.0,
        n_neighbors: int = 10,
        ratio: float = 0.5,
        rounds: int = 10,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.alpha = alpha
        self.gamma = gamma
        self.lam = lam
        self.rho = rho
        self.sigma = sigma
        self.n_neighbors = n_neighbors
        self.ratio = ratio
        self.rounds = rounds
        self.random_state = random_state

    def _check(self) -> None:
        positive("alpha", self.alpha)
        if not 0 <= non_negative("gamma", self.gamma) < 1:
            raise InputError(f"gamma must lie in [0, 1), got {self.gamma:g}; at 1 the labelled samples have no weight left")
        non_negative("lam", self.lam)
        non_negative("rho", self.rho)
        positive("sigma", self.sigma)
        non_negative("ratio", self.ratio)
        integer("n_neighbors", self.n_neighbors, minimum=1)
        integer("rounds", self.rounds, minimum=1)

    def _learn(self, source: Rows, labels: Numbers, target: Rows) -> OpenSetAnswer:
        seed, count = as_seed(self.random_state), len(self.classes_)
        n, m = len(source), len(target)
        self._bank = unit(np.concatenate([source, target]))
        kernel, laplacian = kernel_and_laplacian(self._bank, int(self.n_neighbors))
        risk, right = open_set_risk(labels, m, count, float(self.alpha), float(self.gamma))
        weights = sparse.csr_array(laplacian * float(self.rho) + sparse.dia_array((risk[None], [0]), shape=laplacian.shape))
        ridge = Ridge(kernel, weights, float(self.sigma), right)
        first = osnn(ClassNeighbors(source, labels, count).nearest(target), float(self.ratio))  # on rows as they are
        told = np.where(first.unknown, count, first.known)
        apart = a_distance(source, target, seed) == FARTHEST
        self.settled_ = False
        for self.n_iter_ in range(1, int(self.rounds) + 1):  # noqa: B020  the number of the last round is kept
            self.mu_ = 0.5 if apart else class_weight(source, labels, target, told, count, seed)
            factors, shares = alignment(labels, told, count, self.mu_)
            self._beta, values = ridge.aligned(factors, shares, float(self.lam))
            before, told = told, values[n:].argmax(axis=1)
            self.settled_ = bool(np.array_equal(before, told))
            if self.settled_:
                break
        return _decided(values[n:])

    def _answer(self, rows: Rows) -> OpenSetAnswer:
        exact = unit(rows)
        step = max(1, BLOCK // len(self._bank))
        parts = [np.exp(exact[i : i + step] @ self._bank.T - 1.0) @ self._beta for i in range(0, len(exact), step)]
        return _decided(np.concatenate([np.empty((0, self._beta.shape[1])), *parts]))


def open_set_risk(
    labels: Numbers, m: int, n_classes: int, alpha: float, gamma: float
) -> tuple[Vector, NDArray[np.float64]]:
    """The diagonal of E - E2 (N,), and E Y - E2 Y2 (N, K+1)."""
    n = len(labels)
    q = max(n, m)
    risk = np.full(n + m, (1.0 - gamma) * q / n)
    right = np.zeros((n + m, n_classes + 1))
    right[np.arange(n), labels] = q / n
    right[:n, n_classes] = -gamma * q / n
    if m:
        risk[n:] = right[n:, n_classes] = alpha * q / m
    return risk, right


def _decided(values: Vector) -> OpenSetAnswer:
    """F (n, K+1) -> the answer; on a tie of unknown and known the class stays, as argmax has it."""
    known = values[:, :-1]
    score = values[:, -1] - known.max(axis=1)
    return OpenSetAnswer(known.argmax(axis=1), score > 0, score)
