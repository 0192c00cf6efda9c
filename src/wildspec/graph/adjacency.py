"""The augmentation graph of Section 3: A = (eta_u A^(u) + eta_l A^(l)) / C, kept as a factor B with A = B B^T.

With T (N x n, column j = T(.|x_j)), source shares p and class means m_c of T's labelled columns,

    A^(u) = T diag(p) T^T                     self-supervised connectivity, Definition 3.1
    A^(l) = sum_c m_c m_c^T                   supervised connectivity, Definition 3.2
    B     = [sqrt(eta_u p) T, sqrt(eta_l) m_1, ..., sqrt(eta_l) m_C] / sqrt(C)

so nothing of size N x N is ever formed unless it is asked for.
"""

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from wildspec.checks import non_negative
from wildspec.errors import InputError
from wildspec.graph.inputs import Array, as_labels, as_prior, as_transition, column_sums, listed, short_indices

DENSE_LIMIT = 10_000  # nodes; a dense N x N matrix of this size is 800 MB


class AugmentationGraph:
    """A graph over N nodes from the augmentations of n sources, some of them labelled.

    transition: (N, n), dense or scipy sparse, >= 0; column j = T(.|x_j). Taken as given: the paper's five-node
        example is not normalized. ``normalize=True`` makes every column sum to 1.
    labels: n entries, -1 = unlabelled, classes 0..C-1.
    eta_u, eta_l: weights of the two connectivities (eq. 3), >= 0.
    prior: n shares of the sources in A^(u) (made to sum to 1; default uniform). The class means m_c are plain means.
    """

    def __init__(
        self,
        transition: Any,
        labels: Any = None,
        *,
        eta_u: float = 1.0,
        eta_l: float = 1.0,
        prior: Any = None,
        normalize: bool = False,
    ) -> None:
        self.eta_u = non_negative("eta_u", eta_u)
        self.eta_l = non_negative("eta_l", eta_l)
        self.transition = as_transition(transition, normalize)  # (N, n) CSR
        self.labels = as_labels("labels", labels, self.transition.shape[1])  # (n,)
        self.prior = as_prior(prior, self.transition.shape[1])  # (n,)
        self._require_connected()

    def __repr__(self) -> str:
        return (
            f"AugmentationGraph({self.n_nodes} nodes, {self.n_sources} sources, {self.n_classes} classes, "
            f"{self.transition.nnz} weights, eta_u={self.eta_u:g}, eta_l={self.eta_l:g})"
        )

    @property
    def n_nodes(self) -> int:
        """N, the number of augmented samples."""
        return int(self.transition.shape[0])

    @property
    def n_sources(self) -> int:
        """n, the number of natural samples."""
        return int(self.transition.shape[1])

    @property
    def n_classes(self) -> int:
        """C, the number of classes with labelled sources."""
        return int(self.labels.max()) + 1

    @cached_property
    def class_means(self) -> sparse.csr_array:
        """(N, C): m_c, the mean of the labelled columns of class c."""
        labelled = np.flatnonzero(self.labels >= 0)
        classes = self.labels[labelled]
        counts = np.bincount(classes, minlength=self.n_classes)
        average = sparse.csr_array(
            (1.0 / counts[classes], (labelled, classes)), shape=(self.n_sources, self.n_classes)
        )
        return short_indices(sparse.csr_array(self.transition @ average))

    @cached_property
    def total(self) -> float:
        """C of the paper: the sum of all entries of eta_u A^(u) + eta_l A^(l)."""
        unlabelled = float(self.prior @ column_sums(self.transition) ** 2)
        labelled = float(np.sum(column_sums(self.class_means) ** 2))
        return self.eta_u * unlabelled + self.eta_l * labelled

    def factor(self) -> sparse.csr_array:
        """B, (N, n + C) sparse, with A = B B^T. Blocks that eta_u = 0 or eta_l = 0 switch off are left out."""
        blocks = []
        if self.eta_u > 0:
            source = self.transition
            data = source.data * np.sqrt(self.eta_u * self.prior / self.total)[source.indices]
            blocks.append(sparse.csr_array((data, source.indices, source.indptr), shape=source.shape))
        if self.eta_l > 0 and self.n_classes > 0:
            blocks.append(self.class_means * np.sqrt(self.eta_l / self.total))
        return blocks[0] if len(blocks) == 1 else sparse.csr_array(sparse.hstack(blocks, format="csr"))

    def degrees(self) -> Array:
        """(N,) w_x = sum_x' A_xx' = B (B^T 1); they sum to 1."""
        return self._degrees.copy()

    @cached_property
    def _degrees(self) -> Array:
        """B (B^T 1) taken apart, so that B itself need not exist: T (eta_u p * T^T 1) + eta_l sum_c m_c (m_c^T 1)."""
        weights = self.eta_u * self.prior * column_sums(self.transition)
        degrees = self.transition @ weights
        if self.eta_l > 0 and self.n_classes > 0:
            degrees = degrees + self.eta_l * (self.class_means @ column_sums(self.class_means))
        return np.asarray(degrees / self.total)

    def scaled_factor(self) -> sparse.csr_array:
        """S = D^-1/2 B, (N, n + C) sparse: the normalized adjacency is S S^T."""
        matrix = self.factor()  # its data is fresh memory
        matrix.data *= np.repeat(1.0 / np.sqrt(self._degrees), np.diff(matrix.indptr))
        return matrix

    def adjacency(self, *, max_nodes: int = DENSE_LIMIT) -> Array:
        """A (N, N), dense, summing to 1; refused above ``max_nodes`` nodes."""
        self._require_small("adjacency", max_nodes)
        matrix = self.factor()
        return np.asarray((matrix @ matrix.T).toarray())

    def self_supervised(self, *, max_nodes: int = DENSE_LIMIT) -> Array:
        """A^(u) = T diag(p) T^T (N, N), dense, without eta_u and without 1/C (eq. 1)."""
        self._require_small("self_supervised", max_nodes)
        return np.asarray(((self.transition * self.prior) @ self.transition.T).toarray())

    def supervised(self, *, max_nodes: int = DENSE_LIMIT) -> Array:
        """A^(l) = sum_c m_c m_c^T (N, N), dense, without eta_l and without 1/C (eq. 2)."""
        self._require_small("supervised", max_nodes)
        return np.asarray((self.class_means @ self.class_means.T).toarray())

    def normalized(self, *, dense: bool = False, max_nodes: int = DENSE_LIMIT) -> Any:
        """D^-1/2 A D^-1/2 (eq. 4) as a LinearOperator, or as an (N, N) array with ``dense=True``."""
        matrix = self.scaled_factor()
        if dense:
            self._require_small("normalized", max_nodes)
            return np.asarray((matrix @ matrix.T).toarray())
        transposed = matrix.T

        def apply(x: Array) -> Array:
            return np.asarray(matrix @ (transposed @ x))

        return LinearOperator(
            (self.n_nodes, self.n_nodes), matvec=apply, rmatvec=apply, matmat=apply, rmatmat=apply, dtype=np.float64
        )

    def _require_small(self, name: str, max_nodes: int) -> None:
        if self.n_nodes > max_nodes:
            raise InputError(
                f"{name}() would fill a dense {self.n_nodes} x {self.n_nodes} matrix; use factor() or normalized(), "
                f"or raise max_nodes above {max_nodes}"
            )

    def _require_connected(self) -> None:
        """Every node needs a positive degree, else D^-1/2 does not exist."""
        if self.eta_u == 0 and (self.eta_l == 0 or self.n_classes == 0):
            raise InputError(
                "eta_u = 0 leaves no edges: it needs labels and eta_l > 0; set eta_u > 0 or give labels"
            )
        with np.errstate(over="ignore"):
            total = self.total
        if not np.finfo(np.float64).tiny <= total < np.inf:
            raise InputError(
                f"the weights of transition are too large or too small (their products sum to {total:g}); "
                "divide them by their largest, or pass normalize=True"
            )
        isolated = np.flatnonzero(self._degrees <= 0)
        if isolated.size:
            raise InputError(
                f"transition leaves isolated nodes (rows {listed(isolated)}): no source with weight reaches them; "
                "drop these rows, or give them weight, a non-zero prior or eta_u > 0"
            )
