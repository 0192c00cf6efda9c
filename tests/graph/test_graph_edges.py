"""What is left to chance elsewhere: what a caller may change, where equal ends and different begins, and what a start is
worth."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from wildspec.errors import InputError, InputTypeError
from wildspec.graph import AugmentationGraph, SpectralEmbedding, spectral_embedding
from wildspec.graph.canonical import DEGENERATE, eigenvalue_groups
from wildspec.graph.extension import SpectralExtension, warm_embedding
from wildspec.graph.neighbors import neighbor_graph
from wildspec.graph.probe import linear_probe, linear_probe_error


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
    with pytest.raises(InputError, match=r"only 4 directions.*k = 4"):
        SpectralExtension.of(graph, five)


def test_a_start_that_is_the_solution_needs_no_second_cycle(graph):
    """And the start is read as an embedding: as eigenvectors it would be a worse one, and one cycle not enough."""
    whole = spectral_embedding(graph, 6, tol=1e-12)
    warm = warm_embedding(graph, whole.embedding, tol=1e-9, max_iter=1)
    assert warm.solver == "warm"
    np.testing.assert_allclose(warm.embedding, whole.embedding, atol=1e-8)
    assert warm_embedding(graph, np.ones((120, 1)) @ np.ones((1, 6)), tol=1e-9, max_iter=1).solver != "warm"


@pytest.mark.parametrize("unit", [1e-7, 1.0, 1e7])
def test_a_tie_is_a_tie_in_any_unit_and_a_difference_a_difference(unit):
    inside, outside = np.eye(2) * unit, np.array([[1.0, 1.0], [1.0, 1.0 + 1e-6], [1.0, 1.0 + 1e-10]]) * unit
    found = linear_probe_error(inside, [0, 1], outside, [1, 1, 1])
    assert found.predictions.tolist() == [-1, 1, -1]
    assert (found.count, found.mean) == (2, pytest.approx(2 / 3))


def test_a_direction_that_is_rounding_is_left_out_of_the_probe(rng):
    """The third feature is the sum of the others but for 1e-12: least squares of smallest norm on two directions."""
    two = rng.normal(size=(12, 2))
    labels = np.arange(12) % 3
    features = np.c_[two, two.sum(axis=1) + 1e-12 * rng.normal(size=12)]
    exact = np.c_[two, two.sum(axis=1)]
    expected = exact.T @ np.linalg.pinv(exact @ exact.T, rcond=1e-6) @ np.eye(3)[labels]
    np.testing.assert_allclose(linear_probe(features, labels), expected, atol=1e-8)


def test_weights_given_twice_are_added_and_the_givers_matrix_stays(rng):
    """A CSR matrix may name a place twice; what is squared or normalized must be the sum."""
    dense = rng.random((6, 4)) + 0.1
    rows, columns = np.indices((6, 4)).reshape(2, -1)
    first = 0.3 * dense.ravel()
    indptr = np.arange(0, 49, 8)
    order = np.argsort(np.r_[rows, rows], kind="stable")
    twice = sparse.csr_array(
        (np.r_[first, dense.ravel() - first][order], np.r_[columns, columns][order], indptr), shape=(6, 4)
    )
    assert not twice.has_canonical_format
    graph = AugmentationGraph(twice, [0, 0, 1, -1], eta_u=0.7, eta_l=1.3)
    np.testing.assert_allclose(graph.adjacency(), AugmentationGraph(dense, [0, 0, 1, -1], eta_u=0.7, eta_l=1.3).adjacency())
    np.testing.assert_allclose(graph.degrees(), graph.adjacency().sum(axis=1))
    assert twice.nnz == 48


@pytest.mark.parametrize("solver", ["lanczos", "torch"])
def test_an_eigenvalue_with_more_copies_than_are_followed_is_said(solver):
    """Forty pieces that hang together each: the eigenvalue 1 forty times, three of them wanted."""
    graph = AugmentationGraph(np.kron(np.eye(40), np.ones((3, 3))))
    with pytest.warns(UserWarning, match="is repeated beyond"):
        found = spectral_embedding(graph, 3, solver=solver)
    assert found.split_eigenspace
    np.testing.assert_allclose(found.values, 1.0, atol=1e-9)
    few = AugmentationGraph(np.kron(np.eye(5), np.ones((3, 3))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert spectral_embedding(few, 3, solver=solver).split_eigenspace  # five copies: all are looked at


def test_a_tie_is_measured_by_what_a_score_can_be():
    """Scores of 100 that differ by 1e-7 are one score but for rounding; scores of 1e-4 that differ by 1e-9 are two."""
    found = linear_probe_error(np.eye(2), [0, 1], np.array([[100.0, 100.0 + 1e-7], [1e-4, 1e-4 + 1e-9]]), [1, 1])
    assert found.predictions.tolist() == [-1, 1]


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("k", [5, 12])
def test_the_row_of_a_new_point_is_the_rule_that_made_the_graph(k, mutual, rng):
    """Slowly: the point is one of its own k nearest, so k - 1 samples are; s is the distance to its 7th neighbour; samples
    that would count it among their k nearest are neighbours too."""
    rows = rng.normal(size=(60, 3)).astype(np.float32)
    asked = (0.7 * rng.normal(size=(9, 3))).astype(np.float32)
    graph = neighbor_graph(rows, k, metric="euclidean", mutual=mutual)
    found = graph.rows(asked).toarray()
    between = np.linalg.norm(rows[:, None].astype(float) - rows[None], axis=2)
    radius, scale = np.sort(between, axis=1)[:, k - 1], np.sort(between, axis=1)[:, min(7, k - 1)]
    mass = graph.kernel.toarray().sum(axis=0)
    for query, row in zip(asked.astype(float), found, strict=True):
        away = np.linalg.norm(rows - query, axis=1)
        order = np.argsort(away)
        forward, reverse = np.isin(np.arange(60), order[: k - 1]), away <= radius
        reverse &= np.isin(np.arange(60), order[: 3 * k])
        keep = forward & reverse if mutual else forward | reverse
        keep[order[0]] |= not keep.any()
        own = away[order[min(7, k - 1) - 1]]
        weights = np.exp(-(away**2) / (own * scale))
        np.testing.assert_allclose(row, np.where(keep, weights / mass, 0), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("kind", ["plain", "gradient", "bfloat16"])
def test_a_graph_takes_torch_tensors(kind, rng):
    """Augmentation probabilities that a network gave come with a gradient, or in half precision."""
    import torch

    plain = torch.tensor(rng.integers(1, 9, (6, 4)) / 8)  # eighths are exact in bfloat16
    given = {"plain": plain, "gradient": plain.clone().requires_grad_(), "bfloat16": plain.bfloat16()}[kind]
    graph = AugmentationGraph(given, torch.tensor([0, 1, -1, 0]), prior=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    expected = AugmentationGraph(plain.numpy(), [0, 1, -1, 0], prior=[1.0, 2.0, 3.0, 4.0]).adjacency()
    np.testing.assert_array_equal(graph.adjacency(), expected)


def test_a_sparse_torch_tensor_is_refused_in_one_line():
    import torch

    with pytest.raises(InputTypeError, match=r"^transition must be numbers.*to_dense") as error:
        AugmentationGraph(torch.eye(3).to_sparse())
    assert "\n" not in str(error.value)
