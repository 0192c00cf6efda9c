"""The example's matrices are the paper's, entry by entry; the exact solution against sympy and against its invariances."""

import numpy as np
import pytest
import sympy as sp

from wildspec.errors import WildspecError
from wildspec.theory import five_node
from wildspec.theory.five_node import SCENARIOS, transition_matrix


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_papers_matrices_follow_from_its_transition(paper, scenario):
    """Symbolically: the printed 5 T T^T / 5 and A^(l) are what the definitions give."""
    T = paper["transition"][scenario]
    assert sp.expand(T * T.T - paper["unsupervised"][scenario]) == sp.zeros(5)
    assert sp.expand(T[:, 0] * T[:, 0].T + T[:, 1] * T[:, 1].T - paper["supervised"]) == sp.zeros(5)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_entry_on_random_values(paper, scenario, rng):
    for _ in range(5):
        rho, alpha, beta, gamma = 1 + rng.random(), *rng.random(3) * 0.5
        eta_u, eta_l = rng.uniform(0.5, 6, size=2)
        world = five_node(scenario, rho, alpha, beta, gamma, eta_u, eta_l)
        point = dict(zip(paper["symbols"], (rho, alpha, beta, gamma), strict=True))
        T = np.array(paper["transition"][scenario].subs(point), dtype=float)
        unsupervised = np.array(paper["unsupervised"][scenario].subs(point), dtype=float) / 5
        supervised = np.array(paper["supervised"].subs(point), dtype=float)
        if scenario == "unlabelled":
            supervised = np.zeros((5, 5))
        total = eta_u * unsupervised + eta_l * supervised
        np.testing.assert_allclose(world.transition, T, rtol=1e-14)
        np.testing.assert_allclose(world.graph.self_supervised(), unsupervised, rtol=1e-13)
        np.testing.assert_allclose(world.graph.supervised(), supervised, rtol=1e-13)
        np.testing.assert_allclose(world.graph.adjacency(), total / total.sum(), rtol=1e-13)


def test_exact_solution_by_hand(rng):
    """Spectrum, Z, E and S once more with nothing but numpy, on random parameters."""
    for scenario in SCENARIOS:
        for k in (2, 3, 4):
            rho, alpha, beta, gamma = 1.0, *rng.uniform(0.01, 0.2, 2), 0.002
            world = five_node(scenario, rho, alpha, beta, gamma, k=k)
            T = transition_matrix(scenario, rho, alpha, beta, gamma)
            A = T @ T.T + (scenario != "unlabelled") * (T[:, :2] @ T[:, :2].T)
            A /= A.sum()
            d = A.sum(axis=1)
            values, vectors = np.linalg.eig(A / d[:, None])  # random walk: same eigenvalues, other algorithm
            order = np.argsort(-values.real)
            np.testing.assert_allclose(world.eigen[0], values.real[order], atol=1e-12)
            Z = vectors.real[:, order[:k]]
            Z = Z / np.sqrt(np.sum(d[:, None] * Z**2, axis=0)) * np.sqrt(values.real[order[:k]])
            np.testing.assert_allclose(world.embedding @ world.embedding.T, Z @ Z.T, atol=1e-10)
            distances = [np.sum((Z[i] - Z[4]) ** 2) for i in (0, 1)]
            assert world.separability == pytest.approx(np.mean(distances))


def test_only_ratios_matter():
    one, two = five_node("shared", 1.0, 0.05, 0.03, 0.01), five_node("shared", 4.0, 0.2, 0.12, 0.04)
    np.testing.assert_allclose(one.eigen[0], two.eigen[0], atol=1e-14)
    assert one.separability == pytest.approx(two.separability)


def test_unlabelled_spectrum_in_closed_form():
    """gamma = 0: T commutes with the swaps of class and domain, so the eigenvalues are squares of its characters."""
    a, b = 0.07, 0.04
    expected = sorted([1, *(((1 + s * a + t * b) / (1 + a + b)) ** 2 for s in (1, -1) for t in (1, -1))])[::-1]
    np.testing.assert_allclose(five_node("unlabelled", 1.0, a, b).eigen[0], expected, atol=1e-14)


def test_repeated_eigenvalue_does_not_move_the_result():
    """lambda_1 = lambda_2 = 1 in ``separate``: the canonical basis is the panda, then the other four."""
    values, vectors = five_node("separate", 1.0, 0.05, 0.03).eigen
    np.testing.assert_allclose(values[:2], 1, atol=1e-14)
    np.testing.assert_allclose(vectors[:, 0], [0, 0, 0, 0, 1], atol=1e-12)
    assert (vectors[:4, 1] > 0).all()
    degrees = five_node("separate", 1.0, 0.05, 0.03).graph.degrees()[:4]
    np.testing.assert_allclose(vectors[:4, 1], np.sqrt(degrees / degrees.sum()), atol=1e-12)


def test_split_is_reported_where_the_cases_meet():
    assert five_node("unlabelled", 1.0, 0.05, 0.05).split  # alpha = beta: the third and fourth eigenvalue agree
    assert not five_node("unlabelled", 1.0, 0.05, 0.04).split


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"scenario": "other"}, "scenario"), ({"rho": 0.0}, "rho"), ({"alpha": -0.1}, "alpha"), ({"beta": 2.0}, "rho"),
        ({"gamma": float("nan")}, "gamma"), ({"eta_u": 0.0}, "eta_u"), ({"eta_l": -1.0}, "eta_l"), ({"k": 5}, "k"),
    ],
)  # fmt: skip
def test_bad_input(change, name):
    with pytest.raises(WildspecError, match=name):
        five_node(**change)
