"""What is left to chance elsewhere: what a caller may change, where equal ends and different begins, and what a start is
worth."""

import numpy as np
import pytest

from wildspec.errors import InputError
from wildspec.graph import AugmentationGraph, SpectralEmbedding, spectral_embedding
from wildspec.graph.canonical import DEGENERATE, eigenvalue_groups
from wildspec.graph.extension import SpectralExtension, warm_embedding
from wildspec.graph.neighbors import neighbor_graph


@pytest.fixture
def graph(rng):
    rows = np.concatenate([rng.normal(size=(40, 5)) + 4 * centre for centre in np.eye(5)[:3]])
    return AugmentationGraph(neighbor_graph(rows, 8, metric="euclidean").transition())


def test_what_comes_out_of_a_graph_may_be_changed(graph):
    before = graph.adjacency().copy()
    graph.degrees()[:] = 7.0
    graph.factor().data[:] = 7.0
    graph.scaled_factor().data[:] = 7.0
    np.testing.assert_array_equal(graph.adjacency(), before)
    np.testing.assert_allclose(graph.degrees(), before.sum(axis=1))


@pytest.mark.parametrize(("distance", "groups"), [(0.9, 1), (1.1, 2), (5.0, 2)])
def test_eigenvalues_are_equal_up_to_the_distance_that_is_written_down(distance, groups):
    assert len(eigenvalue_groups(np.array([0.5, 0.5 - distance * DEGENERATE]))) == groups


def test_directions_without_weight_cannot_be_extended(rng):
    """Three copies of each of four samples: rank 4, and a fifth direction has eigenvalue 0."""
    graph = AugmentationGraph(np.repeat(np.eye(4), 3, axis=0))
    four = spectral_embedding(graph, 4)
    extended = SpectralExtension.of(graph, four).extend(graph.transition)
    np.testing.assert_allclose(extended, four.embedding, atol=1e-10)
    five = SpectralEmbedding(
        np.r_[four.values, 0.0], np.c_[four.vectors, rng.normal(size=12)], four.degrees, np.zeros(5), "made up", False
    )
    with pytest.raises(InputError, match="only 4 directions with weight; choose k = 4"):
        SpectralExtension.of(graph, five)


def test_a_start_that_is_the_solution_needs_no_second_cycle(graph):
    """And the start is read as an embedding: as eigenvectors it would be a worse one, and one cycle not enough."""
    whole = spectral_embedding(graph, 6, tol=1e-12)
    warm = warm_embedding(graph, whole.embedding, tol=1e-9, max_iter=1)
    assert warm.solver == "warm"
    np.testing.assert_allclose(warm.embedding, whole.embedding, atol=1e-8)
    assert warm_embedding(graph, np.ones((120, 1)) @ np.ones((1, 6)), tol=1e-9, max_iter=1).solver != "warm"
