"""Thick-restart Lanczos against LAPACK on matrices of known spectrum; tall products against plain numpy."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse

from wildspec.blas import one_blas_thread
from wildspec.errors import ConvergenceError
from wildspec.graph import AugmentationGraph
from wildspec.graph.lanczos import Krylov, largest_pairs
from wildspec.graph.operators import SERIAL, GramOperator
from wildspec.graph.solvers import lanczos_pairs, largest_left
from wildspec.graph.tall import ROWS, Tall


def with_spectrum(values, rng):
    """A symmetric matrix with these eigenvalues, and its eigenvectors."""
    vectors = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    return vectors * values @ vectors.T, vectors


def crowded(size):
    """Eigenvalues that thin out towards 1: many restarts."""
    return np.sort(1 - np.linspace(0, 1, size) ** 0.5)[::-1]


@pytest.mark.parametrize("k", [1, 7, 30])
def test_pairs_of_a_crowded_spectrum(rng, k):
    values = crowded(400)
    matrix, vectors = with_spectrum(values, rng)
    products = []

    def apply(x):
        products.append(1)
        return matrix @ x

    found, basis = largest_pairs(apply, Tall(400), k, tol=1e-11, max_iter=None, rng=rng)
    np.testing.assert_allclose(found, values[:k], atol=1e-13)
    np.testing.assert_allclose(basis.T @ basis, np.eye(k), atol=1e-13)
    assert np.linalg.norm(matrix @ basis - basis * found, axis=0).max() < 1e-11
    np.testing.assert_allclose(basis @ basis.T, vectors[:, :k] @ vectors[:, :k].T, atol=1e-7)
    assert len(products) > max(2 * k + 1, 20)  # it did restart


def test_locked_vectors_are_kept_out(rng):
    values = crowded(300)
    matrix, vectors = with_spectrum(values, rng)
    found, basis = largest_pairs(
        lambda x: matrix @ x, Tall(300), 4, tol=1e-11, max_iter=None, rng=rng, locked=vectors[:, [0, 2, 3]]
    )
    np.testing.assert_allclose(found, values[[1, 4, 5, 6]], atol=1e-13)
    assert np.abs(vectors[:, [0, 2, 3]].T @ basis).max() < 1e-13


def test_the_projection_is_the_operator_in_the_basis_before_and_after_a_restart(rng):
    matrix, _ = with_spectrum(crowded(200), rng)
    space = Krylov(lambda x: matrix @ x, Tall(200), 25, rng)
    for keep in (12, 18):
        while not space.full:
            space.grow()
        V = space.basis[:, :26]
        np.testing.assert_allclose(V.T @ V, np.eye(26), atol=1e-14)
        np.testing.assert_allclose(space.projected[:25, :26], (V.T @ matrix @ V)[:25], atol=1e-14)
        values, coordinates, errors = space.ritz()
        ritz = space.vectors(coordinates)
        np.testing.assert_allclose(np.linalg.norm(matrix @ ritz - ritz * values, axis=0), errors, atol=1e-14)
        space.restart(values[:keep], coordinates[:, :keep])
        assert space.count == keep


@pytest.mark.parametrize("size", [2, 6, 30])
def test_an_invariant_space_is_left_by_a_random_vector(rng, size):
    """The identity: every vector is an eigenvector, and each step finds nothing new."""
    found, basis = largest_pairs(lambda x: x.copy(), Tall(size), size - 1, tol=1e-10, max_iter=None, rng=rng)
    np.testing.assert_allclose(found, 1, atol=1e-14)
    np.testing.assert_allclose(basis.T @ basis, np.eye(size - 1), atol=1e-14)


def test_rank_one_and_zero(rng):
    line = np.full(40, 1 / np.sqrt(40))
    found, basis = largest_pairs(lambda x: line * (line @ x), Tall(40), 3, tol=1e-10, max_iter=None, rng=rng)
    np.testing.assert_allclose(found, [1, 0, 0], atol=1e-14)
    np.testing.assert_allclose(np.abs(line @ basis), [1, 0, 0], atol=1e-13)
    found, _ = largest_pairs(np.zeros_like, Tall(40), 2, tol=1e-10, max_iter=None, rng=rng)
    np.testing.assert_array_equal(found, 0)


def test_nan_ends_the_run(rng):
    with pytest.raises(ConvergenceError, match="NaN"):
        largest_pairs(lambda x: x * np.nan, Tall(40), 2, tol=1e-10, max_iter=None, rng=rng)


def test_too_few_restarts(rng):
    matrix, _ = with_spectrum(crowded(400), rng)
    with pytest.raises(ConvergenceError, match=r"10 eigenpairs .*1e-12; raise max_iter"):
        largest_pairs(lambda x: matrix @ x, Tall(400), 10, tol=1e-12, max_iter=2, rng=rng)


def test_the_search_sees_a_missed_eigenvalue_and_stops_where_there_is_none(rng):
    values = np.concatenate([[1, 0.9, 0.8, 0.7], np.linspace(0.3, 0, 296)])
    matrix, vectors = with_spectrum(values, rng)
    tall = Tall(300)
    missed = largest_left(lambda x: matrix @ x, tall, vectors[:, [0, 2, 3]], rng, enough=0.7)
    assert missed == pytest.approx(0.9, abs=1e-6)
    products = []

    def apply(x):
        products.append(1)
        return matrix @ x

    assert largest_left(apply, tall, vectors[:, :4], rng, enough=0.7) <= 0.3
    assert len(products) < 24


@pytest.mark.parametrize("size", [5, ROWS, ROWS + 1, 3 * ROWS + 7])
def test_tall_products(rng, size):
    one, two, small = rng.normal(size=(size, 4)), np.asfortranarray(rng.normal(size=(size, 3))), rng.normal(size=(3, 2))
    vector = rng.normal(size=size)
    with ThreadPoolExecutor(3) as pool:
        tall = Tall(size, pool)
        np.testing.assert_allclose(tall.inner(one, two), one.T @ two, atol=1e-9)
        np.testing.assert_allclose(tall.inner(one, vector), vector @ one, atol=1e-9)
        np.testing.assert_allclose(tall.times(two, small), two @ small, atol=1e-13)
        rest = vector.copy()
        tall.subtract(rest, two, small[:, 0])
        np.testing.assert_allclose(rest, vector - two @ small[:, 0], atol=1e-13)
        turned = two.copy(order="F")
        tall.turn(turned, small)
        np.testing.assert_allclose(turned[:, :2], two @ small, atol=1e-13)
        np.testing.assert_array_equal(turned[:, 2], two[:, 2])
        np.testing.assert_array_equal(tall.inner(one, two), Tall(size).inner(one, two))


def test_the_number_of_threads_does_not_change_a_bit_of_the_pairs(rng):
    size = 2 * ROWS
    rows = np.concatenate([np.arange(size), rng.integers(0, size, (7, size)).ravel()])
    columns = np.tile(np.arange(size), 8)
    graph = AugmentationGraph(sparse.csr_array((rng.random(8 * size) + 0.1, (rows, columns)), shape=(size, size)))
    matrix = graph.scaled_factor()
    assert matrix.nnz >= SERIAL
    results = []
    for threads in (1, 3):
        with GramOperator(matrix, threads=threads) as operator, one_blas_thread():
            results.append(lanczos_pairs(operator, 2, tol=1e-6, max_iter=None, seed=0))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
