"""Otsu's cut against all splits by brute force, and the test for two groups against draws of one."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from wildspec.decision.cut import explained, one_group, otsu_cut, three_groups, two_groups
from wildspec.errors import InputError


def within(values: list[float], cut: float) -> float:
    """Total squared deviation within the two sides of a cut."""
    sides = [[v for v in values if v <= cut], [v for v in values if v > cut]]
    return sum(sum((v - sum(side) / len(side)) ** 2 for v in side) for side in sides if side)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-50, 50).map(lambda i: i / 4), min_size=2, max_size=30))
def test_no_cut_leaves_less_variance(values: list[float]) -> None:
    found = within(values, otsu_cut(values))
    best = min(within(values, cut) for cut in values)
    assert found <= best + 1e-9


def test_cut_is_halfway_and_ignores_order_and_offset() -> None:
    values = [0.1, 0.2, 0.15, 0.9, 1.0]
    assert otsu_cut(values) == pytest.approx(0.55)
    assert otsu_cut(values[::-1]) == otsu_cut(values)
    shifted = otsu_cut(np.array(values) + 1e6)
    assert shifted - 1e6 == pytest.approx(0.55, abs=1e-6)
    assert otsu_cut(torch.tensor([3.0, 3.0, 3.0])) == 3.0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 4)), min_size=2, max_size=15))
def test_a_weight_is_that_many_copies(pairs: list[tuple[int, int]]) -> None:
    values, counts = [float(v) for v, _ in pairs], [n for _, n in pairs]
    copies = [v for v, n in zip(values, counts, strict=True) for _ in range(n)]
    assert within(copies, otsu_cut(values, counts)) <= within(copies, otsu_cut(copies)) + 1e-9


@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, 0.0, 1.0], [1.0, float("nan"), 1.0]])
def test_bad_weights(weights: list[float]) -> None:
    with pytest.raises(InputError, match=r"positive weight for each .*3"):
        otsu_cut([1.0, 2.0, 3.0], weights)


@pytest.mark.parametrize("bad", [[], [1.0], [[1.0, 2.0]], [1.0, float("nan")]])
def test_cut_needs_values(bad: list[float]) -> None:
    with pytest.raises(InputError, match="at least two finite values"):
        otsu_cut(bad)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 4)), min_size=2, max_size=15), st.integers(-20, 20))
def test_explained_is_what_the_sides_leave_over(pairs: list[tuple[int, int]], cut: int) -> None:
    values, counts = [float(v) for v, _ in pairs], [n for _, n in pairs]
    copies = [v for v, n in zip(values, counts, strict=True) for _ in range(n)]
    total = within(copies, max(copies))
    expected = 0.0 if total == 0 else 1 - within(copies, cut) / total
    assert explained(values, cut, counts) == pytest.approx(expected, abs=1e-9)
    assert explained(copies, cut) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("law", "eta"),
    [(stats.uniform, 0.75), (stats.norm, 2 / np.pi), (stats.expon, 0.6476), (stats.lognorm(0.5), None)],
)
def test_one_group_explains_three_quarters_at_most(law: stats.rv_continuous, eta: float | None) -> None:
    values = law.ppf((np.arange(20_000) + 0.5) / 20_000)  # the law itself, not a draw
    found = explained(values, otsu_cut(values))
    assert found <= 0.75 + 1e-6
    if eta is not None:
        assert found == pytest.approx(eta, abs=2e-3)


HILLS = {
    "uniform": stats.uniform, "normal": stats.norm, "exponential": stats.expon, "chi 3": stats.chi(3),
    "gamma 1/2": stats.gamma(0.5), "lognormal 1": stats.lognorm(1.0), "beta": stats.beta(0.8, 2), "t 3": stats.t(3),
}  # fmt: skip


@pytest.mark.parametrize("n", [50, 100, 400])
@pytest.mark.parametrize("name", HILLS)
def test_small_pools_of_one_group_are_seldom_taken_for_two(name: str, n: int) -> None:
    """The stated level is 5 %; of 300 draws at most 28 are expected then with 99.9 % (binomial), some more at n = 50, where
    the normal approximation is rough for skewed hills."""
    draws = HILLS[name].rvs(size=(300, n), random_state=np.random.default_rng(n))
    wrong = sum(two_groups(values) for values in draws)
    assert wrong <= stats.binom.ppf(0.999, 300, 0.05 if n > 50 else 0.075)


def test_the_limit_of_one_group_is_what_uniform_pools_show() -> None:
    """Mean and deviation of eta over 2,000 uniform pools of 1,000; the limit at other levels."""
    pools = np.random.default_rng(0).random((2000, 1000))
    found = np.array([explained(values, otsu_cut(values)) for values in pools])
    assert found.mean() == pytest.approx(0.75, abs=0.002)
    assert found.std() == pytest.approx(np.sqrt(3 / 40 / 1000), rel=0.05)
    for confidence in (0.8, 0.95, 0.99):
        assert one_group(1000, confidence) == pytest.approx(np.quantile(found, confidence), abs=0.003)
    assert one_group(4000) - 0.75 == pytest.approx((one_group(1000) - 0.75) / 2)


def test_explained_is_between_over_total_variance(rng: np.random.Generator) -> None:
    values = rng.normal(size=50)
    sides = [values[values <= 0.3], values[values > 0.3]]
    between = sum(len(side) * (side.mean() - values.mean()) ** 2 for side in sides) / 50
    assert explained(values, 0.3) == pytest.approx(between / values.var())
    assert explained(np.ones(5), 1.0) == 0.0


def test_three_groups_by_brute_force(rng: np.random.Generator) -> None:
    values = np.sort(np.r_[rng.normal(0, 0.1, 12), rng.normal(1, 0.2, 7), rng.normal(3, 0.1, 6)])
    rng.shuffle(values)

    def spread(cuts: tuple[int, int]) -> float:
        return sum(len(g) * g.var() for g in np.split(np.sort(values), cuts))

    best = min(itertools.combinations(range(1, len(values)), 2), key=spread)
    v = np.sort(values)
    assert three_groups(values) == pytest.approx(tuple((v[c - 1] + v[c]) / 2 for c in best))


def test_uneven_weights_leave_fewer_values_to_judge_by() -> None:
    """Uniform draws of 100 in which a fifth of the values has nearly all the weight: at most 5 % may pass for two groups, of
    400 draws 34 with 99.9 % (binomial). The limit of 100 even values would let a quarter pass."""
    rng = np.random.default_rng(0)
    wrong = bold = 0
    for _ in range(400):
        values, weights = rng.random(100), np.where(rng.random(100) < 0.2, 20.0, 1.0)
        wrong += two_groups(values, weights=weights)
        bold += explained(values, otsu_cut(values, weights), weights) > one_group(100)
    assert wrong <= 34 < 80 < bold


def test_the_cut_may_be_given_and_is_otsus_otherwise() -> None:
    values = np.r_[np.linspace(0, 1, 30), np.linspace(5, 6, 30)]
    assert two_groups(values)
    assert two_groups(torch.from_numpy(values), 3.0)
    assert not two_groups(values, 0.1)
