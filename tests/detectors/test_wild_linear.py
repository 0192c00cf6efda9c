"""The linear rule of WildKNN: against another optimizer and its own optimality, samples left out, what a direction does."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from tests.decision.test_attribution import world
from tests.detectors.test_wild_knn import both, kth, unit
from torch import Tensor

from wildspec.decision import linear_rule
from wildspec.decision.linear_rule import LAMBDA, separate
from wildspec.detectors import WildKNN, build_detector
from wildspec.errors import InputError
from wildspec.evaluation import JointCalibration, Outputs, auroc, calibrate, decide


def objective(rule: np.ndarray, samples: np.ndarray, strange: np.ndarray) -> tuple[float, np.ndarray]:
    """Half the mean loss of either side plus the penalty, and its gradient; the offset is free."""
    sign = np.where(strange, -1.0, 1.0)
    margin = sign * (samples @ rule[:-1] + rule[-1])
    share = np.where(strange, 0.5 / strange.sum(), 0.5 / (~strange).sum())
    slope = share * sign / (1 + np.exp(-margin))
    gradient = np.append(samples.T @ slope + LAMBDA * rule[:-1], slope.sum())
    return float((share * np.logaddexp(0, margin)).sum() + LAMBDA / 2 * (rule[:-1] ** 2).sum()), gradient


def slow_rule(known: Tensor, strange: Tensor, k: int) -> np.ndarray:
    """By brute force: every known sample's distance in a bank without it, a general optimizer for the rule."""
    alone = torch.arange(len(known))
    near = torch.cat([kth(known[i : i + 1], known[alone != i], k) for i in range(len(known))])
    samples = torch.cat([unit(known), unit(strange)])
    samples = torch.cat([samples, torch.cat([near, kth(strange, known, k)]).unsqueeze(1)], dim=1).numpy()
    side = np.arange(len(samples)) >= len(known)
    start = np.zeros(samples.shape[1] + 1)
    return minimize(objective, start, (samples, side), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}).x


def test_scores_are_those_of_a_rule_found_by_another_optimizer() -> None:
    features, labels, wild, truth = both()
    found = WildKNN(4, "linear").fit(features=features, labels=labels)
    known, strange = torch.cat([features[labels >= 0], wild[truth >= 0]]), wild[truth < 0]
    rule = slow_rule(known, strange, 4)
    queries = torch.cat([torch.randn(30, 8, generator=torch.Generator().manual_seed(1)), world(9)[2]])
    samples = torch.cat([unit(queries), kth(queries, known, 4).unsqueeze(1)], dim=1).numpy()
    expected = samples @ rule[:-1] + rule[-1]
    assert found.score(features=queries).numpy() == pytest.approx(expected, abs=0.02)
    assert np.ptp(expected) > 10  # the tolerance is small beside it
    assert found.wild_scores_ is not None
    left_out = [kth(row.unsqueeze(0), known[~(known == row).all(dim=1)], 4) for row in wild]  # a stranger is not in it
    samples = torch.cat([unit(wild), torch.stack(left_out)], dim=1).numpy()
    assert found.wild_scores_.numpy() == pytest.approx(samples @ rule[:-1] + rule[-1], abs=0.02)


@pytest.mark.parametrize("width", [3, 1100])
def test_no_rule_is_better(width: int) -> None:
    """The gradient vanishes, with both solvers, however unequal the sides."""
    maker = torch.Generator().manual_seed(width)
    rows = torch.randn(90, width, generator=maker, dtype=torch.float64) / width**0.5
    rows[80:, 0] += 0.5
    near = torch.rand(90, generator=maker, dtype=torch.float64)
    found = separate(rows, near, 80).numpy()
    samples = torch.cat([rows, near.unsqueeze(1)], dim=1).numpy()
    _, gradient = objective(found, samples, np.arange(90) >= 80)
    _, before = objective(np.zeros(width + 2), samples, np.arange(90) >= 80)
    assert np.abs(gradient).max() < 1e-3 * np.abs(before).max()


def circle(degrees: Tensor, height: float) -> Tensor:
    """Points of the unit sphere at a height above the plane of the circle."""
    angle = torch.deg2rad(degrees.double())
    flat = (1 - height**2) ** 0.5
    return torch.stack([flat * angle.cos(), flat * angle.sin(), torch.full_like(angle, height)], dim=1)


def test_a_direction_tells_what_distances_do_not() -> None:
    """Known samples lie around a circle, on one half of it sparsely; strangers above it in a bunch. A known sample of the
    sparse half is farther from its kind than an unknown one above the dense half; the direction upward tells them apart."""
    known = circle(torch.cat([torch.linspace(0, 180, 200), torch.tensor([220.0, 260.0, 300.0, 340.0])]), 0.0)
    wild = torch.cat([circle(torch.linspace(0, 180, 100), 0.0), circle(torch.linspace(85, 95, 40), 0.8)])
    features = torch.cat([known, wild])
    labels = torch.cat([torch.zeros(len(known)), torch.full((len(wild),), -1)]).long()
    odd, unknown = circle(torch.linspace(200, 350, 40), 0.0), circle(torch.linspace(60, 120, 40), 0.5)
    plain, found = (WildKNN(5, rule).fit(features=features, labels=labels) for rule in ("distance", "linear"))
    assert auroc(plain.score(features=odd), plain.score(features=unknown)) < 0.5
    assert auroc(found.score(features=odd), found.score(features=unknown)) == 1.0


def test_what_is_like_nothing_seen_is_farther_out_than_known_samples() -> None:
    features, labels, wild, truth = both(1)
    found = WildKNN(4, "linear").fit(features=features, labels=labels)
    other = torch.zeros(20, 8)
    other[:, -1] = -1  # neither a class nor the strangers' direction
    assert float(found.rule_[-2]) > 0
    assert float(found.score(features=other).min()) > float(found.score(features=wild[truth >= 0]).median())


def test_without_a_group_of_strangers_it_is_wild_knn() -> None:
    features, labels, _, truth = both(3)
    queries = torch.randn(200, 8, generator=torch.Generator().manual_seed(5))
    few = int((truth < 0).sum())
    plain, found = (WildKNN(few, rule).fit(features=features, labels=labels) for rule in ("distance", "linear"))
    assert torch.equal(found.score(features=queries), plain.score(features=queries))
    assert found.wild_scores_ is not None
    assert plain.wild_scores_ is not None
    assert torch.equal(found.wild_scores_, plain.wild_scores_)
    found.fit(features=features[labels >= 0], labels=labels[labels >= 0])
    assert found.wild_scores_ is None
    assert found.rule_.tolist() == [*[0.0] * 8, 1.0, 0.0]


@pytest.mark.parametrize(
    ("k", "strangers", "learns"), [(4, 1, False), (4, 10, False), (4, 11, True), (12, 12, False), (12, 13, True)]
)
def test_no_more_strangers_than_coefficients_teach_no_rule(
    k: int, strangers: int, learns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight directions, the distance and an offset: ten coefficients. Nor do k strangers, of which none has k others."""
    features, labels, wild, truth = both()
    few = torch.zeros(len(wild), dtype=torch.bool)
    few[(truth < 0).nonzero().ravel()[:strangers]] = True
    monkeypatch.setattr(linear_rule, "own_groups", lambda *given: few)
    found = WildKNN(k, "linear").fit(features=features, labels=labels)
    assert (found.rule_.tolist() != [*[0.0] * 8, 1.0, 0.0]) == learns
    assert found.learned == learns
    assert LAMBDA == 1e-5  # as docs/detectors.md says


def test_the_older_name_builds_it_and_states_kept_under_it_load() -> None:
    """A bundle or record of before says name "wild_linear", config {"k": ...} and holds three tensors."""
    features, labels, _, _ = both()
    found = WildKNN(rule="linear").fit(features=features, labels=labels)
    assert (found.name, found.config()) == ("wild_knn", {"k": None, "rule": "linear"})
    again = build_detector("wild_linear", k=None).load_state(found.state())
    assert set(found.state()) == {"bank_", "neighbours_", "rule_"}
    assert torch.equal(again.score(features=features), found.score(features=features))
    plain = build_detector("wild_knn", k=None)
    assert plain.config() == {"k": None, "rule": "distance"}
    with pytest.raises(InputError, match="bank_"):
        plain.load_state(found.state())
    with pytest.raises(InputError, match="rule must be one of"):
        build_detector("wild_linear", rule="quadratic")


def test_it_gets_the_conformal_threshold_of_its_own_scores() -> None:
    """The pool had its say in the rule: nothing raises the threshold, and what lies between its two groups is rejected."""
    labelled, labels, wild, truth = world(0)
    held_out = world(4)[0]
    known, pool, aside = (Outputs(rows, torch.zeros(len(rows), 3), labels) for rows in (labelled, wild, held_out))
    made = decide(WildKNN(rule="linear"), known, pool, aside)
    detector, found = made.detector, made.calibration
    scores = detector.score(features=held_out)
    assert isinstance(found, JointCalibration)
    assert found.threshold == found.id_threshold == calibrate(scores).threshold < found.mixture.cut
    assert found.pool_kept == pytest.approx(float((detector.wild_scores_ <= found.threshold).double().mean()))
    _, _, fresh, kind = world(9)
    rejected = torch.as_tensor(found.reject(detector.score(features=fresh)))
    assert rejected[kind < 0].all()
    assert rejected[kind >= 0].double().mean() <= 0.05  # alpha
    assert found.mixture.separated
    assert found.mixture.pi_s == pytest.approx(float((truth < 0).float().mean()), abs=1e-6)
