"""Linear probe and separability against their definitions written as loops, and the tie rule."""

import numpy as np
import pytest

from wildspec.errors import InputError, InputTypeError
from wildspec.graph import linear_probe, linear_probe_error, separability


def test_probe_is_the_papers_pseudo_inverse(rng):
    Z, y = rng.normal(size=(20, 4)), np.arange(20) % 3
    expected = np.linalg.pinv(Z.T @ Z) @ Z.T @ np.eye(3)[y]
    np.testing.assert_allclose(linear_probe(Z, y), expected, atol=1e-12)


def test_probe_of_rank_deficient_features_is_the_smallest_weight(rng):
    Z = rng.normal(size=(20, 2)) @ rng.normal(size=(2, 5))
    y = np.arange(20) % 3
    weights = linear_probe(Z, y)
    np.testing.assert_allclose(weights, np.linalg.pinv(Z, rcond=1e-8) @ np.eye(3)[y], atol=1e-12)
    null = np.linalg.svd(Z)[2][2:]  # least squares of least norm has no part in the null space of Z
    np.testing.assert_allclose(null @ weights, 0, atol=1e-12)


def test_error_counts_wrong_rows(rng):
    Z_in, y_in = np.eye(3), [0, 1, 2]
    Z_out = np.array([[1.0, 0, 0], [0, 2, 0], [0, 0, 1], [0.9, 1, 0]])
    result = linear_probe_error(Z_in, y_in, Z_out, [0, 1, 0, 0])
    assert (result.mean, result.count, result.total) == (0.5, 2, 4)
    assert result.predictions.tolist() == [0, 1, 2, 1]
    np.testing.assert_allclose(result.scores, Z_out, atol=1e-15)


def test_a_tie_is_an_error_even_when_rounding_breaks_it():
    """Two classes with the same embedding: no weight can tell them apart."""
    for noise in (0.0, 1e-15, -1e-15):
        Z_in = np.array([[1.0, 0.5], [1.0 + noise, 0.5]])
        result = linear_probe_error(Z_in, [0, 1], np.array([[1.0, 0.7], [1.0, -0.7]]), [0, 1])
        assert (result.mean, result.count) == (1.0, 2)
        assert result.predictions.tolist() == [-1, -1]


def test_scores_that_are_zero_but_for_rounding_are_a_tie():
    """What is asked about lies outside the span of what was learned: all scores are zero, whatever the last bits say."""
    for noise in (0.0, 1e-16, -1e-16):
        result = linear_probe_error([[1.0, 0.0], [-1.0, 0.0]], [0, 1], [[noise, 3.0], [-noise, 3.0]], [0, 1])
        assert result.predictions.tolist() == [-1, -1]


def test_one_class_is_always_right():
    assert linear_probe_error([[1.0]], [0], [[2.0]], [0]).mean == 0.0


def test_separability_is_the_mean_over_pairs(rng):
    A, B = rng.normal(size=(7, 3)) + 100, rng.normal(size=(5, 3))
    expected = np.mean([np.sum((a - b) ** 2) for a in A for b in B])
    assert separability(A, B) == pytest.approx(expected, rel=1e-13)
    p, q = rng.random(7), rng.random(5)
    expected = sum(p[i] * q[j] * np.sum((A[i] - B[j]) ** 2) for i in range(7) for j in range(5)) / p.sum() / q.sum()
    assert separability(A, B, weights_in=p, weights_semantic=q) == pytest.approx(expected, rel=1e-13)


def test_separability_does_not_change_with_a_rotation(rng):
    A, B = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert separability(A @ turn, B @ turn) == pytest.approx(separability(A, B), rel=1e-13)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: linear_probe([[np.nan]], [0]), "Z_in"),
        (lambda: linear_probe([1.0, 2.0], [0, 1]), "Z_in"),
        (lambda: separability([[1.0]], [[1e400]]), "Z_semantic must be finite"),
        (lambda: linear_probe([[1.0], [2.0]], [0]), "y_in"),
        (lambda: linear_probe([[1.0], [2.0]], [0, -1]), "y_in"),
        (lambda: linear_probe([[1.0], [2.0]], [0, 2]), "class 1 has no sample"),
        (lambda: linear_probe([[1.0], [2.0]], [0, 1], n_classes=1), "n_classes"),
        (lambda: linear_probe_error([[1.0], [2.0]], [0, 1], [[1.0, 2.0]], [0]), "Z_out"),
        (lambda: linear_probe_error([[1.0], [2.0]], [0, 1], [[1.0]], [2]), "y_out"),
        (lambda: linear_probe_error([[1.0], [2.0]], [0, 1], [[1.0]], [0.5]), "y_out"),
        (lambda: separability([[1.0]], [[1.0, 2.0]]), "Z_semantic"),
        (lambda: separability([[1.0]], np.zeros((0, 1))), "Z_semantic"),
        (lambda: separability([[1.0]], [[2.0]], weights_in=[-1.0]), "weights_in"),
        (lambda: separability([[1.0]], [[2.0]], weights_semantic=[1.0, 2.0]), "weights_semantic"),
    ],
)
def test_bad_input(call, name):
    with pytest.raises(InputError, match=name):
        call()


def test_features_that_are_no_numbers():
    with pytest.raises(InputTypeError, match="Z_in must be numbers"):
        linear_probe([["a"]], [0])
