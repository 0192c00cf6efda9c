"""The conformal promise: exact arithmetic of ranks, a simulation of the guarantee, the Beta law."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from wildspec.decision.calibration import samples_needed
from wildspec.errors import InputError
from wildspec.evaluation import Calibration, calibrate

DRAWS = 2000


@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize("alpha", [0.05, 0.1])
def test_guarantee_and_beta_law_over_2000_draws(n: int, alpha: float, rng: np.random.Generator) -> None:
    """Uniform scores: the true false-alarm rate of a threshold t is 1 - t, no test sample needed."""
    rates = np.array([1 - calibrate(rng.random(n), alpha).threshold for _ in range(DRAWS)])
    exact = calibrate(rng.random(n), alpha)
    rank = math.ceil(round((n + 1) * (1 - alpha), 9))
    spread = stats.beta(n + 1 - rank, rank).std()
    expected = (n + 1 - rank) / (n + 1)
    assert alpha - 1 / (n + 1) <= expected <= alpha  # not wastefully strict
    assert rates.mean() <= alpha + 4 * spread / math.sqrt(DRAWS)  # the promise, up to simulation error
    assert abs(rates.mean() - expected) < 4 * spread / math.sqrt(DRAWS)
    assert stats.kstest(rates, stats.beta(n + 1 - rank, rank).cdf).pvalue > 1e-4
    low, high = exact.interval(0.95)
    assert 0.93 < np.mean((rates >= low) & (rates <= high)) < 0.97


@pytest.mark.parametrize("n", [50, 200, 1000])
def test_guarantee_holds_with_heavy_ties(n: int, rng: np.random.Generator) -> None:
    """Scores with six values: P(reject) = P(S > t) exactly, from the law of the scores."""
    values, weights = np.arange(6), np.array([0.5, 0.3, 0.1, 0.05, 0.03, 0.02])
    beyond = np.append(np.cumsum(weights[::-1])[::-1][1:], 0.0)  # P(S > v)
    rates = [beyond[int(calibrate(rng.choice(values, n, p=weights), 0.05).threshold)] for _ in range(DRAWS)]
    assert np.mean(rates) <= 0.05


def test_exact_expectation_by_enumeration() -> None:
    """Every ordering of n + 1 scores is equally likely: count rejections instead of simulating, ties included."""
    for scores in ([0.0, 1, 2, 3, 4], [0.0, 0, 1, 1, 2], [3.0, 3, 3, 3, 3]):
        rejected = [calibrate(scores[:i] + scores[i + 1 :], 0.25).reject([scores[i]])[0] for i in range(5)]
        assert np.mean(rejected) <= 0.25
    assert sum(calibrate([s for s in range(5) if s != i], 0.25).reject([i])[0] for i in range(5)) == 1  # 1/5 <= 0.25


scores_strategy = st.lists(st.integers(0, 12).map(float), min_size=19, max_size=60)


@settings(deadline=None, max_examples=100)
@given(scores=scores_strategy, new=st.lists(st.integers(-2, 14).map(float), min_size=1, max_size=10),
       alpha=st.sampled_from([0.05, 0.1, 0.25, 0.3]))
def test_p_value_is_its_definition_and_agrees_with_the_threshold(
    scores: list[float], new: list[float], alpha: float
) -> None:
    calibration = calibrate(scores, alpha)
    expected = [(1 + sum(c >= s for c in scores)) / (len(scores) + 1) for s in new]
    assert calibration.p_value(new).tolist() == pytest.approx(expected)
    assert calibration.reject(new).tolist() == [p <= alpha + 1e-12 for p in expected]


def test_known_quantile() -> None:
    calibration = calibrate(range(1, 20), 0.05)  # n = 19: r = ceil(20 * 0.95) = 19, the largest
    assert (calibration.n, calibration.rank, calibration.threshold) == (19, 19, 19.0)
    assert calibrate(range(1, 100), 0.05).threshold == 95.0  # r = 100 * 0.95, no stray rounding up to 96
    assert calibrate(range(1, 1000), 0.07).threshold == 930.0


def test_too_few_samples_says_how_many() -> None:
    with pytest.raises(InputError, match=r"alpha = 0.05 .*at least 19 .*got 18"):
        calibrate(range(18), 0.05)
    assert [samples_needed(a) for a in (0.5, 0.1, 0.05, 0.03, 0.01, 0.001)] == [1, 9, 19, 33, 99, 999]
    for alpha, lost in ((0.1, 1), (0.05, 3), (0.3, 2)):  # the threshold is the score of a sample that is known
        fits = [n for n in range(1, 200) if math.ceil(round((n + lost + 1) * (1 - alpha), 9)) <= n]
        assert samples_needed(alpha, lost) == fits[0]
    for alpha in (0.5, 0.1, 0.05, 0.03, 0.01):
        assert calibrate(range(samples_needed(alpha)), alpha).rank == samples_needed(alpha)
        with pytest.raises(InputError, match="needs at least"):
            calibrate(range(samples_needed(alpha) - 1), alpha)


def test_interval_for_a_finite_test_set(rng: np.random.Generator) -> None:
    calibration = calibrate(rng.random(200), 0.05)
    low, high = calibration.interval(0.9, test_size=100)
    counts = [(rng.random(100) > calibrate(rng.random(200), 0.05).threshold).mean() for _ in range(DRAWS)]
    assert 0.88 <= np.mean([(low <= c <= high) for c in counts]) <= 0.99  # discrete: a little more than 0.9
    narrow, wide = calibration.interval(0.9), calibration.interval(0.99)
    assert wide[0] < narrow[0] < 0.05 < narrow[1] < wide[1]
    assert high > narrow[1]  # counting few samples adds noise


def test_json_round_trip_is_exact_and_checked(rng: np.random.Generator) -> None:
    calibration = calibrate(torch.from_numpy(rng.normal(size=77)).float(), 0.1)
    restored = Calibration.from_json(json.loads(json.dumps(calibration.to_json())))
    new = rng.normal(size=30)
    assert restored.threshold == calibration.threshold
    assert restored.p_value(new).tolist() == calibration.p_value(new).tolist()
    damaged = calibration.to_json() | {"threshold": 0.0}
    with pytest.raises(InputError, match="inconsistent"):
        Calibration.from_json(damaged)
    with pytest.raises(InputError, match="'scores' is missing"):
        Calibration.from_json({"alpha": 0.1, "threshold": 1.0})
    with pytest.raises(InputError, match="infinite"):
        calibrate([np.inf] * 20).to_json()


def test_tensors_in_tensors_out_and_plain_words() -> None:
    calibration = calibrate(torch.arange(40.0), 0.05)
    rejected = calibration.reject(torch.tensor([0.0, 39.0, 38.0]))
    assert isinstance(rejected, torch.Tensor)
    assert rejected.tolist() == [False, True, False]
    assert isinstance(calibration.p_value(np.array([1.0])), np.ndarray)
    text = calibration.describe()
    low, high = calibration.interval()
    assert "at most 5.0% of in-distribution samples" in text
    assert f"n = 40 the true rate lies in [{low:.1%}, {high:.1%}]" in text


def test_bad_input() -> None:
    with pytest.raises(InputError, match="alpha must lie strictly"):
        calibrate(range(100), 0.0)
    with pytest.raises(InputError, match="NaN"):
        calibrate([float("nan")] * 30)
