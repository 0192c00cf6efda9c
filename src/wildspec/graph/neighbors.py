"""The transition T of Section 3 from ready-made embeddings: who could have been an augmentation of whom.

    w_ij = exp(-d_ij^2 / (s_i s_j))     if j is among the k nearest of i, or i among those of j; w_ii = 1; else 0
    T_ij = w_ij / sum_i w_ij            column j = T(.|x_j)

s_i is the distance of i to its 7th neighbour (local scaling, Zelnik-Manor & Perona, 2004): dense and sparse regions get
equally strong edges. Where several embeddings of augmented copies of one sample are at hand, `group_transition` gives the
paper's T literally.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wildspec.checks import integer
from wildspec.errors import InputError
from wildspec.graph.inputs import as_array, column_sums
from wildspec.graph.search import Indices, NeighborIndex, Rows

CANDIDATES = 3  # times k: how many are looked at for the row of a new point
SCALE_NEIGHBOR = 7  # whose distance is the local scale; the k-th where k is smaller
UNDERFLOW = 50.0  # exponents of a row are kept below this
TWIN = 0.01  # of the local scale: a sample that went through half precision, or another processor, is still itself
FLOOR = 1e-6  # scales below this share of the median are duplicates: without a floor their weights would be 0 / 0


@dataclass(frozen=True, eq=False)
class NeighborGraph:
    """Kernel weights between n embeddings, and how to weigh new ones against them."""

    kernel: sparse.csr_array  # (n, n) symmetric, w_ii = 1
    mass: NDArray[np.float64]  # (n,) column sums of the kernel
    scales: Rows  # (n,) s_i
    radii: Rows  # (n,) distance to the k-th nearest, itself counted
    n_neighbors: int
    mutual: bool
    index: NeighborIndex
    recall: float  # share of true neighbours the index finds; 1 where it is exact

    def __len__(self) -> int:
        return len(self.mass)

    @property
    def method(self) -> str:
        """How neighbours were found: exact, ivf or hnsw."""
        return self.index.method

    def transition(self, groups: Any = None) -> sparse.csr_array:
        """T (n, n), columns sum to 1.

        groups: n values, equal for augmented embeddings of one sample -> T (n, number of samples), T(.|x_j) being the mean
        over the copies of x_j: what one of its augmentations could be, or be taken for.
        """
        own = sparse.csr_array(
            (self.kernel.data / self.mass[self.kernel.indices], self.kernel.indices, self.kernel.indptr),
            shape=self.kernel.shape,
        )
        if groups is None:
            return own
        copies, _ = group_transition(groups)
        if copies.shape[0] != len(self):
            raise InputError(f"groups must hold one value for each of the {len(self)} embeddings, got {copies.shape[0]}")
        return sparse.csr_array(own @ copies)

    def rows(self, queries: Any) -> sparse.csr_array:
        """(m, d) new embeddings -> (m, n) their rows of T: T(x|x_j) for every x_j, by the rule that made the graph.

        Candidates are the 3 k nearest, so that also samples are seen that would count the query among their k nearest.
        A query that is a sample of the graph gets its own row back, up to reverse neighbours beyond those candidates.
        """
        return self.place(queries)[0]

    def place(self, queries: Any) -> tuple[sparse.csr_array, Indices]:
        """(m, d) embeddings -> their `rows`, and (m,) which sample of the graph each of them is; -1: none."""
        count = min(CANDIDATES * self.n_neighbors, len(self))
        distances, indices = self.index.search(queries, count)
        return _query_rows(self, distances, indices), np.where(_twin(self, distances, indices), indices[:, 0], -1)


def neighbor_graph(
    embeddings: Any,
    n_neighbors: int = 10,
    *,
    metric: str = "cosine",
    mutual: bool = False,
    method: str = "auto",
    seed: int = 0,
    precomputed: tuple[Rows, Indices] | None = None,
) -> NeighborGraph:
    """The graph over the rows of ``embeddings`` (n, d), finite.

    n_neighbors: k, the sample itself counted, at least 2. mutual: an edge only where each is among the other's k nearest.
    metric, method: see `NeighborIndex`. precomputed: distances and rows (n, k) of the k nearest of every row, itself first,
    where they were found elsewhere.
    """
    integer("n_neighbors", n_neighbors, minimum=2)
    rows = as_array("embeddings", embeddings, np.float32)
    if rows.ndim != 2 or len(rows) < 2:
        raise InputError(f"a neighbour graph needs at least 2 rows of embeddings, got shape {rows.shape}")
    index = NeighborIndex(rows, metric=metric, method=method, seed=seed)
    distances, indices = index.search_self(min(n_neighbors, len(rows))) if precomputed is None else precomputed
    if distances.shape != indices.shape or distances.shape[0] != len(rows):
        raise InputError(f"precomputed neighbours must have a row for each of {len(rows)} embeddings, got {distances.shape}")
    first, last = int(indices.min()), int(indices.max())
    if first < 0 or last >= len(rows):
        raise InputError(f"precomputed neighbours must be rows 0 to {len(rows) - 1} of embeddings, got {first} to {last}")
    scales = local_scales(distances)
    directed = _sparse(np.exp(-_exponent(distances, scales[:, None], scales[indices])), indices, len(rows))
    kernel = directed.minimum(directed.T) if mutual else directed.maximum(directed.T)
    kernel = sparse.csr_array(kernel)
    kernel.eliminate_zeros()
    kernel.sort_indices()
    return NeighborGraph(
        kernel=kernel,
        mass=column_sums(kernel),
        scales=scales,
        radii=distances.max(axis=1),
        n_neighbors=n_neighbors,
        mutual=mutual,
        index=index,
        recall=float(index.recall(n_neighbors)),
    )


def group_transition(groups: Any) -> tuple[sparse.csr_array, NDArray[Any]]:
    """The paper's T where embeddings of several augmented copies of each sample are given.

    groups: N values, equal for copies of one sample -> T (N, n) with T(x|x_j) = 1 / (copies of j) for the copies of j,
    and the n distinct values in the order of T's columns.
    """
    values = np.asarray(groups)
    if values.ndim != 1 or not len(values):
        raise InputError(f"groups must hold one value per embedding, got shape {values.shape}")
    names, sources = np.unique(values, return_inverse=True)
    copies = np.bincount(sources)
    shape = (len(values), len(names))
    return sparse.csr_array((1.0 / copies[sources], (np.arange(len(values)), sources)), shape=shape), names


def local_scales(distances: Rows) -> Rows:
    """(n, k) ascending distances, the sample itself first -> (n,) distance to the 7th neighbour, or the last there is."""
    scales = distances[:, min(SCALE_NEIGHBOR, distances.shape[1] - 1)]
    typical = np.median(scales[scales > 0]) if (scales > 0).any() else 1.0
    return np.maximum(scales, FLOOR * typical).astype(np.float32)


def _sparse(weights: NDArray[np.float64], indices: Indices, count: int) -> sparse.csr_array:
    """(n, k) weights and columns -> (n, n)."""
    width = indices.shape[1]
    keep = weights.ravel() > 0
    rows = np.repeat(np.arange(len(indices)), width)[keep]
    return sparse.csr_array((weights.ravel()[keep], (rows, indices.ravel()[keep])), shape=(len(indices), count))


def _twin(graph: NeighborGraph, distances: Rows, indices: Indices) -> NDArray[np.bool_]:
    """(m,) whether a query is its nearest sample: it stands where that one stands."""
    return np.asarray(distances[:, 0] <= TWIN * graph.scales[indices[:, 0]])


def _query_rows(graph: NeighborGraph, distances: Rows, indices: Indices) -> sparse.csr_array:
    k = graph.n_neighbors
    twin = _twin(graph, distances, indices)[:, None]
    rank = np.arange(distances.shape[1])[None] + ~twin  # its own place counts among the k nearest
    forward, reverse = rank < k, distances <= graph.radii[indices]
    keep = (forward & reverse) if graph.mutual else (forward | reverse)
    keep[:, 0] |= ~keep.any(axis=1)  # nobody's neighbour: lean on the nearest
    place = np.clip(np.minimum(SCALE_NEIGHBOR, k - 1) - ~twin[:, 0], 0, distances.shape[1] - 1)
    mine = np.maximum(np.take_along_axis(distances, place[:, None], 1), FLOOR * np.median(graph.scales))
    exponent = np.where(keep, _exponent(distances, mine, graph.scales[indices]), np.inf)
    lowest = exponent.min(axis=1, keepdims=True)
    if not twin.all():  # far from everything all weights would underflow; only the ratios within a row matter
        exponent = exponent - np.where(twin, 0.0, np.maximum(lowest - UNDERFLOW, 0.0))
    weights = np.exp(-exponent) / graph.mass[indices]
    return _sparse(weights, indices, len(graph))


def _exponent(distances: Rows, mine: Rows, theirs: Rows) -> NDArray[np.float64]:
    return distances.astype(np.float64) ** 2 / (mine.astype(np.float64) * theirs)
