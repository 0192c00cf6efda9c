"""The leading eigenvectors of a graph that falls into pieces.

A graph of m connected pieces has the eigenvalue 1 m times; its eigenvectors are sqrt(degree) on one piece and 0 elsewhere,
or any mixture of these. Where m > k, k eigenvectors from a solver are such mixtures, and a filter made of them adds to a
sample's features what belongs to other pieces. So the pieces are found first (in time linear in the edges):

    more than k regions     the k largest, exactly, one eigenvector each; nothing is solved
    k regions or fewer      the k leading eigenvectors of the regions alone

A region is a piece of at least ``least`` nodes. Nodes outside of what was kept have coordinates 0.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from wildspec.graph import AugmentationGraph, SpectralEmbedding

Labels = NDArray[np.int64]


def pieces(graph: AugmentationGraph) -> Labels:
    """(N,) the connected piece of each node. Every node is one of its own neighbours, and classes join their samples."""
    found = connected_components(graph.transition, directed=False)[1].astype(np.int64)
    if graph.eta_l == 0 or graph.n_classes == 0:
        return found
    labelled = np.flatnonzero(graph.labels >= 0)
    order = np.argsort(graph.labels[labelled], kind="stable")
    labelled, classes = labelled[order], graph.labels[labelled][order]
    first = labelled[np.searchsorted(classes, classes)]  # of the class
    count = int(found.max()) + 1
    joined = sparse.coo_array((np.ones(len(labelled)), (found[labelled], found[first])), shape=(count, count))
    return connected_components(joined, directed=False)[1].astype(np.int64)[found]


def indicators(graph: AugmentationGraph, piece: Labels, chosen: Labels) -> SpectralEmbedding:
    """One exact eigenvector for each chosen piece: sqrt(degree) on it, of length 1; eigenvalue 1."""
    degrees = graph.degrees()
    place = np.full(int(piece.max()) + 1, -1, dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    at = place[piece]
    inside = np.flatnonzero(at >= 0)
    mass = np.bincount(at[inside], weights=degrees[inside], minlength=len(chosen))
    vectors = np.zeros((len(degrees), len(chosen)))
    vectors[inside, at[inside]] = np.sqrt(degrees[inside] / mass[at[inside]])
    nothing = np.zeros(len(chosen))
    return SpectralEmbedding(np.ones(len(chosen)), vectors, degrees, nothing, "pieces", False)


def part_of(graph: AugmentationGraph, nodes: Labels) -> AugmentationGraph:
    """The graph of some of its pieces; its normalized adjacency is that of the whole, cut to these nodes."""
    whole, labels = graph.transition, graph.labels[nodes]
    known = labels >= 0
    labels[known] = np.unique(labels[known], return_inverse=True)[1]
    share = len(nodes) / graph.n_sources  # a source weighs 1 / n of the whole in A^(u), and nothing less here
    return AugmentationGraph(whole[nodes][:, nodes], labels, eta_u=graph.eta_u * share, eta_l=graph.eta_l)


def spread(graph: AugmentationGraph, nodes: Labels, found: SpectralEmbedding) -> SpectralEmbedding:
    """The embedding of `part_of` as one of the whole graph: 0 on the nodes that were left out."""
    vectors = np.zeros((graph.n_nodes, found.vectors.shape[1]))
    vectors[nodes] = found.vectors
    return SpectralEmbedding(found.values, vectors, graph.degrees(), found.residuals, found.solver, found.split_eigenspace)
