"""The graph against the definitions of Section 3, written out as sums over sources and pairs."""

import numpy as np
import pytest
from scipy import sparse

from wildspec.errors import InputError, InputTypeError, WildspecError
from wildspec.graph import AugmentationGraph


def definition(T, labels, p, eta_u, eta_l):
    """Definitions 3.1 and 3.2 term by term: expectations as loops over sources and over pairs of one class."""
    N, n = T.shape
    unsupervised = np.zeros((N, N))
    for j in range(n):
        for x in range(N):
            for y in range(N):
                unsupervised[x, y] += p[j] * T[x, j] * T[y, j]
    supervised = np.zeros((N, N))
    for c in sorted(set(labels) - {-1}):
        members = [j for j in range(n) if labels[j] == c]
        for i in members:
            for j in members:
                supervised += np.outer(T[:, i], T[:, j]) / len(members) ** 2
    total = eta_u * unsupervised + eta_l * supervised
    return unsupervised, supervised, total / total.sum()


@pytest.fixture
def world(rng):
    T = rng.random((9, 7)) * (rng.random((9, 7)) < 0.6)
    T[np.arange(7), np.arange(7)] += 0.5
    T[7:, 0] += 0.1
    return T, [0, 1, -1, 0, 1, 1, -1], rng.random(7)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_all_parts_are_the_definitions(world, kind):
    T, labels, p = world
    graph = AugmentationGraph(kind(T), labels, eta_u=1.7, eta_l=0.4, prior=p)
    unsupervised, supervised, adjacency = definition(T, labels, p / p.sum(), 1.7, 0.4)
    np.testing.assert_allclose(graph.self_supervised(), unsupervised, atol=1e-15)
    np.testing.assert_allclose(graph.supervised(), supervised, atol=1e-15)
    np.testing.assert_allclose(graph.adjacency(), adjacency, atol=1e-15)
    assert graph.adjacency().sum() == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(graph.degrees(), adjacency.sum(axis=1), atol=1e-15)
    factor = graph.factor()
    assert sparse.issparse(factor)
    assert factor.shape == (9, 9)  # 7 sources and 2 classes
    np.testing.assert_allclose((factor @ factor.T).toarray(), adjacency, atol=1e-15)
    root = np.diag(1 / np.sqrt(adjacency.sum(axis=1)))
    normalized = root @ adjacency @ root
    np.testing.assert_allclose(graph.normalized(dense=True), normalized, atol=1e-14)
    operator = graph.normalized()
    np.testing.assert_allclose(operator @ np.eye(9), normalized, atol=1e-14)
    np.testing.assert_allclose(operator.T @ np.arange(9.0), normalized @ np.arange(9.0), atol=1e-13)


def test_defaults_are_uniform_unlabelled_and_as_given(world):
    T, _, _ = world
    graph = AugmentationGraph(T)
    _, _, adjacency = definition(T, [-1] * 7, np.full(7, 1 / 7), 1.0, 1.0)
    np.testing.assert_allclose(graph.adjacency(), adjacency, atol=1e-15)
    assert (graph.n_nodes, graph.n_sources, graph.n_classes) == (9, 7, 0)
    np.testing.assert_array_equal(graph.supervised(), 0)
    np.testing.assert_array_equal(graph.transition.toarray(), T)  # not normalized, and the caller's array untouched
    assert "9 nodes, 7 sources" in repr(graph)


def test_normalize_makes_columns_distributions(world):
    T, labels, p = world
    graph = AugmentationGraph(T, labels, prior=p, normalize=True)
    reference = AugmentationGraph(T / T.sum(axis=0), labels, prior=p)
    np.testing.assert_allclose(graph.adjacency(), reference.adjacency(), atol=1e-15)
    assert graph.total == pytest.approx(1 + 2)  # eta_u * 1 + eta_l * number of classes


@pytest.mark.parametrize(("eta_u", "eta_l", "columns"), [(0.0, 1.0, 2), (2.0, 0.0, 7)])
def test_one_part_can_be_switched_off(rng, eta_u, eta_l, columns):
    T = rng.random((9, 7))
    labels = [0, 1, -1, 0, 1, 1, -1]
    graph = AugmentationGraph(T, labels, eta_u=eta_u, eta_l=eta_l)
    np.testing.assert_allclose(
        graph.adjacency(), definition(T, labels, np.full(7, 1 / 7), eta_u, eta_l)[2], atol=1e-15
    )
    assert graph.factor().shape == (9, columns)


def test_duplicate_sparse_entries_are_summed_and_the_input_is_untouched():
    T = sparse.csr_array((np.array([0.25, 0.75, 1.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    graph = AugmentationGraph(T)
    np.testing.assert_array_equal(graph.transition.toarray(), np.eye(2))
    assert T.nnz == 3


BAD = [
    ({"transition": np.array([[1, -0.1], [0, 1]])}, "transition.*0 or greater.*-0.1"),
    ({"transition": np.array([[1, np.nan], [0, 1]])}, "transition.*finite"),
    ({"transition": sparse.csr_array(np.array([[1, np.inf], [0, 1]]))}, "transition.*finite"),
    ({"transition": np.array([[1.0, 0, 0.5], [1, 0, 0.5]])}, r"transition.*all-zero columns \(1\)"),
    ({"transition": np.array([[1.0, 1], [0, 0], [2, 3], [0, 0]])}, r"transition.*isolated.*rows 1, 3\).*drop"),
    ({"transition": np.eye(2), "prior": [1, 0]}, r"isolated.*rows 1\).*prior"),
    ({"transition": np.ones(4)}, "transition.*2 dimensions"),
    ({"transition": np.ones((0, 4))}, "transition.*non-empty"),
    ({"transition": np.full((4, 3), 1e200)}, "too large or too small.*normalize=True"),
    ({"transition": np.full((4, 3), 1e-200)}, "too large or too small.*normalize=True"),
    ({"labels": [0, 1]}, "labels.*3 sources"),
    ({"labels": [[0, 1, 1]]}, "labels.*3 sources"),
    ({"labels": [0, 2, -1]}, "labels: class 1 has no sample"),
    ({"labels": [0, -2, -1]}, "labels.*-2"),
    ({"eta_u": -1.0}, "eta_u"),
    ({"eta_l": -0.5}, "eta_l"),
    ({"eta_u": float("nan")}, "eta_u"),
    ({"eta_u": 0.0}, "eta_u = 0 leaves no edges"),
    ({"eta_u": 0.0, "eta_l": 0.0, "labels": [0, 0, 0]}, "eta_u = 0 leaves no edges"),
    ({"prior": [1, 1]}, "prior.*3 sources"),
    ({"prior": [1, -1, 1]}, "prior"),
    ({"prior": [0, 0, 0]}, "prior.*all zero"),
    ({"prior": [1, np.nan, 0]}, "prior.*finite"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input_names_the_argument(change, message):
    arguments = {"transition": np.full((4, 3), 0.25), **change}
    with pytest.raises(InputError, match=message) as caught:
        AugmentationGraph(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change", [{"transition": [["a", "b"]]}, {"labels": ["cat", "dog", "cat"]}, {"labels": [0.5, 1, 1]}, {"prior": "abc"}]
)
def test_wrong_types(change):
    with pytest.raises((InputTypeError, InputError)) as caught:
        AugmentationGraph(**{"transition": np.full((4, 3), 0.25), **change})
    assert isinstance(caught.value, WildspecError)
    assert next(iter(change)) in str(caught.value)


def test_dense_matrices_are_refused_when_large():
    graph = AugmentationGraph(sparse.eye_array(30, format="csr"))
    for method in (graph.adjacency, graph.self_supervised, graph.supervised):
        with pytest.raises(InputError, match="max_nodes"):
            method(max_nodes=29)
    with pytest.raises(InputError, match="max_nodes"):
        graph.normalized(dense=True, max_nodes=29)
    assert graph.adjacency(max_nodes=30).shape == (30, 30)


def test_wide_indices_are_made_narrow_and_the_given_matrix_stays():
    """64-bit indices cost a third of the time of every product; the caller's matrix is not touched."""
    T = sparse.csr_array(np.eye(4) + 0.5)
    wide = sparse.csr_array((T.data, T.indices.astype(np.int64), T.indptr.astype(np.int64)), shape=T.shape)
    graph = AugmentationGraph(wide, [0, 1, -1, -1])
    assert graph.scaled_factor().indices.dtype == np.int32
    assert wide.indices.dtype == np.int64
    np.testing.assert_array_equal(graph.adjacency(), AugmentationGraph(T, [0, 1, -1, -1]).adjacency())
