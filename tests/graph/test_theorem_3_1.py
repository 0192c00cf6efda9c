"""Theorem 3.1, shown: the population spectral loss is the matrix factorization loss up to a constant.

The loss is written here term by term as nested expectations over sources (appendix A pairs eta_l with L1 and L3,
eta_u with L2 and L5), independent of both the factorization and the batch form in ``wildspec.losses``.
"""

import numpy as np
import pytest
import torch

from wildspec.graph import AugmentationGraph, spectral_embedding


def random_graph(rng, N=12, n=10, classes=2):
    T = rng.random((N, n)) ** 3
    T /= T.sum(axis=0)  # columns are distributions: the appendix uses sum_x T(x|x_j) = 1
    labels = np.full(n, -1)
    labels[: 3 * classes] = np.repeat(np.arange(classes), 3)
    eta_u, eta_l = rng.uniform(0.5, 2, size=2)
    prior = rng.random(n)
    return T, labels, prior / prior.sum(), eta_u, eta_l


def loss_terms(f, T, labels, prior):
    """L1..L5 of eq. 6 for a free table f (N, k), as sums over all sources and all nodes."""
    inner = f @ f.T
    square = inner**2
    members = [np.flatnonzero(labels == c) for c in range(labels.max() + 1)]
    one = sum(
        T[:, i] @ inner @ T[:, j] / len(group) ** 2 for group in members for i in group for j in group
    )
    two = sum(prior[j] * T[:, j] @ inner @ T[:, j] for j in range(T.shape[1]))
    three = sum(
        T[:, i] @ square @ T[:, j] / (len(g) * len(h)) for g in members for h in members for i in g for j in h
    )
    four = sum(
        prior[j] * T[:, i] @ square @ T[:, j] / len(g) for g in members for i in g for j in range(T.shape[1])
    )
    five = sum(
        prior[i] * prior[j] * T[:, i] @ square @ T[:, j] for i in range(T.shape[1]) for j in range(T.shape[1])
    )
    return one, two, three, four, five


@pytest.mark.parametrize("seed", range(3))
def test_loss_plus_constant_is_the_factorization_error(seed):
    rng = np.random.default_rng(seed)
    T, labels, prior, eta_u, eta_l = random_graph(rng)
    graph = AugmentationGraph(T, labels, prior=prior, eta_u=eta_u, eta_l=eta_l)
    C = graph.total  # the paper's loss is that of C A; eta / C makes it the loss of A
    eta_u, eta_l = eta_u / C, eta_l / C
    A, d = graph.adjacency(), graph.degrees()
    normalized = graph.normalized(dense=True)
    for k in (2, 5):
        f = rng.normal(size=(12, k))
        one, two, three, four, five = loss_terms(f, T, labels, prior)
        # term by term: positive pairs, then negative pairs, then the constant
        positive = -2 * np.sum(A * (f @ f.T))
        assert -2 * eta_l * one - 2 * eta_u * two == pytest.approx(positive, abs=1e-10)
        negative = np.sum(np.outer(d, d) * (f @ f.T) ** 2)
        assert eta_l**2 * three + 2 * eta_l * eta_u * four + eta_u**2 * five == pytest.approx(negative, abs=1e-10)
        F = np.sqrt(d)[:, None] * f
        loss = -2 * eta_l * one - 2 * eta_u * two + eta_l**2 * three + 2 * eta_l * eta_u * four + eta_u**2 * five
        constant, error = np.sum(normalized**2), np.sum((normalized - F @ F.T) ** 2)
        assert loss + constant == pytest.approx(error, abs=1e-10)
        # the main text's eq. 6 pairs eta_u with L1 and L3: that is not the factorization
        swapped = -2 * eta_u * one - 2 * eta_l * two + eta_u**2 * three + 2 * eta_l * eta_u * four + eta_l**2 * five
        assert abs(swapped + constant - error) > 1e-3


@pytest.mark.parametrize(("seed", "k"), [(0, 2), (1, 4)])
def test_gradient_descent_on_the_loss_finds_the_top_k_part(seed, k):
    """A free table f, the loss as a function of source means only, plain gradient descent in float64."""
    rng = np.random.default_rng(100 + seed)
    T, labels, prior, eta_u, eta_l = random_graph(rng)
    graph = AugmentationGraph(T, labels, prior=prior, eta_u=eta_u, eta_l=eta_l)
    eta_u, eta_l = eta_u / graph.total, eta_l / graph.total
    sources = torch.tensor(T)
    means = torch.stack([sources[:, labels == c].mean(dim=1) for c in range(labels.max() + 1)], dim=1)
    shares = torch.tensor(prior)
    table = torch.tensor(rng.normal(size=(12, k)), requires_grad=True)
    optimizer = torch.optim.SGD([table], lr=1.0, momentum=0.95, nesterov=True)

    def loss() -> torch.Tensor:
        inner = table @ table.T
        square = inner**2
        labelled, wild = means.sum(dim=1), sources @ shares
        value = (
            -2 * eta_l * torch.einsum("xc,xy,yc->", means, inner, means)
            - 2 * eta_u * torch.einsum("xj,j,xy,yj->", sources, shares, inner, sources)
            + eta_l**2 * labelled @ square @ labelled
            + 2 * eta_l * eta_u * labelled @ square @ wild
            + eta_u**2 * wild @ square @ wild
        )
        return value

    for _ in range(2000):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    F = np.sqrt(graph.degrees())[:, None] * table.detach().numpy()
    values, vectors = np.linalg.eigh(graph.normalized(dense=True))
    best = (vectors[:, -k:] * values[-k:]) @ vectors[:, -k:].T
    assert np.linalg.norm(F @ F.T - best) / np.linalg.norm(best) < 1e-3
    factors = spectral_embedding(graph, k).factors
    np.testing.assert_allclose(factors @ factors.T, best, atol=1e-12)
