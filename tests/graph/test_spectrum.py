"""Every solver against numpy's eigh of the dense normalized adjacency; degenerate spectra; refusals."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from wildspec.errors import ConvergenceError, InputError, InputTypeError
from wildspec.graph import AugmentationGraph, group_transition, neighbor_graph, solvers, spectral_embedding, spectrum
from wildspec.graph.canonical import canonical_rotation, eigenvalue_groups
from wildspec.graph.operators import GramOperator
from wildspec.graph.torch_solver import _orthonormal

SOLVERS = ["dense", "lanczos", "torch"]


def random_graph(rng, N, n, density=0.1, classes=3):
    T = sparse.random_array((N, n), density=density, random_state=rng, format="lil")
    T[np.arange(N), np.arange(N) % n] = 1.0
    T[np.arange(n) % N, np.arange(n)] = 1.0
    labels = np.where(rng.random(n) < 0.4, rng.integers(0, classes, n), -1)
    labels[:classes] = np.arange(classes)
    return AugmentationGraph(T.tocsr(), labels, eta_u=1.3, eta_l=0.7)


def components(sizes, rng):
    """A graph of disconnected parts: the eigenvalue 1 has one copy for each part."""
    blocks = [sparse.coo_array(np.eye(s) + rng.random((s, s))) for s in sizes]
    return AugmentationGraph(sparse.csr_array(sparse.block_diag(blocks)))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("N", "n"), [(60, 60), (120, 40), (40, 120)])
def test_against_dense_eigh(rng, solver, N, n):
    graph = random_graph(rng, N, n)
    found = spectral_embedding(graph, 6, solver=solver, device="cpu")
    matrix = graph.normalized(dense=True)
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[::-1][:6], vectors[:, ::-1][:, :6]
    assert found.solver == solver
    np.testing.assert_allclose(found.values, values, atol=1e-12)
    assert found.values[0] == pytest.approx(1)
    np.testing.assert_allclose(found.vectors @ found.vectors.T, vectors @ vectors.T, atol=1e-8)
    np.testing.assert_allclose(np.abs(found.vectors), np.abs(vectors), atol=1e-8)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(6), atol=1e-12)
    true = np.linalg.norm(matrix @ found.vectors - found.vectors * found.values, axis=0)
    np.testing.assert_allclose(found.residuals, true, atol=1e-13)
    assert found.residuals.max() < 1e-9
    np.testing.assert_allclose(found.factors, vectors * np.sign(found.vectors[0] * vectors[0]) * np.sqrt(values), atol=1e-7)
    np.testing.assert_allclose(found.embedding * np.sqrt(graph.degrees())[:, None], found.factors, atol=1e-14)
    peaks = np.abs(found.vectors).argmax(axis=0)
    assert (found.vectors[peaks, np.arange(6)] > 0).all()
    assert not found.split_eigenspace


def test_auto_takes_dense_then_lanczos(rng):
    assert spectral_embedding(random_graph(rng, 50, 50), 3).solver == "dense"
    graph = random_graph(rng, 1500, 1400, density=0.005)
    found = spectral_embedding(graph, 5)
    assert found.solver == "lanczos"
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(graph.normalized(dense=True))[::-1][:5], atol=1e-11)


@pytest.mark.parametrize("solver", ["lanczos", "torch"])
def test_same_seed_same_bits_other_seed_same_answer(rng, solver):
    graph = random_graph(rng, 300, 250)
    one, two = (spectral_embedding(graph, 5, solver=solver, seed=3, device="cpu") for _ in range(2))
    np.testing.assert_array_equal(one.vectors, two.vectors)
    other = spectral_embedding(graph, 5, solver=solver, seed=4, device="cpu")
    np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
def test_repeated_eigenvalues_give_one_answer(rng, solver):
    """Three parts: the eigenvalue 1 three times. The canonical basis is one vector sqrt(d) on each part."""
    sizes = [20, 35, 25]
    graph = components(sizes, rng)
    found = spectral_embedding(graph, 5, solver=solver, device="cpu")
    np.testing.assert_allclose(found.values[:3], 1, atol=1e-13)
    assert found.values[3] < 0.99
    degrees = graph.degrees()
    edges = np.cumsum([0, *sizes])
    expected = []
    for start, stop in itertools.pairwise(edges):
        vector = np.zeros(80)
        vector[start:stop] = np.sqrt(degrees[start:stop] / degrees[start:stop].sum())
        expected.append(vector)
    expected.sort(key=lambda v: -v.max())  # the part with the most concentrated vector first
    np.testing.assert_allclose(found.vectors[:, :3], np.array(expected).T, atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_cut_through_an_eigenspace_is_reported_and_still_one_answer(rng, solver):
    graph = components([8, 12, 9, 14, 11], rng)
    reference = spectral_embedding(graph, 3, solver="dense")
    for seed in range(3):
        found = spectral_embedding(graph, 3, solver=solver, seed=seed, device="cpu")
        assert found.split_eigenspace
        np.testing.assert_allclose(found.vectors, reference.vectors, atol=1e-7)
    assert not spectral_embedding(graph, 5, solver=solver, device="cpu").split_eigenspace


def test_lanczos_finds_copies_that_one_krylov_space_misses(rng):
    """30 parts: plain ARPACK returns about 20 copies of the eigenvalue 1; all 30 are there."""
    graph = components([40] * 30, rng)
    found = spectral_embedding(graph, 34, solver="lanczos")
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(graph.normalized(dense=True))[::-1][:34], atol=1e-11)
    assert (found.values > 1 - 1e-9).sum() == 30


def test_an_eigenspace_too_large_to_follow_is_said(rng):
    graph = components([3] * 60, rng)
    with pytest.warns(UserWarning, match="repeated beyond"):
        assert spectral_embedding(graph, 4, solver="lanczos").split_eigenspace


def test_canonical_basis_depends_on_the_space_only(rng):
    basis = np.linalg.qr(rng.normal(size=(50, 4)))[0]
    turned = basis @ np.linalg.qr(rng.normal(size=(4, 4)))[0] + 1e-14 * rng.normal(size=(50, 4))
    one, two = basis @ canonical_rotation(basis), turned @ canonical_rotation(turned)
    np.testing.assert_allclose(one, two, atol=1e-12)
    np.testing.assert_allclose(one @ one.T, basis @ basis.T, atol=1e-13)
    np.testing.assert_allclose(canonical_rotation(basis).T @ canonical_rotation(basis), np.eye(4), atol=1e-14)
    first = np.argmax(np.sum(basis**2, axis=1))  # oracle for the first vector: a column of the projector
    column = (basis @ basis.T)[:, first]
    np.testing.assert_allclose(one[:, 0], column / np.linalg.norm(column), atol=1e-13)


def test_rounding_does_not_choose_between_equal_pivots():
    """All entries equal in size: the sign follows the first one, whatever the last bits say."""
    for noise in (1e-12, -1e-12):
        vector = np.array([[-0.5], [0.5 + noise], [-0.5 - noise], [0.5]])
        assert (vector @ canonical_rotation(vector))[0, 0] > 0


def test_groups():
    assert eigenvalue_groups(np.array([1.0, 1.0 - 1e-10, 0.5, 0.4, 0.4])) == [slice(0, 2), slice(2, 3), slice(3, 5)]


def test_threads_do_not_change_a_bit(rng):
    matrix = sparse.random_array((3000, 2000), density=0.05, random_state=rng, format="csr")
    x, y = rng.normal(size=2000), rng.normal(size=(3000, 3))
    with GramOperator(matrix, threads=1) as one, GramOperator(matrix, threads=3) as three:
        np.testing.assert_array_equal(one.forward(x), three.forward(x))
        np.testing.assert_array_equal(one.left(y), three.left(y))
        np.testing.assert_allclose(three.right(x), matrix.T @ (matrix @ x), rtol=1e-12)


@pytest.mark.parametrize("solver", ["lanczos", "torch"])
def test_no_silent_failure_to_converge(rng, solver):
    graph = random_graph(rng, 900, 900, density=0.02)
    with pytest.raises(ConvergenceError, match="max_iter"):
        spectral_embedding(graph, 20, solver=solver, max_iter=1, device="cpu")


@pytest.mark.parametrize("k", [5, 6])
def test_k_must_be_smaller_than_the_number_of_nodes(k):
    with pytest.raises(InputError, match=r"k must be smaller .*N = 5"):
        spectral_embedding(AugmentationGraph(np.eye(5) + 1), k)


def test_k_beyond_the_rank(rng):
    graph = AugmentationGraph(rng.random((30, 4)), [0, 1, -1, -1])
    with pytest.raises(InputError, match="at most 6"):
        spectral_embedding(graph, 7)
    found = spectral_embedding(graph, 6)  # the class means lie in the span of T: rank 4, two zero eigenvalues
    np.testing.assert_allclose(found.values[4:], 0, atol=1e-12)
    np.testing.assert_allclose(found.embedding[:, 4:], 0, atol=1e-6)
    for solver in ("lanczos", "torch"):
        with pytest.raises(ConvergenceError, match="numerical rank 4"):
            spectral_embedding(graph, 5, solver=solver, device="cpu")


def test_many_copies_of_few_samples_are_solved_on_the_side_of_the_samples(rng, monkeypatch):
    """The paper's own T, several augmented copies of each sample: N is large, and 1 is as often an eigenvalue as there
    are samples. A dense N x N matrix would take memory and minutes for nothing."""
    sizes = []
    real = solvers.linalg.eigh
    monkeypatch.setattr(solvers.linalg, "eigh", lambda a, *rest, **more: sizes.append(len(a)) or real(a, *rest, **more))
    graph = AugmentationGraph(group_transition(np.repeat(np.arange(30), 8))[0])
    found = spectral_embedding(graph, 5)
    assert found.solver == "dense"
    assert max(sizes) == 30
    assert found.split_eigenspace
    np.testing.assert_allclose(found.values, 1, atol=1e-12)
    pieces = np.repeat(np.eye(30), 8, axis=0)[:, :5] / np.sqrt(8)  # canonical: the copies of one sample after the other
    np.testing.assert_allclose(found.vectors, pieces, atol=1e-12)
    labelled = AugmentationGraph(group_transition(np.repeat(np.arange(30), 8))[0], np.arange(30) % 3, eta_l=0.5)
    exact = np.sort(np.linalg.eigvalsh(labelled.normalized(dense=True)))[::-1][:9]
    np.testing.assert_allclose(spectral_embedding(labelled, 9).values, exact, atol=1e-12)


def test_null_directions_have_no_negative_eigenvalue(rng):
    """Rounding makes zero eigenvalues negative as often as not; their square roots are asked for."""
    for _ in range(5):
        flat = AugmentationGraph(np.outer(rng.random(12) + 0.1, rng.random(12) + 0.1))
        found = spectral_embedding(flat, 9, solver="dense")
        assert (found.values >= 0).all()
        assert np.isfinite(found.embedding).all()


def test_a_solver_that_returns_other_vectors_is_found_out(rng, monkeypatch):
    graph = random_graph(rng, 30, 30)

    def wrong(matrix, k):
        return np.linspace(1, 0.5, k), np.linalg.qr(rng.normal(size=(30, k)))[0], True

    monkeypatch.setattr(spectrum, "dense_pairs", wrong)
    with pytest.raises(ConvergenceError, match="left a residual"):
        spectral_embedding(graph, 3, solver="dense")


def test_blocks_are_made_orthogonal_to_what_is_nearly_their_span(rng):
    torch = pytest.importorskip("torch")
    basis = torch.linalg.qr(torch.from_numpy(rng.normal(size=(60, 8))))[0]
    noise = torch.from_numpy(rng.normal(size=(60, 4)))
    block = basis @ torch.from_numpy(rng.normal(size=(8, 4))) + 1e-13 * noise  # rounding, blown up to length 1
    block[:, 3] = block[:, 2]
    made = _orthonormal(block, [basis[:, :5], basis[:, 5:]])
    together = torch.cat([basis, made], dim=1)
    torch.testing.assert_close(together.T @ together, torch.eye(12, dtype=torch.float64), atol=1e-13, rtol=0)


def test_tall_graphs_keep_small_eigenvalues_and_say_where_the_rank_ends(rng, monkeypatch):
    T = rng.random((50, 6)) * np.array([1, 1, 1, 1e-4, 1e-5, 0]) + np.array([1.0, 0, 0, 0, 0, 1])  # the last: the first
    graph = AugmentationGraph(T)
    exact = np.sort(np.linalg.svd(graph.scaled_factor().toarray(), compute_uv=False))[::-1] ** 2
    assert 1e-12 < exact[4] < 1e-6  # too small for the short cut below DENSE_ROWS
    monkeypatch.setattr(solvers, "DENSE_ROWS", 49)
    found = spectral_embedding(graph, 5, solver="dense")
    np.testing.assert_allclose(found.values, exact[:5], rtol=1e-4)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(5), atol=1e-12)
    flat = AugmentationGraph(np.repeat(rng.random((50, 3)), 2, axis=1))
    with pytest.raises(ConvergenceError, match="numerical rank 3"):
        spectral_embedding(flat, 4, solver="dense")


@pytest.mark.parametrize(
    ("change", "name"),
    [({"k": 0}, "k"), ({"k": 2.5}, "k"), ({"solver": "magic"}, "solver"), ({"tol": -1.0}, "tol"), ({"seed": -1}, "seed"),
     ({"max_iter": 0}, "max_iter")],
)
def test_bad_arguments(change, name):
    from wildspec.errors import WildspecError

    with pytest.raises(WildspecError, match=name):
        spectral_embedding(AugmentationGraph(np.eye(5) + 1), **{"k": 2, **change})


def test_a_neighbour_graph_is_not_yet_an_augmentation_graph(rng):
    with pytest.raises(InputTypeError, match=r"AugmentationGraph\(graph.transition\(\)\)"):
        spectral_embedding(neighbor_graph(rng.normal(size=(9, 2)), 3), 2)


def test_bad_device():
    with pytest.raises(InputError, match="device"):
        spectral_embedding(AugmentationGraph(np.eye(5) + 1), 2, solver="torch", device="abacus")


@pytest.mark.cuda
def test_cuda_agrees_with_dense(rng):
    graph = random_graph(rng, 800, 700)
    found = spectral_embedding(graph, 8, solver="torch")
    np.testing.assert_allclose(found.vectors, spectral_embedding(graph, 8, solver="dense").vectors, atol=1e-7)
