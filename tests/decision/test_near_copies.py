"""Near-copies: the share that has them, against how many were made and against what chance gives."""

import numpy as np
import pytest

from wildspec.decision.near_copies import near_copy_share


@pytest.mark.parametrize("dimension", [2, 3, 5])
def test_without_copies_the_share_is_that_of_chance(dimension: int) -> None:
    """Distances to the neighbours of a Poisson point process: (d_j / d_{j+1})^m is the largest of j uniform variables, so
    d_{j+1} > 3 d_j has probability 3^-mj, independently for each j."""
    expected = 1 - np.prod([1 - 3.0 ** (-dimension * j) for j in range(1, 20)])
    rows, nothing = np.random.default_rng(0).random((6000, dimension)), np.zeros(6000, int)
    share = np.mean([near_copy_share(rows, nothing, np.arange(6000), seed) for seed in range(8)])
    assert share == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("twice", [0.25, 0.5, 1.0])
def test_rows_given_twice_with_a_little_noise_are_found(twice: float) -> None:
    rng = np.random.default_rng(1)
    rows, labels = rng.normal(size=(400, 10)), np.arange(400) % 4
    again = rng.permutation(400)[: int(400 * twice)]
    more = np.concatenate([rows, rows[again] + rng.normal(0, 0.01, (len(again), 10))])
    share = near_copy_share(more, np.concatenate([labels, labels[again]]), np.arange(len(more)))
    assert share == pytest.approx(2 * twice / (1 + twice), abs=0.08)


def test_films_are_found_and_no_more_when_they_are_groups() -> None:
    rng = np.random.default_rng(2)
    film, labels = np.repeat(np.arange(120), 8), np.repeat(np.arange(120) % 3, 8)
    rows = rng.normal(size=(120, 10))[film] + rng.normal(0, 0.05, (960, 10))
    assert near_copy_share(rows, labels, np.arange(960)) > 0.9
    assert near_copy_share(rows, labels, film) < 0.05


def test_too_few_say_nothing() -> None:
    assert near_copy_share(np.arange(12.0)[:, None], np.arange(12) % 6, np.arange(12)) == 0.0
