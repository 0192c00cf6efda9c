import numpy as np
import pytest

from wildspec.graph import AugmentationGraph
from wildspec.graph.search import unit_rows
from wildspec.graph.wild_graph import GraphSettings, build_graph, grow


@pytest.fixture
def rows(rng):
    centres = rng.normal(size=(3, 8))
    return unit_rows(centres[np.arange(150) % 3] + 0.6 * rng.normal(size=(150, 8)))


def test_denoising_is_diffusion_kept_to_the_leading_eigenvectors(rows):
    """Written out with dense matrices: D^-1/2 V Lambda V^T D^1/2 X, rows scaled to length 1."""
    graph = build_graph(rows, GraphSettings(n_components=5, n_neighbors=40))  # dense enough to be connected
    dense = AugmentationGraph(graph.neighbors.transition())
    values, vectors = np.linalg.eigh(dense.normalized(dense=True))
    values, vectors = values[::-1][:5], vectors[:, ::-1][:, :5]
    scale = np.sqrt(dense.degrees())[:, None]
    expected = (vectors / scale) @ (values[:, None] * ((vectors * scale).T @ rows))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(graph.denoised_members(np.arange(150)), expected, atol=1e-4)


def test_denoising_pulls_samples_to_their_region(rows):
    graph = build_graph(rows, GraphSettings(n_components=4))
    denoised = graph.denoised_members(np.arange(150))
    same = np.arange(150) % 3

    def spread(x):
        return np.mean([np.linalg.norm(x[same == c] - x[same == c].mean(axis=0), axis=1).mean() for c in range(3)])

    assert spread(denoised) < 0.6 * spread(rows)


def test_a_member_asked_as_a_new_sample_gets_its_own_features(rows):
    """By the eigenvectors themselves: an extension over its nearest samples would miss some that count it as a neighbour."""
    graph = build_graph(rows, GraphSettings())
    own = graph.denoised_members(np.arange(150))
    extended = graph.extension.extend(graph.neighbors.rows(rows))
    assert np.abs(extended - graph.embedding).max() > 1e-3, "some have neighbours beyond the candidates"
    np.testing.assert_allclose(graph.denoise(rows), own, atol=1e-6)
    halves = rows.astype(np.float16).astype(np.float32)
    np.testing.assert_allclose(graph.denoise(halves), own, atol=2e-3)


def test_components_without_an_eigenvector_keep_their_features(rng):
    """Six islands, two eigenvectors: at least four islands are not seen by the filter at all."""
    centres = 50 * np.eye(6)
    rows = unit_rows(centres[np.arange(120) % 6] + rng.normal(size=(120, 6)))
    graph = build_graph(rows, GraphSettings(n_components=2, n_neighbors=5))
    denoised = graph.denoised_members(np.arange(120))
    assert np.isfinite(denoised).all()
    np.testing.assert_allclose(np.linalg.norm(denoised, axis=1), 1, atol=1e-4)
    assert np.einsum("ij,ij->i", denoised, rows).min() > 0.9


def test_growing_equals_building_anew(rows):
    settings = GraphSettings(n_components=6)
    grown, anew = grow(build_graph(rows[:110], settings), rows[110:]), build_graph(rows, settings)
    np.testing.assert_allclose(grown.values, anew.values, atol=1e-8)
    np.testing.assert_allclose(grown.denoised_members(np.arange(150)), anew.denoised_members(np.arange(150)), atol=1e-3)


def test_more_components_than_samples_is_no_error(rows):
    graph = build_graph(rows[:20], GraphSettings(n_components=64))
    assert graph.embedding.shape[0] == 20
    assert graph.embedding.shape[1] <= 18


def test_one_region_among_many_small_groups_is_no_error(rng):
    """39 scenes of ten near-copies, one of 22: the one region has fewer samples than there are components."""
    sizes = np.r_[np.full(39, 10), 22]
    centres = rng.normal(size=(40, 12))
    rows = unit_rows((np.repeat(centres, sizes, axis=0) + 1e-3 * rng.normal(size=(412, 12))).astype(np.float32))
    graph = build_graph(rows, GraphSettings(n_components=32))
    assert graph.embedding.shape[0] == 412
    assert np.isfinite(graph.denoise(rows)).all()
    assert np.isfinite(graph.denoised_members(np.arange(412))).all()


def test_duplicates_leave_fewer_directions_and_no_error():
    rows = unit_rows(np.repeat(np.eye(3), 10, axis=0) + 1e-8)
    graph = build_graph(rows, GraphSettings(n_components=16))
    assert np.isfinite(graph.denoise(rows)).all()


# -- graphs that fall into pieces --------------------------------------------------------------------------------------
def clusters(rng, count, size=40, width=12):
    centres = 50 * rng.normal(size=(count, width))
    rows = np.repeat(centres, size, axis=0) + rng.normal(size=(count * size, width))
    return rows.astype(np.float32), np.repeat(np.arange(count), size)


def test_pieces_are_those_of_the_dense_adjacency(rng):
    """Reachability by powers of the dense adjacency, with and without labels that join pieces."""
    from wildspec.graph.neighbors import neighbor_graph
    from wildspec.graph.pieces import pieces

    rows, truth = clusters(rng, 5, size=12)
    transition = neighbor_graph(rows, 4, metric="euclidean").transition()
    labels = np.full(len(rows), -1)
    labels[[0, 13]] = 0  # joins the first two clusters
    for given, expected in ((None, truth), (labels, np.maximum(truth, 1))):
        graph = AugmentationGraph(transition, given, eta_u=1.0, eta_l=0.5)
        reach = np.linalg.matrix_power((graph.adjacency() > 0).astype(float) + np.eye(len(rows)), 40) > 0
        found = pieces(graph)
        np.testing.assert_array_equal(found[:, None] == found[None], reach)
        np.testing.assert_array_equal(found[:, None] == found[None], expected[:, None] == expected[None])


def test_more_pieces_than_eigenvectors_do_not_mix(rng):
    """Ten clusters, six eigenvectors: a sample becomes the mean of its own cluster (the six largest) or stays as it is."""
    rows, truth = clusters(rng, 10)
    rows, truth = unit_rows(rows[: 10 * 40 - 30]), truth[: 10 * 40 - 30]  # the last cluster is the smallest, and small
    graph = build_graph(rows, GraphSettings(n_components=6, n_neighbors=8))
    found = graph.denoised_members(np.arange(len(rows)))
    degrees = AugmentationGraph(graph.neighbors.transition()).degrees()
    for c in range(9):
        own = truth == c
        mean = (degrees[own, None] * rows[own]).sum(axis=0)
        expected = np.tile(mean / np.linalg.norm(mean), (own.sum(), 1)) if c < 6 else rows[own]
        np.testing.assert_allclose(found[own], expected, atol=1e-5)
    np.testing.assert_allclose(graph.denoise(rows), found, atol=1e-5)  # new points the same way


def test_crumbs_beside_one_large_piece_take_no_eigenvectors(rng):
    """A large piece and twelve pairs: the eigenvectors are those of the large piece alone, 0 on the pairs."""
    large, _ = clusters(rng, 1, size=150)
    crumbs = np.repeat(1000 * rng.normal(size=(12, 12)), 4, axis=0) + 1e-3 * rng.normal(size=(48, 12))
    rows = np.concatenate([large, crumbs]).astype(np.float32)
    settings = GraphSettings(n_components=5, n_neighbors=4)
    whole, alone = build_graph(rows, settings), build_graph(large, settings)
    np.testing.assert_allclose(whole.values, alone.values, atol=1e-6)
    np.testing.assert_array_equal(whole.embedding[150:], 0)
    scale = np.sqrt(len(rows) / 150)  # a node's degree is its share of all edges
    np.testing.assert_allclose(np.abs(whole.embedding[:150]), scale * np.abs(alone.embedding), atol=1e-4)
