"""The graph over shifted wild samples, factorized: features as its leading eigenvectors see them, for new samples too.

A class is a region of the graph, not a point: the k leading eigenvectors are nearly constant on such regions. Keeping only
them (the low-pass filter of `wildspec.graph.extension`) replaces a sample's features by what its region has in common and
drops what is peculiar to the sample. On these features a probe learned from labelled samples transfers far better. Where the
graph falls into more pieces than there are eigenvectors, these are the largest pieces themselves (`pieces`).
"""

import warnings
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.blas import one_blas_thread
from wildspec.graph import AugmentationGraph, SpectralEmbedding, spectral_embedding
from wildspec.graph.extension import NEGLIGIBLE, SpectralExtension, low_pass, warm_embedding
from wildspec.graph.neighbors import NeighborGraph, neighbor_graph
from wildspec.graph.pieces import indicators, part_of, pieces, spread
from wildspec.graph.search import Rows, unit_rows

Vector = NDArray[np.float64]

TOLERANCE = 1e-6  # of the eigenpairs: far below what decisions can feel
LARGE = 30_000  # nodes above which neighbours are approximate (`wildspec.graph.search`), and eigenpairs need be no better
LOOSE = 1e-4
TIME = 1.0  # of diffusion of the features
LEAST = 2  # times n_neighbors: nodes of a piece of the graph that counts as a region


@dataclass(frozen=True)
class GraphSettings:
    """How the graph is built and cut; see `SpectralClassifier`."""

    n_components: int = 16
    n_neighbors: int = 10
    search: str = "auto"
    engine: str = "local"
    seed: int = 0

    @classmethod
    def of(cls, record: dict[str, Any]) -> "GraphSettings":
        """From a bundle; what earlier versions kept besides is passed over."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in record.items() if name in known})


@dataclass(frozen=True, eq=False)
class WildGraph:
    """``rows`` (n, d) aligned wild samples; ``extension`` to new points; ``filter_`` (k, d + 1): low-pass of features, 1."""

    rows: Rows
    neighbors: NeighborGraph
    extension: SpectralExtension
    filter_: Vector
    embedding: Vector  # (n, k)
    values: Vector  # (k,) eigenvalues
    settings: GraphSettings

    def __len__(self) -> int:
        return len(self.rows)

    def coordinates(self, aligned: Rows) -> Vector:
        """(m, d) aligned samples -> (m, k) spectral coordinates; a sample of the graph has its own."""
        rows, member = self.neighbors.place(aligned)
        return np.where(member[:, None] >= 0, self.embedding[member], self.extension.extend(rows))

    def denoise(self, aligned: Rows) -> Rows:
        """(m, d) aligned samples -> (m, d) of length 1: their features as the leading eigenvectors see them.

        In a component of the graph that has none of the leading eigenvectors (there are more components than eigenvectors)
        the filter sees nothing, not even a constant; there the features stay as they are.
        """
        return self._filtered(aligned, self.coordinates(aligned))

    def denoised_members(self, chosen: NDArray[np.int64]) -> Rows:
        """The same for samples of the graph itself, by their own rows of it."""
        return self._filtered(self.rows[chosen], self.embedding[chosen])

    def _filtered(self, aligned: Rows, coordinates: Vector) -> Rows:
        filtered = coordinates @ self.filter_
        seen = np.clip(filtered[:, -1:], 0.0, 1.0)
        return unit_rows(filtered[:, :-1] + (1.0 - seen) * aligned)

    def distances(self, aligned: Rows) -> Rows:
        """(m,) distance to the nearest sample of the graph."""
        return self.neighbors.index.search(aligned, 1)[0][:, 0]

    def own_distances(self, chosen: NDArray[np.int64]) -> Rows:
        """(m,) distance of samples of the graph to the nearest other one."""
        found = self.neighbors.index.search(self.rows[chosen], min(2, len(self)))[0]
        return found[:, -1]


def build_graph(aligned: Rows, settings: GraphSettings) -> WildGraph:
    """(n, d) aligned wild samples, n >= 4 -> the factorized graph."""
    return _factorize(aligned, _neighbors(aligned, settings), settings)


def grow(graph: WildGraph, aligned: Rows) -> WildGraph:
    """The graph with further samples, solved from the old solution extended to them."""
    rows = np.concatenate([graph.rows, aligned])
    start = np.vstack([graph.embedding, graph.coordinates(aligned)])
    return _factorize(rows, _neighbors(rows, graph.settings), graph.settings, start)


def _neighbors(rows: Rows, settings: GraphSettings) -> NeighborGraph:
    found = None
    if settings.engine == "ray":
        from wildspec.graph.ray_engine import neighbors

        k = min(settings.n_neighbors, len(rows))
        found = neighbors(rows, k, metric="euclidean", method=settings.search, seed=settings.seed)
    return neighbor_graph(
        rows, settings.n_neighbors, metric="euclidean", method=settings.search, seed=settings.seed, precomputed=found
    )


def _factorize(
    rows: Rows, neighbors: NeighborGraph, settings: GraphSettings, start: Vector | None = None
) -> WildGraph:
    graph = AugmentationGraph(neighbors.transition())
    embedding = _embedding(graph, settings, start)
    embedding = _with_weight(embedding)
    functions = np.concatenate([rows, np.ones((len(rows), 1), np.float32)], axis=1)
    return WildGraph(
        rows=rows,
        neighbors=neighbors,
        extension=_plain(SpectralExtension.of(graph, embedding), graph),
        filter_=low_pass(embedding, functions, TIME),
        embedding=embedding.embedding,
        values=embedding.values,
        settings=settings,
    )


def _embedding(graph: AugmentationGraph, settings: GraphSettings, start: Vector | None) -> SpectralEmbedding:
    k = min(settings.n_components, graph.n_nodes - 2)
    tol = TOLERANCE if graph.n_nodes <= LARGE else LOOSE
    piece = pieces(graph)
    sizes = np.bincount(piece)
    regions = np.flatnonzero(sizes >= LEAST * settings.n_neighbors)
    if len(sizes) > k and len(regions) > k:
        return indicators(graph, piece, regions[np.argsort(-sizes[regions], kind="stable")[:k]])
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore", UserWarning)  # a repeated k-th eigenvalue: the filter needs no particular basis
        if len(sizes) > k and len(regions):
            nodes = np.flatnonzero(np.isin(piece, regions))
            part = part_of(graph, nodes)
            k = min(k, part.n_nodes - 2)  # the regions may be few among many small pieces
            return spread(graph, nodes, spectral_embedding(part, k, tol=tol, seed=settings.seed))
        if start is not None and start.shape[1] == k:
            return warm_embedding(graph, start, tol=tol, seed=settings.seed)
        return spectral_embedding(graph, k, tol=tol, seed=settings.seed)


def _with_weight(embedding: SpectralEmbedding) -> SpectralEmbedding:
    """Without directions of eigenvalue 0: duplicates can leave fewer than k."""
    keep = int((embedding.values > max(NEGLIGIBLE, 1e-9)).sum())
    if keep == len(embedding.values):
        return embedding
    return SpectralEmbedding(
        embedding.values[:keep], embedding.vectors[:, :keep], embedding.degrees, embedding.residuals[:keep],
        embedding.solver, False,
    )  # fmt: skip


def _plain(extension: SpectralExtension, graph: AugmentationGraph) -> SpectralExtension:
    """Only what new points need: they carry no label."""
    count = graph.n_sources
    return SpectralExtension(extension.coordinates[:count], extension.mass[:count], count)
