import numpy as np
import pytest

from shifted_world import make_world
from wildspec.embeddings.shift import Shift, _estimate, estimate_shift
from wildspec.graph.search import unit_rows


@pytest.fixture(scope="module")
def world():
    return make_world(1)


@pytest.fixture(scope="module")
def shift(world):
    found = estimate_shift(unit_rows(world.labelled), unit_rows(world.wild))
    assert found is not None
    return found


def test_the_two_groups_of_the_pool_are_told_apart(world, shift):
    guessed = shift.posterior(unit_rows(world.wild)) > 0.5
    assert (guessed == (world.wild_kind > 0)).mean() > 0.98
    assert shift.share == pytest.approx((world.wild_kind > 0).mean(), abs=0.02)
    assert (shift.posterior(unit_rows(world.id_test)) > 0.5).mean() < 0.02


def test_aligning_gives_each_group_mean_zero_and_spread_one(world, shift):
    """Before rows are scaled to length 1: the definition, on samples whose group is certain."""
    rows = unit_rows(world.wild)[world.wild_kind > 0].astype(np.float64)
    standardized = (rows - shift.means[1]) / shift.deviations[1]
    np.testing.assert_allclose(standardized.mean(axis=0), 0, atol=0.05)
    np.testing.assert_allclose(standardized.std(axis=0), 1, atol=0.05)
    expected = standardized / np.linalg.norm(standardized, axis=1, keepdims=True)
    np.testing.assert_allclose(shift.align(rows.astype(np.float32), np.ones(len(rows))), expected, atol=1e-4)


def test_posterior_is_logistic_in_the_row(shift, rng):
    rows = unit_rows(rng.normal(size=(5, 24)))
    logits = [float(np.dot(row.astype(np.float64), shift.direction)) + shift.offset for row in rows]
    expected = [1 / (1 + np.exp(-min(max(z, -30.0), 30.0))) for z in logits]
    np.testing.assert_allclose(shift.posterior(rows), expected, rtol=1e-5)


def test_a_pool_like_the_labelled_samples_has_no_shift():
    for seed in range(4):
        world = make_world(seed, shift=0.0, unknown=1)
        pool = np.concatenate([world.id_test, world.wild[world.wild_kind == 0]])
        assert estimate_shift(unit_rows(world.labelled), unit_rows(pool)) is None


def test_aligned_classes_lie_where_the_labelled_ones_do(world, shift):
    """Nearest class mean of the labelled samples, before and after: the shift is taken out."""

    def accuracy(labelled, shifted):
        means = np.stack([labelled[world.labels == c].mean(axis=0) for c in range(3)])
        nearest = np.linalg.norm(shifted[:, None] - means, axis=2).argmin(axis=1)
        return (nearest == world.shifted_labels).mean()

    labelled, shifted = unit_rows(world.labelled), unit_rows(world.shifted)
    assert accuracy(shift.align(labelled), shift.align(shifted)) > 0.95
    assert accuracy(shift.align(labelled), shift.align(shifted)) >= accuracy(labelled, shifted)


def test_few_samples_give_no_estimate(rng):
    rows = unit_rows(rng.normal(size=(10, 4)))
    assert estimate_shift(rows[:3], rows) is None
    assert estimate_shift(rows, rows[:3]) is None


def test_the_estimate_does_not_depend_on_the_order_of_the_pool(world):
    pool = unit_rows(world.wild)
    one = estimate_shift(unit_rows(world.labelled), pool)
    two = estimate_shift(unit_rows(world.labelled), pool[::-1].copy())
    np.testing.assert_allclose(one.posterior(pool), two.posterior(pool), atol=1e-6)


def test_constant_features_are_not_blown_up():
    shift = Shift(np.zeros(2), 0.0, np.zeros((2, 2)), np.full((2, 2), 1e-3), 0.5, 0.0)
    assert np.isfinite(shift.align(np.zeros((3, 2), np.float32))).all()


def test_a_small_group_is_estimated_small_where_the_two_overlap():
    """Two Gaussians 3 deviations apart, one in ten wild samples in the second. Bayes: halfway between, r is the prior."""
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        labelled, wild = rng.normal(size=(1000, 5)), rng.normal(size=(2000, 5))
        wild[:200, 0] += 3
        found.append(_estimate(labelled.astype(np.float32), wild.astype(np.float32)))
    assert np.mean([shift.share for shift in found]) == pytest.approx(0.1, abs=0.04)
    halfway = np.array([[1.5, 0, 0, 0, 0]], np.float32)
    assert np.mean([shift.posterior(halfway)[0] for shift in found]) == pytest.approx(0.1, abs=0.15)
