import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from wildspec.errors import InputError, InputTypeError
from wildspec.graph import AugmentationGraph
from wildspec.graph.neighbors import group_transition, local_scales, neighbor_graph


def slow_kernel(points, k, *, mutual=False):
    """The definition in loops: (n, n) weights of the module's first lines."""
    n = len(points)
    distance = [[math.dist(a, b) for b in points] for a in points]
    order = [sorted(range(n), key=lambda j, i=i: (j != i, distance[i][j], j)) for i in range(n)]
    near = [set(row[:k]) for row in order]
    scale = [distance[i][order[i][min(7, k - 1)]] for i in range(n)]
    weights = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            joined = (j in near[i] and i in near[j]) if mutual else (j in near[i] or i in near[j])
            if joined:
                weights[i, j] = math.exp(-distance[i][j] ** 2 / (scale[i] * scale[j]))
    return weights


@pytest.mark.parametrize("k", [2, 4, 12])
@pytest.mark.parametrize("mutual", [False, True])
def test_the_kernel_is_its_definition(rng, k, mutual):
    points = rng.normal(size=(25, 3))
    graph = neighbor_graph(points, k, metric="euclidean", mutual=mutual)
    expected = slow_kernel(points.tolist(), k, mutual=mutual)
    np.testing.assert_allclose(graph.kernel.toarray(), expected, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(graph.transition().toarray(), expected / expected.sum(axis=0), rtol=1e-4, atol=1e-7)


def test_cosine_is_euclidean_on_rows_of_length_one(rng):
    points = rng.normal(size=(30, 4)) * rng.uniform(0.1, 9, size=(30, 1))
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    ours = neighbor_graph(points, 5).kernel.toarray()
    np.testing.assert_allclose(ours, neighbor_graph(points / lengths, 5, metric="euclidean").kernel.toarray(), atol=1e-5)


def test_a_sample_of_the_graph_gets_its_own_row_back(rng):
    points = rng.normal(size=(60, 3))
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    for mutual in (False, True):
        graph = neighbor_graph(points, 8, metric="euclidean", mutual=mutual)
        place = distance.argsort(axis=1).argsort(axis=1)  # place[i, j]: how many are nearer to i than j
        seen = ((graph.kernel.toarray() == 0) | (place < 24)).all(axis=1)  # no reverse neighbour beyond the candidates
        assert seen.mean() > 0.5
        found, expected = graph.rows(points).toarray(), graph.transition().toarray()
        np.testing.assert_allclose(found[seen], expected[seen], rtol=1e-4, atol=1e-6)
        rounded = graph.rows(points.astype(np.float16)).toarray()
        assert (np.abs(rounded - expected)[seen].max(axis=1) < 0.01).mean() > 0.6, "half precision; a radius may be missed"


def test_a_new_point_leans_on_its_neighbours_as_if_it_stood_among_them(rng):
    points = rng.normal(size=(40, 2))
    graph = neighbor_graph(points, 6, metric="euclidean")
    new = points[3] + 0.05
    row = graph.rows(new[None]).toarray()[0]
    distance = np.linalg.norm(points - new, axis=1)
    own_scale = np.sort(distance)[4]  # with itself in front: the 5th of 6
    near = set(np.argsort(distance)[:5].tolist()) | set(np.flatnonzero(distance <= graph.radii).tolist())
    weights = np.array([np.exp(-distance[j] ** 2 / (own_scale * graph.scales[j])) if j in near else 0 for j in range(40)])
    expected = weights / graph.mass
    np.testing.assert_allclose(row / row.sum(), expected / expected.sum(), rtol=1e-4, atol=1e-9)


def test_a_point_far_from_everything_still_has_a_row(rng):
    graph = neighbor_graph(rng.normal(size=(20, 2)), 4, metric="euclidean")
    row = graph.rows(np.array([[1e6, 1e6]])).toarray()
    assert np.isfinite(row).all()
    assert row.sum() > 0


def test_copies_of_a_sample_are_one_source(rng):
    """T(.|x_j) is the mean over the copies of x_j; the adjacency is the paper's sum over samples, by a slow loop."""
    rows = np.repeat(rng.normal(size=(8, 5)), 3, axis=0) + 0.3 * rng.normal(size=(24, 5))
    groups = np.repeat(list("abcdefgh"), 3)
    graph = neighbor_graph(rows, 6, metric="euclidean")
    plain, T = graph.transition().toarray(), graph.transition(groups).toarray()
    for j, name in enumerate("abcdefgh"):
        np.testing.assert_allclose(T[:, j], plain[:, groups == name].mean(axis=1))
    np.testing.assert_allclose(T.sum(axis=0), 1)
    A = sum(np.outer(T[:, j], T[:, j]) / 8 for j in range(8))
    np.testing.assert_allclose(AugmentationGraph(graph.transition(groups)).adjacency(), A / A.sum(), atol=1e-12)
    np.testing.assert_allclose(graph.transition(np.arange(24)).toarray(), plain)
    with pytest.raises(InputError, match="each of the 24 embeddings, got 5"):
        graph.transition(groups[:5])


def test_groups_give_the_papers_transition():
    transition, names = group_transition(["b", "a", "b", "b"])
    assert names.tolist() == ["a", "b"]
    np.testing.assert_allclose(transition.toarray(), [[0, 1 / 3], [1, 0], [0, 1 / 3], [0, 1 / 3]])
    graph = AugmentationGraph(transition)  # two sources, four nodes: A^(u) = T T^T / 2
    dense = transition.toarray()
    np.testing.assert_allclose(graph.self_supervised(), dense @ dense.T / 2)


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 25), st.integers(2, 9), st.integers(0, 10**6), st.booleans())
def test_any_points_give_a_usable_graph(count, k, seed, mutual):
    points = np.random.default_rng(seed).integers(-1, 2, size=(count, 2))  # duplicates and zero rows abound
    graph = neighbor_graph(points, k, mutual=mutual)
    kernel = graph.kernel.toarray()
    np.testing.assert_allclose(kernel, kernel.T)
    np.testing.assert_array_equal(np.diag(kernel), 1)
    assert kernel.min() >= 0
    assert kernel.max() <= 1
    transition = graph.transition()
    np.testing.assert_allclose(transition.sum(axis=0), 1)
    AugmentationGraph(transition)  # finite, connected to itself, no empty column
    assert np.isfinite(graph.rows(points + 0.25).toarray()).all()


def test_local_scale_is_the_seventh_neighbour_or_the_last():
    distances = np.array([[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]], np.float32)
    assert local_scales(distances)[0] == 7
    assert local_scales(distances[:, :4])[0] == 3
    assert local_scales(np.array([[0, 0, 0], [0, 1, 2]], np.float32))[0] > 0


def test_wrong_input_is_one_clear_line(rng):
    points = rng.normal(size=(6, 2))
    with pytest.raises(InputError, match=r"n_neighbors .*at least 2"):
        neighbor_graph(points, 1)
    with pytest.raises(InputError, match="at least 2 rows"):
        neighbor_graph(points[:1], 2)
    with pytest.raises(InputError, match="groups must hold one value"):
        group_transition([])
    with pytest.raises(InputError, match="NaN or infinite"):
        neighbor_graph(np.where(points == points.max(), np.nan, points), 2)
    with pytest.raises(InputTypeError, match="embeddings must be numbers"):
        neighbor_graph([["a", "b"], ["c", "d"]], 2)
    near = np.zeros((6, 2), np.float32), np.tile([0, 6], (6, 1))
    with pytest.raises(InputError, match=r"rows 0 to 5 .*got 0 to 6"):
        neighbor_graph(points, 2, precomputed=near)
    with pytest.raises(InputError, match=r"precomputed neighbours .*row"):
        neighbor_graph(points, 2, precomputed=(near[0][:4], near[1][:4]))


def test_fewer_samples_than_neighbours_join_them_all(rng):
    graph = neighbor_graph(rng.normal(size=(4, 2)), 10)
    assert (graph.kernel.toarray() > 0).all()
    assert sparse.issparse(graph.kernel)
    assert graph.recall == 1.0
    assert graph.method == "exact"
