"""Shares of a wild pool: pieces against closed forms and other libraries, the whole against pools of known composition."""

import numpy as np
import pytest
import torch
from scipy import stats

from wildspec.decision.cut import one_group
from wildspec.decision.shares import Mixture, estimate_mixture, excess_mixture, id_share, wilson
from wildspec.errors import InputError


def pool(rng: np.random.Generator, n: int, pi_c: float, pi_s: float) -> np.ndarray:
    """Distances as a network gives them: known ones small and skewed, shifted ones larger, unknown ones around 0.9."""
    counts = [round(n * (1 - pi_c - pi_s)), round(n * pi_c), round(n * pi_s)]
    known = rng.lognormal(np.log(0.12), 0.5, counts[0])
    shifted = rng.lognormal(np.log(0.2), 0.5, counts[1])
    unknown = rng.normal(0.9, 0.15, counts[2])
    return np.concatenate([known, shifted, unknown])


@pytest.mark.parametrize("pi_s", [0.1, 0.2, 0.3, 0.4, 0.5])
@pytest.mark.parametrize("pi_c", [0.0, 0.25, 0.5])
def test_unknown_share_of_known_pools(pi_s: float, pi_c: float) -> None:
    rng = np.random.default_rng(round(100 * pi_s + 10 * pi_c))
    found = [estimate_mixture(pool(rng, 500, pi_c, pi_s)) for _ in range(20)]
    assert np.mean([m.pi_s for m in found]) == pytest.approx(pi_s, abs=0.04)
    assert np.mean([m.pi_s_interval[0] <= pi_s <= m.pi_s_interval[1] for m in found]) >= 0.95
    assert all(m.separated for m in found)


@pytest.mark.parametrize("n", [2_000, 20_000, 50_000])
@pytest.mark.parametrize("pi_s", [0.01, 0.015, 0.03])
def test_the_interval_holds_a_small_group_far_away_in_a_large_pool(n: int, pi_s: float) -> None:
    """The three groups are cut on a grid of ranks that is coarser than such a group."""
    rng = np.random.default_rng(0)
    unknown = round(n * pi_s)
    found = estimate_mixture(np.r_[rng.normal(size=n - unknown), rng.normal(20, 1, unknown)])
    assert found.pi_s == pytest.approx(pi_s)
    assert found.pi_s_interval[0] <= pi_s <= found.pi_s_interval[1]


@pytest.mark.parametrize("pi_c", [0.0, 0.5, 1.0])
def test_a_pool_without_unknown_samples(pi_c: float) -> None:
    rng = np.random.default_rng(7)
    found = [estimate_mixture(pool(rng, 500, pi_c, 0.0)) for _ in range(20)]
    assert all(m.pi_s == 0 and not m.separated for m in found)
    assert all(m.pi_s_interval[0] == 0 for m in found)


def test_more_confidence_asks_for_more() -> None:
    """Two overlapping groups of 50 with eta between the limits of 80 % and 99.9 %."""
    values = np.r_[np.linspace(0, 1, 25), np.linspace(1.2, 2.2, 25)]
    bold, careful = (estimate_mixture(values, confidence=confidence) for confidence in (0.8, 0.9999))
    assert one_group(50, 0.8) < bold.eta < one_group(50, 0.9999)
    assert bold.separated
    assert bold.pi_s == 0.5
    assert not careful.separated
    assert careful.pi_s == 0.0
    assert careful.pi_s_interval[0] == 0.0
    assert careful.pi_s_interval[1] > 0.5


def test_the_flattest_hill_is_one_group() -> None:
    """A half circle: eta = (4 / 3 pi)^2 / (1 / 4) = 0.72, more than bells and tails, less than what is flat."""
    values = stats.semicircular.ppf((np.arange(2000) + 0.5) / 2000)
    found = estimate_mixture(values)
    assert found.eta == pytest.approx(64 / (9 * np.pi**2), abs=1e-3)
    assert not found.separated
    assert found.pi_s == 0.0
    assert estimate_mixture(np.r_[values, values + 4]).separated


@pytest.mark.parametrize("count", [0, 3, 25, 50])
def test_wilson_is_scipys(count: int) -> None:
    expected = stats.binomtest(count, 50).proportion_ci(0.9, method="wilson")
    assert wilson(count / 50, 50, 0.9) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_id_share_is_exact_where_the_others_are_far() -> None:
    """1,000 quantiles as ID samples; a pool of 60 % the same and 40 % far away."""
    clean = (np.arange(1000) + 0.5) / 1000
    share, (low, high) = id_share(np.r_[np.repeat(clean, 3), np.full(2000, 5.0)], clean)
    assert share == pytest.approx(0.6)
    assert low < 0.6 < high
    z = stats.norm.ppf(0.975)
    ends = stats.binomtest(1500, 5000).proportion_ci(method="wilson")  # 3 in 10 of the pool lie below the median
    noise = z * np.sqrt(0.25 / 1000) / 0.5  # where the median lies is known as well as 1,000 samples tell
    assert (low, high) == pytest.approx((ends.low / 0.5 * (1 - noise), ends.high / 0.5 * (1 + noise)))
    few = id_share(np.r_[np.repeat(clean, 3), np.full(2000, 5.0)], clean[4::10])[1]
    assert few[1] - few[0] > 1.3 * (high - low)


@pytest.mark.parametrize("pi_c", [0.0, 0.2, 0.5])
def test_shifted_share_is_a_lower_estimate_inside_its_interval(pi_c: float) -> None:
    rng = np.random.default_rng(3)
    found = [
        estimate_mixture(pool(rng, 500, pi_c, 0.2), rng.lognormal(np.log(0.12), 0.5, 200)) for _ in range(20)
    ]
    values = np.array([m.pi_c for m in found], dtype=float)
    assert values.mean() <= pi_c + 0.05
    assert np.mean([m.pi_c_interval[0] <= pi_c <= m.pi_c_interval[1] for m in found if m.pi_c_interval]) >= 0.95
    far = estimate_mixture(pool(rng, 500, pi_c, 0.2), shift_scores=(_far(rng, pi_c), rng.normal(0, 1, 400)))
    assert far.pi_c == pytest.approx(pi_c, abs=0.1)  # scores that tell the shift give it without bias


def test_a_shift_that_cannot_be_overlooked_has_a_lower_limit() -> None:
    rng = np.random.default_rng(0)
    wild = np.r_[rng.normal(0, 0.1, 900), rng.normal(9, 0.1, 100)]
    shift = np.r_[rng.normal(0, 1, 100), rng.normal(9, 1, 900)]  # 100 clean, 800 shifted, 100 unknown
    found = estimate_mixture(wild, shift_scores=(shift, rng.normal(0, 1, 2000)))
    assert found.pi_c == pytest.approx(0.8, abs=0.03)
    assert found.pi_c_interval is not None
    assert 0.2 < found.pi_c_interval[0] < 0.8 < found.pi_c_interval[1]


def test_the_interval_of_the_shifted_share_is_the_worst_combination_of_limits() -> None:
    """At least 1 - (most unknown) - (most in-distribution); at most all that is not certainly unknown."""
    rng = np.random.default_rng(4)
    wild = np.r_[rng.normal(0, 0.1, 800), rng.normal(3, 0.3, 120), rng.normal(9, 0.1, 80)]  # the middle may be either
    shift = np.r_[rng.normal(0, 1, 300), rng.normal(9, 1, 700)], rng.normal(0, 1, 2000)
    found = estimate_mixture(wild, shift_scores=shift)
    fewest, most = found.pi_s_interval
    assert most - fewest > 0.1
    share, (_, most_inside) = id_share(*shift)
    assert found.pi_c == pytest.approx(1 - found.pi_s - share)
    assert found.pi_c_interval == pytest.approx((1 - most - most_inside, 1 - fewest))


def _far(rng: np.random.Generator, pi_c: float) -> np.ndarray:
    return np.r_[rng.normal(0, 1, round(500 * (0.8 - pi_c))), rng.normal(9, 1, round(500 * (pi_c + 0.2)))]


def test_json_and_words() -> None:
    rng = np.random.default_rng(0)
    found = estimate_mixture(pool(rng, 500, 0.4, 0.12), rng.lognormal(np.log(0.12), 0.5, 200))
    assert Mixture.from_json(found.to_json()) == found
    assert "Of your 5,000 wild images about 6" in found.describe(5000)
    alone = estimate_mixture(pool(rng, 500, 0.4, 0.0))
    assert alone.pi_c is None
    assert "No group of unknown images stands out" in alone.describe()
    with pytest.raises(InputError, match="incomplete or has unknown fields"):
        Mixture.from_json({"n": 3})


def test_bad_input() -> None:
    with pytest.raises(InputError, match="at least 10 samples, got 3"):
        estimate_mixture([1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="confidence"):
        estimate_mixture(np.arange(20.0), confidence=1.0)
    with pytest.raises(InputError, match="NaN"):
        estimate_mixture([float("nan")] * 20)
    endless = np.r_[np.arange(20.0), np.inf, np.inf]
    with pytest.raises(InputError, match=r"wild_scores hold 2 infinite .*22"):
        estimate_mixture(endless)
    for wild, known, name in ((endless, np.arange(20.0), "wild_scores"), (np.arange(20.0), endless, "id_scores")):
        with pytest.raises(InputError, match=f"{name} hold 2 infinite values among 22"):
            excess_mixture(wild, known)
    with pytest.raises(InputError, match=r"alpha must lie .*got 5"):
        excess_mixture(np.arange(20.0), np.arange(20.0), 5)


@pytest.mark.parametrize("pi_s", [0.0, 0.1, 0.3, 0.6])
def test_excess_of_pools_whose_unknown_samples_lie_apart(pi_s: float) -> None:
    """Known wild samples are drawn like the held-out ones and unknown ones far above: the ratio is 1 - pi_s at every t."""
    rng = np.random.default_rng(round(10 * pi_s))
    found = []
    for _ in range(40):
        wild = np.r_[rng.normal(size=round(2000 * (1 - pi_s))), rng.normal(9, 1, round(2000 * pi_s))]
        found.append(excess_mixture(wild, rng.normal(size=400)))
    assert np.mean([m.pi_s for m in found]) == pytest.approx(pi_s, abs=0.02)
    assert np.mean([m.pi_s_interval[0] <= pi_s <= m.pi_s_interval[1] for m in found]) >= 0.95
    assert all(m.pi_s_interval[0] <= m.pi_s <= m.pi_s_interval[1] for m in found)
    assert all(m.pi_c is None for m in found)
    assert all(m.separated == (m.pi_s > 0) for m in found)


def test_excess_is_counted_at_the_stated_quantile_and_is_a_lower_estimate_where_groups_overlap() -> None:
    rng = np.random.default_rng(3)
    clean, wild = rng.normal(size=300), np.r_[rng.normal(size=700), rng.normal(1.5, 1, size=300)]
    found = excess_mixture(wild, clean, alpha=0.1)
    t = np.sort(clean)[round(0.8 * 300) - 1]
    assert found.cut == t
    assert found.pi_s == pytest.approx(1 - (wild <= t).mean() / 0.8)
    assert found.pi_s < 0.3
    assert excess_mixture(clean - 5, clean).pi_s == 0.0, "a pool below everything has no excess"


def test_the_limits_of_the_excess_are_taken_where_it_says() -> None:
    """Lower: at the 1 - alpha quantile of the ID scores, with the Wilson limits against it; upper: at the median."""
    rng = np.random.default_rng(5)
    clean, wild = rng.normal(size=400), np.r_[rng.normal(0.1, 1, size=700), rng.normal(1.5, 1, size=300)]
    found = excess_mixture(wild, clean, alpha=0.1)

    def limits(values: np.ndarray, t: float) -> tuple[float, float]:
        interval = stats.binomtest(int(np.sum(values <= t)), len(values)).proportion_ci(0.95, method="wilson")
        return interval.low, interval.high

    tail, median = np.sort(clean)[[359, 199]]
    assert found.pi_s_interval[0] == pytest.approx(1 - limits(wild, tail)[1] / limits(clean, tail)[0])
    assert found.pi_s_interval[1] == pytest.approx(1 - limits(wild, median)[0] / limits(clean, median)[1])


def test_the_excess_lies_in_its_interval_even_where_the_tail_says_more_than_the_middle() -> None:
    """Unknown samples far above, and known wild ones pressed down: nothing is lacking at the 80 % quantile."""
    clean = np.linspace(0, 1, 1001)
    wild = np.r_[np.linspace(0, 0.79, 800), np.full(200, 5.0)]
    for alpha in (0.02, 0.1):
        found = excess_mixture(wild, clean, alpha)
        assert found.pi_s_interval[0] <= found.pi_s <= found.pi_s_interval[1]
    low = 1 - wilson(0.8, 1000)[1] / wilson(900 / 1001, 1001)[0]
    assert found.pi_s < low, "or the test is of nothing"
    assert found.pi_s_interval[0] == found.pi_s


def directions(rng: np.random.Generator, counts: tuple[int, int, int]) -> np.ndarray:
    """Features (n, 12): four known classes on axes 0 to 3, leaning to axis 8 where shifted; unknown ones on axes 4 to 7."""
    known, shifted, unknown = (rng.normal(0, 0.08, (count, 12)) for count in counts)
    for rows, first in ((known, 0), (shifted, 0), (unknown, 4)):
        rows[np.arange(len(rows)), first + rng.integers(0, 4, len(rows))] += 1
    shifted[:, 8] += 0.45
    return np.concatenate([known, shifted, unknown])


@pytest.mark.parametrize(("pi_c", "pi_s"), [(0.0, 0.0), (0.0, 0.2), (0.3, 0.1), (0.5, 0.2), (0.3, 0.5)])
def test_features_give_the_shares_of_known_pools(pi_c: float, pi_s: float) -> None:
    rng = np.random.default_rng(round(100 * pi_c + 10 * pi_s))
    counts = (round(400 * (1 - pi_c - pi_s)), round(400 * pi_c), round(400 * pi_s))
    found = estimate_mixture(directions(rng, counts), directions(rng, (200, 0, 0)))
    assert found.pi_s == pytest.approx(pi_s, abs=0.03)
    assert found.pi_s_interval[0] <= pi_s <= found.pi_s_interval[1]
    assert found.pi_c == pytest.approx(pi_c, abs=0.12)
    assert found.pi_c_interval is not None
    assert found.pi_c_interval[0] <= pi_c <= found.pi_c_interval[1]


def test_features_may_be_tensors_and_must_fit() -> None:
    rng = np.random.default_rng(1)
    wild, known = directions(rng, (60, 60, 30)), directions(rng, (100, 0, 0))
    assert estimate_mixture(torch.from_numpy(wild), torch.from_numpy(known)) == estimate_mixture(wild, known)
    with pytest.raises(InputError, match="need features of ID samples"):
        estimate_mixture(wild)
    with pytest.raises(InputError, match="need features of ID samples"):
        estimate_mixture(wild, known[:, 0])
    with pytest.raises(InputError, match=r"got \(150, 12\) and \(100, 11\)"):
        estimate_mixture(wild, known[:, :11])
    with pytest.raises(InputError, match="at least 10 wild and 20"):
        estimate_mixture(wild, known[:19])
