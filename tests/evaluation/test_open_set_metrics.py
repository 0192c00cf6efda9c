"""OS*, UNK, OS, HOS from tables whose answer is counted by hand, and from the table printed in the paper."""

import numpy as np
import pytest

from wildspec.errors import InputError
from wildspec.evaluation import open_set_metrics


def test_counted_by_hand():
    """Class a: 3 of 4 right, b: 1 of 2 (the other one rejected); unknown: 6 of 8 of x, 1 of 2 of y."""
    truth = ["a"] * 4 + ["b"] * 2 + ["x"] * 8 + ["y"] * 2
    told = ["a", "a", "a", "b"] + ["b", "rejected"] + ["rejected"] * 6 + ["a", "b"] + ["rejected", "a"]
    found = open_set_metrics(told, truth, ["a", "b"])
    assert found.accuracies == {"a": 0.75, "b": 0.5}
    assert found.os_star == pytest.approx(0.625)
    assert (found.unk, found.unk_macro) == (pytest.approx(0.7), pytest.approx((0.75 + 0.5) / 2))
    assert found.os == pytest.approx((2 * 0.625 + 0.7) / 3)
    assert found.hos == pytest.approx(2 * 0.625 * 0.7 / (0.625 + 0.7))
    assert found.hos_macro == pytest.approx(0.625)


def test_numbers_and_minus_one():
    found = open_set_metrics(np.array([0, 1, -1, -1]), np.array([0, 1, -1, -1]), [0, 1])
    assert (found.os_star, found.unk, found.os, found.hos, found.unk_macro) == (1, 1, 1, 1, 1)


def test_rejecting_all_or_nothing_is_worth_nothing():
    truth = np.array([0, 1, 5, 5])
    assert open_set_metrics(np.full(4, -1), truth, [0, 1]).hos == 0
    nothing = open_set_metrics(np.array([0, 1, 0, 0]), truth, [0, 1])
    assert (nothing.os_star, nothing.unk, nothing.hos) == (1, 0, 0)
    assert open_set_metrics(np.array([1, 0, 0, 0]), truth, [0, 1]).hos == 0, "0 / 0"


def test_balanced_accuracy_of_another_library():
    from sklearn.metrics import balanced_accuracy_score

    rng = np.random.default_rng(0)
    truth, told = rng.integers(6, size=300), rng.integers(-1, 4, size=300)
    found = open_set_metrics(told, truth, range(4))
    merged, answer = np.where(truth < 4, truth, 4), np.where(told < 0, 4, told)
    assert found.os == pytest.approx(balanced_accuracy_score(merged, answer))


def test_what_is_missing_is_named():
    with pytest.raises(InputError, match="known class 1"):
        open_set_metrics([0, -1], [0, -1], [0, 1])
    with pytest.raises(InputError, match="unknown class"):
        open_set_metrics([0], [0], [0])
    with pytest.raises(InputError, match=r"\(2,\) and \(1,\)"):
        open_set_metrics([0, 1], [0], [0])
    with pytest.raises(InputError, match="known"):
        open_set_metrics([0], [0], [])
