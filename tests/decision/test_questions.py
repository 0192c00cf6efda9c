"""Question rules on pools made by hand."""

import numpy as np
import pytest

from wildspec.decision.questions import QUESTION_RULES, Pool, choose, question_rule
from wildspec.errors import InputError


def make_pool(scores, thresholds=0.0, features=None, probabilities=None) -> Pool:
    scores = np.asarray(scores, float)
    count = len(scores)
    features = np.random.default_rng(5).normal(size=(count, 4)) if features is None else np.asarray(features)
    probabilities = np.full((count, 2), 0.5) if probabilities is None else np.asarray(probabilities)
    return Pool(scores, np.broadcast_to(np.asarray(thresholds, float), count), features.astype(np.float32), probabilities)


def ask(rule, pool, n, seed=0):
    return choose(rule, pool, n, np.random.default_rng(seed)).tolist()


def test_the_most_unlike_and_the_boundary():
    pool = make_pool([5.0, -3.0, 0.2, 1.0, -0.1], [0.0, -3.05, 0.0, 0.7, 4.0])
    assert ask("most_unlike", pool, 3) == [0, 3, 2]
    assert ask("boundary", pool, 3) == [1, 2, 3]  # 0.05, 0.2 and 0.3 from their own thresholds


def test_where_nothing_is_rejected_the_boundary_is_at_the_highest_scores():
    assert ask("boundary", make_pool([0.0, 2.0, 1.0], np.inf), 2) == [1, 2]


def test_entropy_and_margin_part_where_they_should():
    wide, two, sure = [0.34, 0.33, 0.33], [0.5, 0.5, 0.0], [0.98, 0.01, 0.01]
    pool = make_pool([0, 0, 0], probabilities=[sure, two, wide])
    assert ask("entropy", pool, 3) == [2, 1, 0]
    assert ask("margin", pool, 3) == [1, 2, 0]
    assert ask("margin", make_pool([0, 1], probabilities=[[1.0], [1.0]]), 1) == [0]


def test_random_is_uniform_without_repetition():
    pool = make_pool(np.arange(10))
    seen = np.zeros(10)
    for seed in range(600):
        rows = ask("random", pool, 3, seed)
        assert len(set(rows)) == 3
        seen[rows] += 1
    assert np.abs(seen - 180).max() < 5 * np.sqrt(600 * 0.3 * 0.7)


def blobs(sizes, seed=0, spread=0.05):
    """Groups in orthogonal directions."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes)), sizes)
    return np.eye(len(sizes))[group] + spread * rng.normal(size=(len(group), len(sizes))), group


def test_every_group_that_the_decision_is_unsure_of_is_asked_about_before_the_boundary():
    features, group = blobs([40, 30, 20, 10, 100])
    scores = np.where(group == 4, 9.0, 0.1 * group)  # the decision is sure of the last, largest group
    scores[group == 0] = 0.0  # and the boundary alone would ask about the first only
    pool = make_pool(scores, features=features)
    for seed in range(5):
        first = group[ask("groups", pool, 8, seed)][:4]
        assert set(first) == {0, 1, 2, 3}
    assert set(group[ask("boundary", pool, 8)]) == {0}


def test_a_large_group_is_asked_about_twice():
    features, group = blobs([90, 5, 5, 5])
    rows = ask("groups", make_pool(np.zeros(105), features=features), 8)
    unsure = group[rows[:5]]
    assert (unsure == 0).sum() >= 2


def test_never_two_near_copies():
    features, _ = blobs([6, 6, 6], spread=0.0)
    rows = ask("groups", make_pool(np.arange(18) / 18, features=features), 10)
    assert len(rows) == 3
    assert len(np.unique(features[rows], axis=0)) == 3
    assert ask("groups", make_pool(np.zeros(30), features=np.ones((30, 4))), 5) == [0]


@pytest.mark.parametrize("rule", sorted(QUESTION_RULES))
def test_every_rule_keeps_the_contract(rule, rng):
    pool = make_pool(rng.normal(size=60), rng.normal(size=60), rng.normal(size=(60, 6)), rng.dirichlet([1, 1, 1], 60))
    rows = ask(rule, pool, 12)
    assert len(rows) == len(set(rows)) == 12
    assert set(rows) <= set(range(60))
    assert rows == ask(rule, pool, 12)  # the same generator, the same questions
    assert sorted(ask(rule, pool, 1000)) == list(range(60)) or rule == "groups"
    empty = make_pool([], probabilities=np.empty((0, 2)))
    assert ask(rule, empty, 3) == []


def test_a_rule_of_ones_own_and_mistakes():
    @question_rule("first_ones")
    def first_ones(pool, n, generator):
        return np.arange(n)

    try:
        assert ask("first_ones", make_pool([3, 2, 1]), 2) == [0, 1]
    finally:
        del QUESTION_RULES["first_ones"]
    with pytest.raises(InputError, match="boundary"):
        ask("nearest", make_pool([1.0]), 1)
    with pytest.raises(InputError, match="n must"):
        ask("random", make_pool([1.0]), 0)
    with pytest.raises(InputError, match="one row of each"):
        Pool(np.zeros(2), np.zeros(3), np.zeros((2, 1), np.float32), np.zeros((2, 1)))
