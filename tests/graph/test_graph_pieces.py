"""Pieces of a graph against its dense normalized adjacency."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from wildspec.graph import AugmentationGraph, neighbor_graph, spectral_embedding
from wildspec.graph.pieces import indicators, part_of, pieces, spread


@pytest.fixture
def graph(rng):
    """Five clouds far apart, of 6 to 14 nodes; a class joins two of them, another lies in one."""
    rows = np.concatenate([rng.normal(size=(6 + 2 * i, 3)) + 100 * i for i in range(5)])
    labels = np.full(len(rows), -1)
    labels[[0, 1, 20]] = 0  # of the first and the third cloud
    labels[[-1, -2]] = 1
    transition = neighbor_graph(rows, 4, metric="euclidean").transition()
    return AugmentationGraph(transition, labels, eta_u=1.3, eta_l=0.4)


def test_pieces_are_the_connected_components_of_the_adjacency(graph):
    expected = connected_components(sparse.csr_array(graph.adjacency() > 0), directed=False)[1]
    found = pieces(graph)
    same = found[:, None] == found[None]
    np.testing.assert_array_equal(same, expected[:, None] == expected[None])
    alone = AugmentationGraph(graph.transition, graph.labels, eta_u=1.0, eta_l=0.0)  # classes join nobody
    apart = connected_components(sparse.csr_array(alone.adjacency() > 0), directed=False)[0]
    assert pieces(alone).max() + 1 == apart > found.max() + 1


def test_indicators_are_eigenvectors_of_eigenvalue_one_in_the_order_asked_for(graph):
    piece = pieces(graph)
    chosen = np.array([2, 0])
    found = indicators(graph, piece, chosen)
    np.testing.assert_allclose(graph.normalized(dense=True) @ found.vectors, found.vectors, atol=1e-12)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(2), atol=1e-12)
    for column, number in enumerate(chosen):
        np.testing.assert_array_equal(found.vectors[:, column] > 0, piece == number)
    np.testing.assert_array_equal(found.values, 1)


def test_a_part_has_the_adjacency_of_the_whole_cut_to_its_nodes(graph):
    piece = pieces(graph)
    nodes = np.flatnonzero(np.isin(piece, [piece[-1], piece[6]]))  # the second class and a cloud without any
    part = part_of(graph, nodes)
    np.testing.assert_allclose(part.normalized(dense=True), graph.normalized(dense=True)[np.ix_(nodes, nodes)], atol=1e-12)
    assert part.n_classes == 1
    inside = spectral_embedding(part, 4)
    whole = spread(graph, nodes, inside)
    np.testing.assert_allclose(
        graph.normalized(dense=True) @ whole.vectors, whole.vectors * whole.values, atol=1e-9
    )  # an eigenvector of the part is one of the whole
    assert not whole.vectors[np.setdiff1d(np.arange(graph.n_nodes), nodes)].any()
    np.testing.assert_array_equal(whole.degrees, graph.degrees())
