"""The joint decision: which promise is exact (shown by simulation), which an estimate."""

import json

import numpy as np
import pytest
import torch
from tests.decision.test_attribution import spread, world
from tests.decision.test_shares import pool

from wildspec.decision.joint import calibration_from_json
from wildspec.detectors import KNN, WildKNN
from wildspec.errors import InputError
from wildspec.evaluation import (
    Calibration,
    JointCalibration,
    Outputs,
    calibrate,
    calibrate_jointly,
    calibrate_ratio,
    decide,
)


def scores(seed: int = 0, pi_s: float = 0.12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.lognormal(np.log(0.12), 0.5, 119), pool(rng, 500, 0.5, pi_s)


def test_threshold_is_the_larger_of_two() -> None:
    clean, wild = scores()
    found = calibrate_jointly(clean, wild)
    assert found.id_threshold == calibrate(clean).threshold
    assert found.threshold == max(found.id_threshold, found.mixture.cut)
    assert found.threshold > found.id_threshold
    assert found.pool_kept == np.mean(wild <= found.threshold)
    low = calibrate_jointly(clean + 5, wild)  # ID scores above everything: the conformal threshold rules
    assert low.threshold == low.id_threshold == calibrate(clean + 5).threshold
    assert low.pool_kept == np.mean(wild <= low.threshold) == 1.0 > np.mean(wild <= low.shifted)


def test_a_pool_of_one_group_hardly_raises_the_threshold() -> None:
    """Nothing shows where known classes end: the cut lies inside the one group, and the conformal threshold is near it."""
    clean, wild = scores(pi_s=0.0)
    found = calibrate_jointly(clean, wild, alpha=0.1)
    assert not found.mixture.separated
    assert found.shifted == found.mixture.cut
    assert np.mean(wild <= found.shifted) < 0.9
    plain = calibrate(clean, 0.1).threshold
    assert plain <= found.threshold < np.quantile(wild, 0.95)


def test_unknown_samples_mixed_with_shifted_ones_are_not_waved_through() -> None:
    """One broad heap, its far part unknown: keeping 95 % of such a pool would accept most of them."""
    rng = np.random.default_rng(2)
    clean = rng.gamma(4, 0.1, 200)
    wild = np.concatenate([rng.gamma(4, 0.1, 200), rng.gamma(4, 0.15, 240), rng.gamma(6, 0.2, 60)])
    found = calibrate_jointly(clean, wild)
    assert not found.mixture.separated
    unknown = rng.gamma(6, 0.2, 4000)
    assert np.mean(unknown > found.threshold) > 0.7
    assert np.mean(unknown > np.quantile(wild, 0.95)) < 0.4


def test_the_id_promise_is_exact_whatever_the_pool() -> None:
    """Over many calibration sets the mean rate of rejected ID samples is at most alpha, also with an adverse pool."""
    rng = np.random.default_rng(5)
    for wild in (pool(rng, 200, 0.5, 0.2), np.linspace(0, 1e-3, 50)):  # the second pool lies below every ID score
        rates = []
        for _ in range(400):
            found = calibrate_jointly(rng.lognormal(0, 0.5, 59), wild, alpha=0.1)
            rates.append(found.reject(rng.lognormal(0, 0.5, 50)).mean())
        assert np.mean(rates) <= 0.1 + 3 * np.std(rates) / 20
    assert np.mean(rates) == pytest.approx(0.1, abs=0.015)  # and is attained where the pool asks for nothing


def test_p_values_are_the_conformal_ones() -> None:
    clean, wild = scores()
    found, plain = calibrate_jointly(clean, wild), calibrate(clean)
    some = np.linspace(0, 1.5, 40)
    assert (found.p_value(some) == plain.p_value(some)).all()
    assert (found.reject(some) == (some > found.threshold)).all()
    assert found.threshold > plain.threshold


def test_kept_known_is_a_lower_estimate() -> None:
    for seed in range(10):
        clean, wild = scores(seed)
        found = calibrate_jointly(clean, wild)
        truth = np.mean(wild[:440] <= found.threshold)  # the pool is built known first, 440 of 500
        assert found.kept_known[0] <= truth + 0.02
        assert found.kept_known[0] > 0.85


def test_a_score_trained_on_the_pool_keeps_the_conformal_threshold() -> None:
    clean, wild = scores()
    found = calibrate_ratio(clean, wild, alpha=0.1)
    assert found.threshold == found.id_threshold == calibrate(clean, 0.1).threshold
    assert found.pool_kept == np.mean(wild <= found.threshold)
    assert calibration_from_json(json.loads(json.dumps(found.to_json()))).to_json() == found.to_json()
    assert "this is the conformal one" in found.describe()


def test_json_goes_round_and_tampering_is_seen() -> None:
    clean, wild = scores()
    found = calibrate_jointly(clean, wild)
    record = json.loads(json.dumps(found.to_json()))
    again = calibration_from_json(record)
    assert isinstance(again, JointCalibration)
    assert again.to_json() == found.to_json()
    assert type(calibration_from_json(calibrate(clean).to_json())) is Calibration
    with pytest.raises(InputError, match="inconsistent"):
        calibration_from_json({**record, "shifted": record["shifted"] + 1})
    with pytest.raises(InputError, match="'mixture' is missing"):
        calibration_from_json({k: v for k, v in record.items() if k != "mixture"})


def test_words_say_which_promise_is_which() -> None:
    clean, wild = scores()
    text = calibrate_jointly(clean, wild).describe()
    assert "Exact:" in text
    assert "Estimated:" in text
    assert "this is the conformal one" in calibrate_jointly(clean + 5, wild).describe()


@pytest.mark.parametrize("count", [0, 1, 2, 9, 10])
def test_a_pool_too_small_to_have_a_shape_gets_the_conformal_threshold(count: int) -> None:
    labelled, labels, wild, _ = world(0)
    held_out = world(1)[0]
    aside, some = Outputs(held_out, held_out), Outputs(wild[:count], wild[:count])
    made = decide(WildKNN(k=3), Outputs(labelled, labelled, labels), some, aside)
    assert isinstance(made.calibration, JointCalibration) == (count >= 10)
    if count < 10:
        assert made.threshold == calibrate(made.detector.score(features=held_out)).threshold


@pytest.mark.parametrize("rule", ["distance", "linear"])
def test_a_pool_that_is_like_nothing_labelled_changes_nothing(rule: str) -> None:
    """One group of unknown samples: the decision is that of plain KNN, and all of the pool may be unknown."""
    labelled, held_out = spread(200, 0, 0.1, 0), spread(100, 0, 0.1, 1)
    unknown, fresh = spread(300, 1.2, 0.1, 2), spread(300, 1.2, 0.1, 3)
    train = Outputs(labelled, labelled, torch.zeros(200, dtype=torch.int64))
    with pytest.warns(UserWarning, match="0% of its 300 samples"):
        made = decide(WildKNN(5, rule), train, Outputs(unknown, unknown), Outputs(held_out, held_out))
    plain = decide(KNN(5), train, None, Outputs(held_out, held_out))
    for rows in (held_out, fresh):
        torch.testing.assert_close(made.score(rows), plain.score(rows))
    assert made.threshold == pytest.approx(plain.threshold)
    assert made.reject(fresh).all()
    assert isinstance(made.calibration, JointCalibration)
    assert made.calibration.mixture.pi_s_interval == (0, 1)
    assert made.calibration.mixture.pi_c_interval == (0, 1)
    assert calibration_from_json(json.loads(json.dumps(made.calibration.to_json()))).threshold == made.threshold


def test_the_shift_is_looked_for_with_labelled_samples_alone_and_the_same_k() -> None:
    """pi_c comes from the k-th nearest labelled sample, k the detector's, found here one distance at a time."""
    generator = torch.Generator().manual_seed(0)
    labelled, held_out, wild = (torch.randn(n, 5, generator=generator) + 1 for n in (150, 80, 200))
    wild[::2] += torch.tensor([0.0, 0.0, 1.5, -1.5, 0.0])  # a shift that overlaps with what is clean
    labels = torch.arange(150) % 3
    made = decide(
        WildKNN(7), Outputs(labelled, labelled, labels), Outputs(wild, wild), Outputs(held_out, held_out)
    )
    unit = [torch.nn.functional.normalize(rows.double(), dim=1) for rows in (labelled, wild, held_out)]

    def seventh(rows: torch.Tensor) -> torch.Tensor:
        return torch.stack([(unit[0] - row).norm(dim=1).sort().values[6] for row in rows])

    expected = calibrate_jointly(
        made.score(held_out), made.detector.wild_scores_, shift_scores=(seventh(unit[1]), seventh(unit[2]))  # type: ignore[arg-type]
    ).mixture  # fmt: skip
    assert isinstance(made.calibration, JointCalibration)
    found = made.calibration.mixture
    assert found.pi_c == pytest.approx(expected.pi_c, abs=1e-6)
    assert 0.05 < found.pi_c < 0.5
    assert found.pi_c_interval == pytest.approx(expected.pi_c_interval, abs=1e-6)
