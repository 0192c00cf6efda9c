"""Promises class by class: exact intervals, thresholds by hand, and a simulation that the promise holds for each class."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom

from wildspec import SpectralClassifier, load
from wildspec.decision.calibration import Calibration, calibrate
from wildspec.decision.class_rates import class_rates, clopper_pearson, rates_in_words, worst_class
from wildspec.decision.decision import Decision
from wildspec.decision.joint import calibrate_jointly, calibration_from_json
from wildspec.detectors import Energy
from wildspec.errors import InputError


@pytest.mark.parametrize(("rejected", "count"), [(0, 7), (1, 7), (4, 33), (7, 7), (12, 300)])
def test_interval_ends_are_where_the_binomial_tails_are_a_fortieth(rejected: int, count: int) -> None:
    low, high = clopper_pearson(rejected, count)
    assert low <= rejected / count <= high
    if rejected:
        assert binom.sf(rejected - 1, count, low) == pytest.approx(0.025)
    else:
        assert low == 0
    if rejected < count:
        assert binom.cdf(rejected, count, high) == pytest.approx(0.025)
    else:
        assert high == 1


def test_rates_count_each_class() -> None:
    labels, rejected = np.array([0, 0, 0, 0, 2, 2]), np.array([True, False, False, False, True, True])
    found = class_rates(labels, rejected, ["cat", "dog", "fox"])
    assert [(one.name, one.count, one.rejected, one.rate) for one in found] == [
        ("cat", 4, 1, 0.25), ("dog", 0, 0, None), ("fox", 2, 2, 1.0)
    ]  # fmt: skip
    assert (found[1].low, found[1].high) == (0, 1)
    worst = worst_class(found)
    assert worst is not None
    assert worst.name == "fox"
    said = rates_in_words(found, 0.05, 19)
    assert all(word in said for word in ("fox", "2 of 2", "--per-class", "dog"))
    assert "--per-class" not in rates_in_words(found, 0.05, 19, own=True)
    assert worst_class(class_rates(labels[:0], rejected[:0], ["cat"])) is None


def test_one_class_among_many_that_loses_both_samples_breaks_no_promise() -> None:
    labels = np.repeat(np.arange(200), 2)
    rejected = np.isin(np.arange(400), [10, 11, 50, 90])
    said = rates_in_words(class_rates(labels, rejected, [f"c{i}" for i in range(200)]), 0.05, 19)
    assert "c5" not in said, "that one class of 200 lost both of its images is chance"
    assert "--per-class" not in said, "1 % of all images were rejected"
    assert "fewer than 19" in said


def test_the_worst_class_is_one_of_those_with_samples_enough_unless_chance_does_not_explain_another() -> None:
    labels = np.repeat([0, 1, 2], [40, 40, 4])
    rejected = np.zeros(84, bool)
    rejected[[3, 41, 42, 80]] = True  # cat 1 of 40, dog 2 of 40, fox 1 of 4
    said = rates_in_words(class_rates(labels, rejected, ["cat", "dog", "fox"]), 0.05, 19)
    assert all(word in said for word in ("worst class: dog", "2 of 40", "fox"))
    rejected[[3, 41, 42]] = False
    assert "with 19 or more" in rates_in_words(class_rates(labels, rejected, ["cat", "dog", "fox"]), 0.05, 19)
    rejected[80:] = True  # fox 4 of 4: beyond chance at 5 %
    assert "worst class: fox, 4 of 4" in rates_in_words(class_rates(labels, rejected, ["cat", "dog", "fox"]), 0.05, 19)


def test_threshold_is_the_largest_of_the_class_quantiles_by_hand() -> None:
    """alpha 1/4: r = ceil(3/4 (n + 1)). All 11: r = 9. Class 0, 7 samples: r = 6. Class 1, 3 samples: r = 3. Class 2 has one
    sample, which is fewer than the 3 needed."""
    scores = np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 30, 40])
    labels = np.array([0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2])
    found = calibrate(scores, 0.25, labels)
    assert found.promised == [0, 1]
    assert found.threshold == 30.0
    assert calibrate(scores, 0.25).threshold == 9.0
    assert found.reject(np.array([30.0, 31.0])).tolist() == [False, True]
    # p-values: the largest of (1 + at least) / (n + 1) over all, class 0, class 1
    assert found.p_value(np.array([8.5])) == pytest.approx([max(4 / 12, 1 / 8, 3 / 4)])
    assert found.p_value(np.array([31.0])) == pytest.approx([max(2 / 12, 1 / 8, 1 / 4)])


@pytest.mark.parametrize("alpha", [0.1, 0.25])
def test_p_values_reject_what_the_threshold_rejects(alpha: float, rng: np.random.Generator) -> None:
    for _ in range(20):
        labels = rng.integers(0, 4, 60)
        found = calibrate(rng.integers(0, 30, 60).astype(float), alpha, labels)
        asked = np.arange(-1.0, 32.0)
        assert ((found.p_value(asked) <= alpha + 1e-12) == found.reject(asked)).all()


@pytest.mark.parametrize("per_class", [False, True])
def test_thresholds_without_a_sample_are_those_of_the_others(per_class: bool, rng: np.random.Generator) -> None:
    scores, labels = rng.integers(0, 15, 40).astype(float), rng.integers(0, 3, 40)
    found = calibrate(scores, 0.2, labels if per_class else None)
    order = np.argsort(scores, kind="stable")
    scores, labels = scores[order], labels[order]
    slow = []
    for i in range(40):
        rest = np.arange(40) != i
        limit = calibrate(scores[rest], 0.2, labels[rest] if per_class else None).threshold
        if per_class:  # a class that has enough with the sample alone would have no quantile without it
            assert (np.bincount(labels[rest]) >= 4).all()
        slow.append(limit)
    assert found.thresholds_without().tolist() == slow


@pytest.mark.parametrize("per_class", [False, True])
def test_just_as_many_samples_as_needed_have_a_rate(per_class: bool, rng: np.random.Generator) -> None:
    """19 samples at 5 %: the threshold is their largest, and a new sample lies above it in 1 of 20 draws; found among the 19
    themselves, each against the largest of the others, is 1 of 19. 100 easy samples of another class change nothing."""
    for _ in range(20):
        hard, easy = 5 + rng.random(19), rng.random(100 if per_class else 0)
        labels = np.r_[np.ones(19, np.int64), np.zeros(len(easy), np.int64)]
        found = calibrate(np.r_[hard, easy], 0.05, labels if per_class else None)
        assert found.threshold == hard.max()
        alarms = found.scores > found.thresholds_without()
        assert alarms[found.scores >= 5].sum() == 1
        assert alarms[-1]


def test_each_class_is_kept_as_promised_in_a_simulation(rng: np.random.Generator) -> None:
    """Three classes whose scores are U(0, 1), U(0, 2) and U(0, 4): the rate of a threshold t in class c is exactly
    max(0, 1 - t / 2^c). One threshold for all rejects the hardest class far too often; class by class none is above alpha on
    average, and the promise of the hardest is used up, not overdone."""
    wide, alpha = np.array([1.0, 2.0, 4.0]), 0.1
    counts = np.array([150, 60, 24])
    labels = np.repeat(np.arange(3), counts)
    rates = {True: [], False: []}
    for _ in range(1500):
        scores = rng.random(len(labels)) * wide[labels]
        for own, found in rates.items():
            found.append(np.maximum(0, 1 - calibrate(scores, alpha, labels if own else None).threshold / wide))
    common, each = np.mean(rates[False], axis=0), np.mean(rates[True], axis=0)
    assert common[2] > 0.3
    assert (each <= alpha + 0.004).all()
    assert each[2] == pytest.approx((25 - np.ceil(25 * 0.9)) / 25, abs=0.006)  # the exact mean of one conformal threshold


def test_json_brings_back_the_classes(rng: np.random.Generator) -> None:
    labels, scores = np.repeat([0, 1], 30), np.r_[rng.random(30), 5 + rng.random(30)]
    for found in (calibrate(scores, 0.1, labels), calibrate_jointly(scores, 3 * rng.random(50), 0.1, labels=labels)):
        again = calibration_from_json(found.to_json())
        assert (again.threshold, again.promised) == (found.threshold, [0, 1])
        assert "each class" in again.describe()
    assert isinstance(found, Calibration)
    with pytest.raises(InputError, match="labels"):
        calibrate(scores, 0.1, labels[:3])


def test_the_graph_for_export_gives_the_same_p_values(rng: np.random.Generator) -> None:
    logits = torch.from_numpy(rng.normal(size=(80, 3))).float()
    detector = Energy()
    found = Decision(detector, calibrate(detector.score(logits=logits), 0.1, rng.integers(0, 3, 80)))
    fresh = torch.from_numpy(2 * rng.normal(size=(50, 3))).float()
    _, p_value, reject = found.graph()(fresh, fresh)
    assert torch.allclose(p_value.double(), found.p_value(logits=fresh).double(), atol=1e-6)
    assert torch.equal(reject, found.reject(logits=fresh))
    assert 0 < int(reject.sum()) < 50


def _uneven(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Three classes, one of them smaller and with a fifth of odd samples: one threshold for all rejects most of those."""
    y = rng.choice(["a", "b", "odd"], count, p=[0.4, 0.4, 0.2])
    X = 5 * np.eye(8)[np.where(y == "a", 0, np.where(y == "b", 1, 2))] + 0.5 * rng.normal(size=(count, 8))
    odd = (y == "odd") & (rng.random(count) < 0.2)
    X[odd] += 4 * rng.random((int(odd.sum()), 1)) * np.eye(8)[3]
    return X, y


@pytest.fixture(scope="module")
def models() -> dict[bool, SpectralClassifier]:
    rng = np.random.default_rng(3)
    X, y = _uneven(rng, 700)
    wild = np.concatenate([_uneven(rng, 150)[0], rng.normal(size=(80, 8)) + 5 * np.eye(8)[5]])
    return {
        own: SpectralClassifier(alpha=0.1, held_out=0.4, per_class=own, shift=False, random_state=0).fit(X, y, X_wild=wild)
        for own in (False, True)
    }


def test_estimator_promises_each_class(models: dict[bool, SpectralClassifier]) -> None:
    X, y = _uneven(np.random.default_rng(4), 3000)
    lost = {own: np.mean(model.predict(X[y == "odd"]) == "rejected") for own, model in models.items()}
    assert lost[False] > 0.15
    assert lost[True] < 0.14
    rates = {own: {one.name: one for one in model.class_rates_} for own, model in models.items()}
    assert rates[False]["odd"].low > 0.1  # the held-out samples say so beforehand
    assert rates[True]["odd"].low < 0.1
    assert sum(one.count for one in rates[True].values()) == len(models[True].calibration_.scores)
    assert models[True].threshold_ > models[False].threshold_
    assert (models[True].p_value(X) <= 0.1).sum() >= (models[True].predict(X) == "rejected").sum()


@pytest.mark.parametrize("own", [False, True])
def test_bundle_keeps_promise_and_rates(models: dict[bool, SpectralClassifier], own: bool, tmp_path: Path) -> None:
    models[own].save(tmp_path / "m")
    again = load(tmp_path / "m")
    X = _uneven(np.random.default_rng(5), 300)[0]
    assert again.threshold_ == models[own].threshold_
    assert again.per_class is own
    assert (again.predict(X) == models[own].predict(X)).all()
    assert (again.p_value(X) == models[own].p_value(X)).all()
    assert again.class_rates_ == models[own].class_rates_


def test_answers_keep_the_promise(models: dict[bool, SpectralClassifier], tmp_path: Path) -> None:
    models[True].save(tmp_path / "m")
    again = load(tmp_path / "m").answer({228: "unknown", 229: "unknown"})
    assert again.thresholds_.per_class
    assert len(again.class_rates_) == 3
