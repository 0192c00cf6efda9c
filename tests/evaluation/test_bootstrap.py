"""Bootstrap intervals against scipy's implementation and against a known sampling distribution."""

import numpy as np
import pytest
import torch
from scipy import stats

from wildspec.errors import InputError
from wildspec.evaluation import auroc, bootstrap, evaluate_scores, fpr95_id
from wildspec.evaluation.bootstrap import _bca_tails


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_agrees_with_scipy_on_two_groups(method: str, rng: np.random.Generator) -> None:
    known, unknown = rng.normal(size=60), rng.normal(size=25) + 1.8  # AUROC near 0.9: skewed
    ours = bootstrap(auroc, known, unknown, resamples=4000, method=method)
    theirs = stats.bootstrap(
        (known, unknown), auroc, n_resamples=4000, vectorized=False, paired=False, random_state=1,
        method={"bca": "BCa", "percentile": "percentile"}[method],
    ).confidence_interval  # fmt: skip
    width = theirs.high - theirs.low
    assert ours.value == auroc(known, unknown)
    assert ours.low == pytest.approx(theirs.low, abs=0.08 * width)  # both are simulations
    assert ours.high == pytest.approx(theirs.high, abs=0.08 * width)


def test_bca_differs_from_percentile_where_the_metric_is_skewed(rng: np.random.Generator) -> None:
    known, unknown = rng.normal(size=40), rng.normal(size=20) + 2.2
    plain, corrected = (bootstrap(auroc, known, unknown, method=m) for m in ("percentile", "bca"))
    assert corrected.low < plain.low


def test_a_metric_of_few_values_is_corrected_for_its_ties() -> None:
    """19 of 20 right: a third of all resamples give that very value. Half of them count as below it, as in scipy."""
    right = np.r_[np.ones(19), 0.0]
    ours = bootstrap(lambda group: float(np.mean(group)), right, resamples=4000)
    theirs = stats.bootstrap((right,), np.mean, n_resamples=4000, method="BCa", random_state=1)
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.026)  # values are 0.05 apart
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.026)


def test_interval_of_a_mean_is_the_textbook_one(rng: np.random.Generator) -> None:
    x = rng.normal(size=400)
    found = bootstrap(lambda values: float(np.mean(values)), x, resamples=3000)
    error = 1.96 * x.std() / 20
    assert (found.low, found.high) == pytest.approx((x.mean() - error, x.mean() + error), abs=0.15 * error)


def test_seed_decides_and_confidence_widens(rng: np.random.Generator) -> None:
    known, unknown = torch.from_numpy(rng.normal(size=50)), torch.from_numpy(rng.normal(size=50) + 1)
    first = bootstrap(fpr95_id, known, unknown, resamples=200)
    assert bootstrap(fpr95_id, known, unknown, resamples=200) == first
    assert bootstrap(auroc, known, unknown, resamples=200, seed=1) != bootstrap(auroc, known, unknown, resamples=200)
    narrow, wide = (bootstrap(auroc, known, unknown, resamples=500, confidence=c) for c in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_rows_of_a_group_stay_together(rng: np.random.Generator) -> None:
    """Scores, predictions and labels are drawn together: id_acc of a resample is right for its own samples."""
    scores = rng.normal(size=30)
    pred, true = (scores > 0).astype(int), np.ones(30, int)

    def metric(group: tuple[np.ndarray, ...]) -> float | None:
        assert ((group[0] > 0) == (group[1] == 1)).all()  # the pairing survived
        return evaluate_scores(id_scores=group[0], id_pred=group[1], id_labels=group[2]).id_acc

    found = bootstrap(metric, (scores, torch.from_numpy(pred), true), resamples=200)
    assert found.value == np.mean(scores > 0)
    assert found.low < found.value < found.high


def test_large_groups_use_blocks_for_the_acceleration(rng: np.random.Generator) -> None:
    calls = 0

    def counted(x: np.ndarray) -> float:
        nonlocal calls
        calls += 1
        return float(np.mean(x))

    bootstrap(counted, rng.normal(size=5000), resamples=100)
    assert calls == 1 + 100 + 200


def test_groups_of_different_sizes_weigh_in_the_acceleration_as_they_should(rng: np.random.Generator) -> None:
    """a = sum_g sum_j U_gj^3 / n_g^3 / (6 (sum_g sum_j U_gj^2 / n_g^2)^(3/2)), U the jackknife influences: the quantiles
    that are read off the draws follow from it (Efron, 1987; Davison and Hinkley, 1997, for several samples)."""
    few, many = rng.exponential(size=8), rng.exponential(size=150)

    def ratio(first: np.ndarray, second: np.ndarray) -> float:
        return float(np.mean(first) / np.mean(second))

    cubes = squares = 0.0
    for number, group in enumerate((few, many)):
        groups = [few, many]
        left_out = []
        for j in range(len(group)):
            groups[number] = np.delete(group, j)
            left_out.append(ratio(*groups))
        u = (len(group) - 1) * (np.mean(left_out) - np.array(left_out))
        cubes += np.sum(u**3) / len(group) ** 3
        squares += np.sum(u**2) / len(group) ** 2
    a = cubes / (6 * squares**1.5)
    draws, value = rng.normal(ratio(few, many), 0.3, size=999), ratio(few, many)
    bias = stats.norm.ppf(np.mean(draws < value))
    z = bias + stats.norm.ppf([0.025, 0.975])
    expected = stats.norm.cdf(bias + z / (1 - a * z))
    found = _bca_tails(np.array([0.025, 0.975]), draws, value, ratio, [(few,), (many,)])
    assert found == pytest.approx(expected, abs=1e-12)
    assert abs(a) > 0.02, "or the test is of nothing"


def test_perfect_separation_is_a_point() -> None:
    found = bootstrap(auroc, np.arange(20.0), np.arange(30.0, 50.0), resamples=100)
    assert (found.low, found.value, found.high) == (1.0, 1.0, 1.0)
    assert str(found) == "100.00 [100.00, 100.00]"


def test_bad_input() -> None:
    with pytest.raises(InputError, match="resamples must be at least 100"):
        bootstrap(auroc, [1.0], [2.0], resamples=10)
    with pytest.raises(InputError, match="method must be one of bca, percentile"):
        bootstrap(auroc, [1.0], [2.0], method="basic")
    with pytest.raises(InputError, match=r"group 0 must hold arrays of one length, got \[2, 3\]"):
        bootstrap(auroc, (np.zeros(2), np.zeros(3)))
    with pytest.raises(InputError, match="no value on a resample"):
        bootstrap(lambda x: None, [1.0, 2.0])
    with pytest.raises(InputError, match="no value on a resample"):
        bootstrap(lambda x: float("nan"), [1.0, 2.0])  # or the interval would be NaN too, in silence
