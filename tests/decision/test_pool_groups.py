"""Groups of a pool against the truth they were drawn from."""

import numpy as np

from wildspec.decision.pool_groups import MOST_GROUPS, pool_groups


def test_far_apart_clusters_are_found_largest_first_and_their_middle_first() -> None:
    rng = np.random.default_rng(0)
    centres = 20 * np.eye(3, 6)
    truth = np.repeat([0, 1, 2], [12, 5, 3])
    features = (centres[truth] + rng.normal(size=(20, 6))).astype(np.float32)
    order = rng.permutation(20)
    rows = order[: len(order)]
    found = pool_groups(features, rows, np.random.default_rng(1))
    assert [set(truth[group].tolist()) for group in found] == [{0}, {1}, {2}]
    assert sorted(np.concatenate(found).tolist()) == list(range(20)), "every row once"
    for group in found:
        away = np.linalg.norm(features[group] - features[group].mean(axis=0), axis=1)
        assert away[0] == away.min()
        assert (np.diff(away) >= -1e-4).all()


def test_few_many_and_equal_rows() -> None:
    features = np.random.default_rng(0).normal(size=(9000, 4)).astype(np.float32)
    assert pool_groups(features, np.empty(0, np.int64), np.random.default_rng(0)) == []
    assert [group.tolist() for group in pool_groups(features, np.array([7]), np.random.default_rng(0))] == [[7]]
    many = pool_groups(features, np.arange(9000), np.random.default_rng(0))
    assert len(many) == MOST_GROUPS
    assert sum(map(len, many)) == 9000
    same = pool_groups(np.ones((40, 4), np.float32), np.arange(40), np.random.default_rng(0))
    assert [len(group) for group in same] == [40]
