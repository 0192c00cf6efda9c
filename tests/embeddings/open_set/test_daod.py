"""DAOD: hand numbers, the gradient of its objective, and a dense form that solves every round anew."""

import numpy as np
import pytest
import torch
from scipy import sparse

from shifted_world import make_world
from wildspec.embeddings import DAOD
from wildspec.embeddings.open_set.alignment import a_distance, alignment, class_weight
from wildspec.embeddings.open_set.daod import Ridge, kernel_and_laplacian, open_set_risk
from wildspec.embeddings.rows import as_seed
from wildspec.errors import InputError


def solve(kernel, labels, m, n_classes, *, alpha=0.4, gamma=0.25, sigma=1.0, laplacian=None, rho=0.0, align=None, lam=0.0):
    """beta and F of one round by the library's own parts."""
    risk, right = open_set_risk(labels, m, n_classes, alpha, gamma)
    weights = sparse.csr_array(np.diag(risk) if laplacian is None else np.diag(risk) + rho * laplacian)
    factors, shares = align if align is not None else (np.zeros((len(kernel), 1)), np.zeros(1))
    return Ridge(kernel.copy(), weights, sigma, right).aligned(factors, shares, lam)


def random_kernel(count, seed=0):
    rows = np.random.default_rng(seed).normal(size=(count, count + 2))
    return rows @ rows.T / count


def test_one_source_and_one_target_sample_by_hand():
    beta, values = solve(np.array([[1, 0.5], [0.5, 1]]), np.array([0]), 1, 1)
    np.testing.assert_allclose(beta, [[0.589474, -0.210526], [-0.084211, 0.315789]], atol=1e-6)
    np.testing.assert_allclose(values, [[0.547368, -0.052632], [0.210526, 0.210526]], atol=1e-6)


@pytest.mark.parametrize("gamma", [0.0, 0.25, 0.6])
def test_without_ridge_alignment_and_graph_every_kernel_gives_the_same(gamma):
    labels = np.array([0, 2, 1, 1])
    values = solve(random_kernel(7), labels, 3, 3, gamma=gamma, sigma=1e-12)[1]
    wanted = np.zeros((7, 4))
    wanted[np.arange(4), labels] = 1 / (1 - gamma)
    wanted[:4, 3] = -gamma / (1 - gamma)
    wanted[4:, 3] = 1
    np.testing.assert_allclose(values, wanted, atol=1e-7)


def dense_m(labels, told, n_classes, mu):
    """M as it is written, (N, N)."""
    n, m = len(labels), len(told)
    total = np.zeros((n + m, n + m))
    parts = [((1 - mu) * n_classes, np.ones(n, bool), told < n_classes)]
    parts += [(mu, labels == c, told == c) for c in range(n_classes)]
    for weight, one, other in parts:
        e = np.zeros(n + m)
        e[:n] = one / one.sum() if one.any() else 0
        e[n:] = other / -other.sum() if other.any() else 0
        total += weight * np.outer(e, e)
    return total / np.linalg.norm(total)


def test_the_factors_make_m():
    labels, told = np.array([0, 0, 1, 2]), np.array([0, 3, 1, 1, 3])  # class 2 has no target sample
    factors, shares = alignment(labels, told, 3, 0.3)
    np.testing.assert_allclose(factors @ np.diag(shares) @ factors.T, dense_m(labels, told, 3, 0.3), atol=1e-15)


def problem(seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(30, 5)) + 1
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels, told = rng.integers(2, size=12), rng.integers(3, size=18)
    kernel, laplacian = kernel_and_laplacian(rows, 4)
    return rows, labels, told, kernel, laplacian.toarray()


def test_woodbury_is_the_plain_solution_and_the_values_are_the_kernels():
    _, labels, told, kernel, laplacian = problem()
    align = alignment(labels, told, 2, 0.4)
    beta, values = solve(kernel, labels, 18, 2, laplacian=laplacian, rho=0.7, align=align, lam=50.0)
    risk, right = open_set_risk(labels, 18, 2, 0.4, 0.25)
    matrix = np.diag(risk) + 50 * dense_m(labels, told, 2, 0.4) + 0.7 * laplacian
    np.testing.assert_allclose(beta, np.linalg.solve(matrix @ kernel + np.eye(30), right), atol=1e-9)
    np.testing.assert_allclose(values, kernel @ beta, atol=1e-9)


def test_the_objective_has_no_slope_there():
    _, labels, told, kernel, laplacian = problem(1)
    align = alignment(labels, told, 2, 0.4)
    found, _ = solve(kernel, labels, 18, 2, laplacian=laplacian, rho=0.7, align=align, lam=50.0, sigma=0.3)
    beta = torch.tensor(found, requires_grad=True)
    kernel, laplacian, m = (torch.tensor(a) for a in (kernel, laplacian, dense_m(labels, told, 2, 0.4)))
    y, y2 = torch.zeros(30, 3, dtype=torch.float64), torch.zeros(30, 3, dtype=torch.float64)
    y[torch.arange(12), torch.tensor(labels)] = 1
    y[12:, 2] = y2[:12, 2] = 1
    e, e2 = torch.full((30, 1), 18 / 12, dtype=torch.float64), torch.full((30, 1), 0.25 * 18 / 12, dtype=torch.float64)
    e[12:], e2[12:] = 0.4, 0
    f = kernel @ beta
    objective = (e * (f - y) ** 2).sum() - (e2 * (f - y2) ** 2).sum() + 0.3 * (beta * f).sum()
    (objective + 50 * (f * (m @ f)).sum() + 0.7 * (f * (laplacian @ f)).sum()).backward()
    assert beta.grad.abs().max() < 1e-9


def test_the_kernel_and_the_graph_by_hand():
    rows, _, _, kernel, laplacian = problem()
    distances = ((rows[:, None] - rows) ** 2).sum(axis=2)
    np.testing.assert_allclose(kernel, np.exp(-distances / 2), rtol=1e-12)
    weights = np.zeros((30, 30))
    for i, row in enumerate(rows @ rows.T):
        near = np.argsort(-row)[:5]  # itself and four others
        weights[i, near] = row[near]
    weights = np.maximum(np.maximum(weights, weights.T), 0)
    degree = weights.sum(axis=1)
    np.testing.assert_allclose(laplacian, np.eye(30) - weights / np.sqrt(np.outer(degree, degree)), atol=1e-12)
    np.testing.assert_allclose(laplacian @ np.sqrt(degree), 0, atol=1e-12)


def test_distances_of_domains():
    apart = a_distance(np.zeros((5, 1)), np.ones((5, 1)) * 9, 0)
    same = a_distance(np.zeros((5, 1)), np.zeros((5, 1)), 0)
    assert (apart, same, a_distance(np.zeros((5, 1)), np.zeros((0, 1)), 0)) == (2.0, 0.0, 2.0)
    source, target = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([[0.0], [9.0]])
    labels, told = np.array([0, 0, 1, 1]), np.array([0, 1])
    whole = a_distance(source, target, 0)
    # class 0 in one place, told apart by nothing: a classifier that calls all source has one error of three
    assert class_weight(source, labels, target, told, 2, 0) == pytest.approx((2 + 2 / 3) / 2 / ((2 + 2 / 3) / 2 + whole))


def slow(world, *, alpha, gamma, lam, rho, sigma):
    """Every round by a plain solution with all matrices: F of the target and how many rounds."""
    source, labels, target = world.labelled.astype(float), world.labels, world.wild.astype(float)
    n, m, count = len(source), len(target), labels.max() + 1
    rows = np.concatenate([source, target])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    kernel, laplacian = kernel_and_laplacian(rows, 10)
    told = []
    for point in target:
        distance = np.linalg.norm(source - point, axis=1)
        first, second = np.argsort(distance)[:2]
        sure = labels[first] == labels[second] or distance[first] <= 0.5 * distance[second]
        told.append(labels[first] if sure else count)
    told, q = np.array(told), max(n, m)
    e = np.r_[np.full(n, q / n), np.full(m, alpha * q / m)]
    e2 = np.r_[np.full(n, gamma * q / n), np.zeros(m)]
    y, y2 = np.zeros((n + m, count + 1)), np.zeros((n + m, count + 1))
    y[np.arange(n), labels] = 1
    y[n:, count] = y2[:n, count] = 1
    rounds = 0
    while rounds < 10:
        rounds += 1
        mu = class_weight(source.astype(np.float32), labels, target.astype(np.float32), told, count, as_seed(0))
        m_ = dense_m(labels, told, count, mu)
        matrix = (np.diag(e - e2) + lam * m_ + rho * laplacian.toarray()) @ kernel + sigma * np.eye(n + m)
        values = (kernel @ np.linalg.solve(matrix, e[:, None] * y - e2[:, None] * y2))[n:]
        before, told = told, values.argmax(axis=1)
        if (before == told).all():
            break
    return values, rounds


@pytest.mark.parametrize("lam", [500.0, 20.0])
def test_the_slow_dense_form_says_the_same(lam):
    world = make_world(3, per_class=25, shift=0.6)
    settings = {"alpha": 1.0, "gamma": 0.25, "lam": lam, "rho": 1.0, "sigma": 1.0}
    model = DAOD(**settings, random_state=0).fit(world.labelled, world.labels, world.wild)
    values, rounds = slow(world, **settings)
    told = values.argmax(axis=1)
    np.testing.assert_array_equal(model.transduction_, np.where(told == 3, -1, told))
    np.testing.assert_allclose(model.ood_score(world.wild), values[:, 3] - values[:, :3].max(axis=1), atol=1e-7)
    assert model.n_iter_ == rounds
    np.testing.assert_array_equal(model.predict(world.wild), model.transduction_)
    assert {0, 1, 2, 3} == set(told)


def test_wrong_parameters_are_named():
    world = make_world(3, per_class=5)
    for name, value in (("gamma", 1.0), ("alpha", 0.0), ("sigma", 0.0), ("rounds", 0)):
        with pytest.raises(InputError, match=name):
            DAOD(**{name: value}).fit(world.labelled, world.labels, world.wild)
