"""Which eigenvectors of the five-node example carry class, domain and novelty, and what removing the domain does."""

import numpy as np
import pytest

from wildspec.theory.five_node import five_node
from wildspec.theory.roles import CONTRASTS, ROLES, role_shares

PLANE = [(a, b) for a in (0.02, 0.05, 0.1) for b in (0.01, 0.03, 0.08) if abs(9 / 8 * a - b) > 0.005]
CLASS, DOMAIN, NOVELTY = (ROLES.index(name) for name in ("class", "domain", "novelty"))


def scores(scenario: str, alpha: float, beta: float, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(painting, panda) distance to the nearest sketch: plain, and with the domain direction removed, which is where
    paintings of a class lie from its sketches."""
    embedding = five_node(scenario, alpha=alpha, beta=beta, k=k).embedding
    rows = unit(embedding)
    direction = np.linalg.svd(rows[2:4] - rows[:2])[2][0]
    without = rows - np.outer(rows @ direction, direction)
    return to_sketches(embedding)[[2, 4]], to_sketches(without)[[2, 4]]


def to_sketches(embedding: np.ndarray) -> np.ndarray:
    """(5,) distance of each node to the nearest sketch, rows of length 1: the score of KNN with k = 1."""
    rows = unit(embedding)
    return np.linalg.norm(rows[:, None] - rows[None, :2], axis=2).min(axis=1)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_contrasts_are_orthonormal_and_shares_add_up() -> None:
    assert np.allclose(CONTRASTS @ CONTRASTS.T, np.eye(5))
    assert np.allclose(role_shares(five_node("shared")).sum(axis=1), 1)


@pytest.mark.parametrize(("alpha", "beta"), PLANE)
def test_separate_three_vectors_one_role_each(alpha: float, beta: float) -> None:
    """Novelty has an eigenvector (with eigenvalue 1) to itself; the third is class where 9/8 alpha > beta, else domain."""
    world = five_node("separate", alpha=alpha, beta=beta)
    shares = role_shares(world)
    assert world.eigen[0][:2] == pytest.approx([1, 1])
    assert shares[:2, NOVELTY].sum() > 0.98, "novelty and what is common span the first two"
    first, second = (CLASS, DOMAIN) if 9 / 8 * alpha > beta else (DOMAIN, CLASS)
    assert shares[2, first] > 0.95
    assert shares[3, second] > 0.95


@pytest.mark.parametrize(("alpha", "beta"), PLANE)
def test_shared_novelty_and_domain_mix(alpha: float, beta: float) -> None:
    """The panda is a painting: no eigenvector tells it apart alone. Two vectors carry both contrasts, class stays pure."""
    shares = role_shares(five_node("shared", alpha=alpha, beta=beta))
    mixed = [i for i in range(5) if shares[i, DOMAIN] + shares[i, NOVELTY] > 0.9]
    assert len(mixed) == 2
    assert shares[mixed].sum(axis=0)[[DOMAIN, NOVELTY]] == pytest.approx([1, 1], abs=0.05)
    assert shares[:, CLASS].max() > 0.7
    if beta >= alpha:
        assert shares[mixed, NOVELTY].max() < 0.9, "where domains are tied strongly neither vector is novelty alone"


@pytest.mark.parametrize(("alpha", "beta"), PLANE)
@pytest.mark.parametrize("scenario", ["separate", "shared"])
def test_without_the_domain_paintings_are_near_and_the_panda_stays_far(scenario: str, alpha: float, beta: float) -> None:
    """With four dimensions: exact nodes, no sampling."""
    (painting, panda), (painting_after, panda_after) = scores(scenario, alpha, beta, k=4)
    assert painting > 0.7 * panda, "plain: a known painting is nearly as far as the unknown panda"
    assert painting_after < 0.5 * painting
    assert panda_after > 0.9 * panda
    assert panda_after / painting_after > 2 * panda / painting


def test_with_three_dimensions_the_unknown_pays_when_it_shares_the_domain() -> None:
    """Domain and novelty then share one vector: what is removed is half of what told the panda apart."""
    for alpha, beta in PLANE:
        (_, panda), (_, panda_after) = scores("shared", alpha, beta, k=3)
        assert panda_after < 0.65 * panda
        (_, alone), (_, alone_after) = scores("separate", alpha, beta, k=3)
        assert alone_after == pytest.approx(alone, abs=1e-6), "a panda with a domain of its own loses nothing"
