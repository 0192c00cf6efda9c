import numpy as np
import pytest
from scipy import linalg

from wildspec.errors import InputError
from wildspec.graph import AugmentationGraph, spectral_embedding
from wildspec.graph.extension import SpectralExtension, low_pass, warm_embedding
from wildspec.graph.neighbors import neighbor_graph


@pytest.fixture
def points(rng):
    centres = rng.normal(size=(4, 5)) * 2
    return centres[rng.integers(4, size=120)] + 0.5 * rng.normal(size=(120, 5))


@pytest.fixture
def labels(rng):
    values = np.full(120, -1)
    values[:40] = np.arange(40) % 3
    return values


def test_nodes_of_the_graph_get_their_embedding_back_exactly(points):
    graph = AugmentationGraph(neighbor_graph(points, 8).transition())
    embedding = spectral_embedding(graph, 6)
    extended = SpectralExtension.of(graph, embedding).extend(graph.transition)
    np.testing.assert_allclose(extended, embedding.embedding, atol=1e-8)


def test_with_labels_too_when_their_class_rows_are_given(points, labels):
    graph = AugmentationGraph(neighbor_graph(points, 8).transition(), labels, eta_u=2.0, eta_l=0.3)
    embedding = spectral_embedding(graph, 6)
    extension = SpectralExtension.of(graph, embedding)
    whole = extension.extend(graph.transition, graph.class_means)
    np.testing.assert_allclose(whole, embedding.embedding, atol=1e-8)
    assert np.abs(extension.extend(graph.transition) - embedding.embedding).max() > 1e-3  # a new point has no label


def test_a_new_point_is_nystrom_on_the_dense_adjacency(points):
    """v(x) = (1 / lambda) sum_x' A~_xx' v(x') written out with dense matrices."""
    neighbours = neighbor_graph(points, 8)
    graph = AugmentationGraph(neighbours.transition())
    embedding = spectral_embedding(graph, 5)
    rows = neighbours.rows(points[:7] + 0.1).toarray()
    total, share = graph.total, graph.prior
    edges = (rows * share) @ graph.transition.toarray().T / total  # A between new and old points, (7, N)
    degrees = edges.sum(axis=1)
    normalized = edges / np.sqrt(degrees)[:, None] / np.sqrt(graph.degrees())
    vectors = normalized @ embedding.vectors / embedding.values
    expected = vectors * np.sqrt(embedding.values) / np.sqrt(degrees)[:, None]
    np.testing.assert_allclose(SpectralExtension.of(graph, embedding).extend(rows), expected, atol=1e-8)


def test_the_scale_of_a_row_does_not_matter(points):
    neighbours = neighbor_graph(points, 8)
    graph = AugmentationGraph(neighbours.transition())
    extension = SpectralExtension.of(graph, spectral_embedding(graph, 4))
    rows = neighbours.rows(points[:5] + 0.1)
    np.testing.assert_allclose(extension.extend(rows), extension.extend(rows * 17.0))


@pytest.mark.parametrize("time", [0.0, 1.0, 3.0])
def test_low_pass_is_diffusion_by_dense_matrix_powers(points, rng, time):
    """With all eigenvectors, lambda^t is (D^-1 A)^t."""
    graph = AugmentationGraph(neighbor_graph(points, 8).transition())
    functions = rng.normal(size=(120, 3))
    walk = graph.adjacency() / graph.degrees()[:, None]
    values, vectors = linalg.eigh(graph.normalized(dense=True))
    keep = 6
    embedding = spectral_embedding(graph, keep)
    smoothed = embedding.embedding @ low_pass(embedding, functions, time)
    top = vectors[:, ::-1][:, :keep]
    scale = np.sqrt(graph.degrees())[:, None]
    projector = (top / scale) @ (top * scale).T
    np.testing.assert_allclose(smoothed, projector @ np.linalg.matrix_power(walk, int(time)) @ functions, atol=1e-8)
    assert values[-1] == pytest.approx(1.0)


def test_low_pass_keeps_a_constant(points):
    graph = AugmentationGraph(neighbor_graph(points, 60).transition())  # one component: the constant is an eigenvector
    embedding = spectral_embedding(graph, 3)
    np.testing.assert_allclose(embedding.embedding @ low_pass(embedding, np.ones((120, 1)), 2.0), 1.0, atol=1e-8)


def test_a_grown_graph_is_solved_from_the_old_solution(points):
    small = AugmentationGraph(neighbor_graph(points[:100], 8).transition())
    old = spectral_embedding(small, 5)
    neighbours = neighbor_graph(points[:100], 8)
    start = np.vstack([old.embedding, SpectralExtension.of(small, old).extend(neighbours.rows(points[100:]))])
    graph = AugmentationGraph(neighbor_graph(points, 8).transition())
    warm, cold = warm_embedding(graph, start), spectral_embedding(graph, 5)
    np.testing.assert_allclose(warm.values, cold.values, atol=1e-10)
    np.testing.assert_allclose(warm.embedding, cold.embedding, atol=1e-6)
    assert warm.solver == "warm"
    assert warm.residuals.max() < 1e-7


def test_a_start_that_leads_nowhere_is_still_solved(points, rng):
    graph = AugmentationGraph(neighbor_graph(points, 8).transition())
    found = warm_embedding(graph, rng.normal(size=(120, 5)), max_iter=1)
    np.testing.assert_allclose(found.embedding, spectral_embedding(graph, 5).embedding, atol=1e-6)
    assert found.solver != "warm"


def test_wrong_input_is_one_clear_line(points):
    neighbours = neighbor_graph(points, 8)
    graph = AugmentationGraph(neighbours.transition())
    embedding = spectral_embedding(graph, 4)
    extension = SpectralExtension.of(graph, embedding)
    with pytest.raises(InputError, match=r"one column for .*120"):
        extension.extend(np.ones((2, 7)))
    with pytest.raises(InputError, match=r"one column .*120 .*got shape \(120,\)"):
        extension.extend(np.ones(120))
    with pytest.raises(InputError, match="no weight on any source"):
        extension.extend(np.zeros((2, 120)))
    with pytest.raises(InputError, match=r"one row for .*120"):
        low_pass(embedding, np.ones((3, 2)))
    with pytest.raises(InputError, match=r"one row for .*120"):
        warm_embedding(graph, np.ones((3, 2)))
    with pytest.raises(InputError, match=r"start must be .*\(nodes, k\)"):
        warm_embedding(graph, np.ones(120))
