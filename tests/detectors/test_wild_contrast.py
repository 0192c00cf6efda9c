"""WildContrast: both distances against brute force, samples left out, and what the second bank is for."""

import math

import pytest
import torch
from tests.decision.test_attribution import world
from tests.detectors.test_wild_knn import both, kth
from torch import Tensor

from wildspec.detectors import WildContrast, WildKNN, build_detector
from wildspec.evaluation import JointCalibration, calibrate, decide_jointly
from wildspec.evaluation.deciding import calibrate_detector, fit_detector
from wildspec.evaluation.features import Outputs


def slow(queries: Tensor, known: Tensor, strange: Tensor, k: int) -> list[float]:
    near, far = kth(queries, known, k), kth(queries, strange, k)
    return [a if a <= b else 2 * a - b for a, b in zip(near.tolist(), far.tolist(), strict=True)]


def test_scores_are_both_distances_by_brute_force() -> None:
    features, labels, wild, truth = both()
    found = WildContrast(k=4).fit(features=features, labels=labels)
    known, strange = torch.cat([features[labels >= 0], wild[truth >= 0]]), wild[truth < 0]
    queries = torch.cat([torch.randn(30, 8, generator=torch.Generator().manual_seed(1)), world(9)[2]])
    expected = slow(queries, known, strange, 4)
    assert found.score(features=queries).tolist() == pytest.approx(expected, abs=1e-5)
    plain = kth(queries, known, 4)
    assert 0.1 < float((torch.tensor(expected) > plain + 1e-6).float().mean()) < 0.9  # both cases occur


def test_left_out_scores_are_those_of_banks_without_the_sample() -> None:
    features, labels, wild, truth = both(2)
    found = WildContrast(k=3).fit(features=features, labels=labels)
    assert found.wild_scores_ is not None
    for i in range(len(wild)):
        others = torch.arange(len(wild)) != i
        known = torch.cat([features[labels >= 0], wild[(truth >= 0) & others]])
        expected = slow(wild[i : i + 1], known, wild[(truth < 0) & others], 3)[0]
        assert found.wild_scores_[i].item() == pytest.approx(expected, abs=1e-5)


def at(*degrees: float) -> Tensor:
    """Points on the unit circle."""
    angle = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def chord(degrees: float) -> float:
    return 2 * math.sin(math.radians(degrees) / 2)


def test_labelled_samples_near_unknown_ones_do_not_hide_them() -> None:
    """The class at 0 degrees, five stray samples of it at 60, strangers at 90. An odd sample of the class, at -45, is
    farther from its class than an unknown one, at 88, is from the strays; but the unknown one is nearer to strangers."""
    labelled = at(*[0.0] * 40, *[60.0] * 5)
    wild = at(*[0.0] * 30, *[90.0] * 30)
    features, labels = torch.cat([labelled, wild]), torch.cat([torch.zeros(45), torch.full((60,), -1)]).long()
    odd, unknown = (WildKNN(k=5).fit(features=features, labels=labels).score(features=at(-45, 88))).tolist()
    assert (odd, unknown) == pytest.approx((chord(45), chord(28)), abs=1e-5)
    assert unknown < odd
    odd, unknown = (WildContrast(k=5).fit(features=features, labels=labels).score(features=at(-45, 88))).tolist()
    assert (odd, unknown) == pytest.approx((chord(45), 2 * chord(28) - chord(2)), abs=1e-5)
    assert unknown > odd


def test_never_below_wild_knn_and_equal_to_it_without_a_group_of_strangers() -> None:
    features, labels, _, truth = both(3)
    queries = torch.randn(200, 8, generator=torch.Generator().manual_seed(5))
    plain, found = (kind(k=4).fit(features=features, labels=labels) for kind in (WildKNN, WildContrast))
    assert bool((found.score(features=queries) >= plain.score(features=queries)).all())
    few = int((truth < 0).sum())
    for k in (few, few + 3):  # as many strangers as neighbours, or fewer: no group
        plain, found = (kind(k=k).fit(features=features, labels=labels) for kind in (WildKNN, WildContrast))
        assert found.attribution_ is not None
        assert 0 < int((~found.attribution_.known).sum()) <= k
        assert len(found.strangers_) == 0
        assert torch.equal(found.score(features=queries), plain.score(features=queries))
    found.fit(features=features[labels >= 0], labels=labels[labels >= 0])
    assert found.wild_scores_ is None


def test_state_travels() -> None:
    features, labels, _, _ = both()
    found = WildContrast().fit(features=features, labels=labels)
    again = build_detector("wild_contrast", **found.config()).load_state(found.state())
    assert torch.equal(again.score(features=features), found.score(features=features))


def test_it_gets_the_joint_threshold_of_the_known_distances() -> None:
    """The cut between the pool's groups is `WildKNN`'s; the promise for ID samples is about its own scores."""
    labelled, labels, wild, truth = world(0)
    held_out = world(4)[0]
    as_outputs = {name: Outputs(rows, torch.zeros(len(rows), 3)) for name, rows in
                  (("labelled", labelled), ("wild", wild), ("held_out", held_out))}  # fmt: skip
    detector = fit_detector(WildContrast(), as_outputs["labelled"], labels, as_outputs["wild"])
    scores = detector.score(features=held_out)
    found = calibrate_detector(detector, scores, **as_outputs)
    plain = decide_jointly(labelled, labels, wild, held_out)
    assert isinstance(found, JointCalibration)
    assert found.shifted == pytest.approx(plain.calibration.shifted, abs=1e-6)
    assert found.mixture.separated == plain.calibration.mixture.separated
    assert found.mixture.pi_s == pytest.approx(plain.calibration.mixture.pi_s, abs=1e-6)
    assert found.id_threshold == calibrate(scores).threshold
    _, _, fresh, kind = world(9)
    rejected, before = found.reject(detector.score(features=fresh)), plain.reject(fresh)
    assert bool((rejected | ~before).all())  # what WildKNN rejects is rejected
    assert torch.equal(rejected, kind < 0)
    assert found.pool_kept == pytest.approx(float((truth >= 0).float().mean()))
