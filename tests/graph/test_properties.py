"""Invariances that hold for every graph, on random ones: scale, order, splitting of sources, disjoint unions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from wildspec.graph import AugmentationGraph, spectral_embedding


@st.composite
def worlds(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    N, n = draw(st.integers(4, 12)), draw(st.integers(3, 12))
    T = rng.random((N, n)) * (rng.random((N, n)) < 0.7) + 1e-3
    labels = rng.integers(-1, 2, n)
    labels[:2] = 0, 1
    return T, labels, rng.random(n) + 0.1, rng


def gram(graph, k):
    """Z Z^T of the top k: what does not depend on signs and rotations."""
    Z = spectral_embedding(graph, k).embedding
    return Z @ Z.T


@settings(max_examples=40, deadline=None)
@given(worlds(), st.floats(1e-3, 1e3))
def test_scale_of_the_weights_does_not_matter(world, scale):
    T, labels, prior, _ = world
    one, two = AugmentationGraph(T, labels, prior=prior), AugmentationGraph(scale * T, labels, prior=7 * prior)
    np.testing.assert_allclose(one.adjacency(), two.adjacency(), rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(worlds())
def test_order_of_nodes_and_sources_does_not_matter(world):
    T, labels, prior, rng = world
    nodes, sources = rng.permutation(T.shape[0]), rng.permutation(T.shape[1])
    one = AugmentationGraph(T, labels, prior=prior)
    two = AugmentationGraph(T[np.ix_(nodes, sources)], labels[sources], prior=prior[sources])
    np.testing.assert_allclose(two.adjacency(), one.adjacency()[np.ix_(nodes, nodes)], atol=1e-15)
    values = np.linalg.eigvalsh(one.normalized(dense=True))[::-1]
    k = 2
    if values[k - 1] - values[k] > 1e-4:  # a cut with a gap: the top-k part is well defined
        np.testing.assert_allclose(gram(two, k), gram(one, k)[np.ix_(nodes, nodes)], atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(worlds())
def test_a_source_may_be_split_in_two(world):
    """Two equal sources of half the share, with the same label, are one source."""
    T, labels, prior, _ = world
    one = AugmentationGraph(T, labels, prior=prior)
    unlabelled = np.flatnonzero(labels == -1)
    j = int(unlabelled[0]) if len(unlabelled) else None
    if j is None:
        return
    halves = np.concatenate([prior, [prior[j] / 2]])
    halves[j] /= 2
    two = AugmentationGraph(np.column_stack([T, T[:, j]]), np.append(labels, -1), prior=halves)
    np.testing.assert_allclose(one.adjacency(), two.adjacency(), rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(worlds())
def test_spectrum_lies_between_zero_and_one_and_starts_at_one(world):
    T, labels, prior, _ = world
    graph = AugmentationGraph(T, labels, prior=prior)
    found = spectral_embedding(graph, min(3, T.shape[1]))
    assert abs(found.values[0] - 1) < 1e-12
    assert (found.values >= 0).all()
    np.testing.assert_allclose(found.vectors[:, 0], np.sqrt(graph.degrees()), atol=1e-9)
    # the best rank-k approximation leaves exactly the other eigenvalues (Eckart-Young)
    rest = np.linalg.eigvalsh(graph.normalized(dense=True))[: -len(found.values)]
    error = np.sum((graph.normalized(dense=True) - found.factors @ found.factors.T) ** 2)
    np.testing.assert_allclose(error, np.sum(rest**2), atol=1e-10)
