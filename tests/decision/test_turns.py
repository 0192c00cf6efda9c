"""Calibration in turns: who is scored by whom, and the rate that comes of it."""

import numpy as np
import pytest

from shifted_world import make_world
from wildspec.decision.answers import learn_answers
from wildspec.decision.bank import ClassBank
from wildspec.decision.probe import fit_probe
from wildspec.decision.rule import RuleSettings, fit_rule
from wildspec.decision.rule_state import restore_thresholds, thresholds_state
from wildspec.decision.thresholds import learn_thresholds
from wildspec.decision.turns import ENOUGH, turns
from wildspec.graph.search import unit_rows


def test_every_row_is_scored_once_and_never_by_a_copy_of_itself(rng):
    rows = rng.normal(size=(57, 4)).astype(np.float32)
    rows[30:40] = rows[:10]
    labels = np.r_[np.arange(30) % 3, np.arange(10) % 3, rng.integers(0, 3, 17)]
    dealt = list(turns(rows, labels))
    assert sorted(np.concatenate([scored for _, scored in dealt]).tolist()) == list(range(57))
    for others, scored in dealt:
        assert not np.isin(scored, others).any()
        near = np.linalg.norm(rows[scored][:, None] - rows[others][None], axis=2).min()
        assert near > 1e-3, "a copy of a scored row taught"
        counts = np.bincount(labels[scored], minlength=3)
        assert (counts > 0).all()


def test_a_rotation_deals_the_same_turns(rng):
    rows, labels = rng.normal(size=(60, 5)), rng.integers(0, 3, 60)
    turned = rows @ np.linalg.qr(rng.normal(size=(5, 5)))[0]
    for (_, one), (_, other) in zip(turns(rows, labels), turns(turned, labels), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_class_of_one_sample_is_learned_from_and_not_scored(rng):
    rows, labels = rng.normal(size=(21, 3)), np.r_[np.arange(20) % 2, 2]
    for others, scored in turns(rows, labels):
        assert 20 in others
        assert 20 not in scored


def test_a_class_whose_only_rows_have_another_label_too_is_never_left_out(rng):
    """Row 0 is there three times, once as class 0 and twice as class 2, which has no other row."""
    rows = rng.normal(size=(22, 3))
    rows[20:] = rows[0]
    labels = np.r_[np.arange(20) % 2, 2, 2]
    scored_once = np.zeros(22, int)
    for others, scored in turns(rows, labels):
        assert set(labels[others].tolist()) == {0, 1, 2}
        scored_once[scored] += 1
    assert scored_once.tolist() == [0] + [1] * 19 + [0, 0]


def test_scores_in_turns_are_those_of_a_rule_that_never_saw_the_rows():
    """Against a rule fitted without a fifth; shift, graph and scale are taken from the whole, as the text says."""
    world = make_world(1)
    rows = unit_rows(world.labelled)
    rule = fit_rule(rows, world.labels, unit_rows(world.wild), 3, RuleSettings(seed=2))
    found = rule.scores_in_turns()
    others, scored = next(iter(turns(rows, world.labels, 2)))
    aligned = rule.shift.align(rows, np.zeros(len(rows)))
    away, margin = ClassBank.of(aligned[others], world.labels[others], 3).compare(rule.features(rows[scored]))
    energy = fit_probe(aligned[others], world.labels[others], 3).energy(rule.features(rows[scored]))
    expected = ((np.stack([away, -margin, energy], axis=1) - rule.centre) / rule.spread).mean(axis=1)
    assert (found[scored] >= expected - 1e-6).all(), "what is unlike all others adds to it"
    assert np.mean(np.isclose(found[scored], expected)) > 0.8
    assert np.isfinite(found).all()
    probe, r = fit_probe(aligned[others], world.labels[others], 3), rule.shift.posterior(rows[scored])
    said = [probe.probabilities(each) for each in (rule.features(rows[scored]), rule.shift.align(rows[scored]))]
    mixed = np.array([r[i] * said[0][i] + (1 - r[i]) * said[1][i] for i in range(len(scored))])
    np.testing.assert_allclose(rule.probabilities_in_turns[scored], mixed, atol=1e-9)


def test_few_held_out_samples_are_joined_and_many_are_not():
    world = make_world(2)
    rows, held = unit_rows(world.labelled), unit_rows(world.id_test)
    rule = fit_rule(rows, world.labels, unit_rows(world.wild), 3)
    few = learn_thresholds(rule, held[:25], 0.05)
    assert few.held == 25 + len(rows)
    assert "estimate" in few.describe()
    assert learn_thresholds(rule, held[:25], 0.05, apart=True).held == 25
    many = np.concatenate([held] * (1 + ENOUGH // len(held)))
    exact = learn_thresholds(rule, many, 0.05)
    assert exact.held == len(many)
    assert "estimate" not in exact.describe()
    assert restore_thresholds(*thresholds_state(few)).in_turns
    assert not restore_thresholds(*thresholds_state(exact)).in_turns


def test_answers_are_scored_in_turns_too():
    world = make_world(4)
    rows = unit_rows(world.labelled)
    rule = fit_rule(rows, world.labels, unit_rows(world.wild), 3)
    given = {int(i): (None if world.wild_kind[i] == 2 else 0) for i in np.flatnonzero(world.wild_kind != 0)[:12]}
    answered, _ = learn_answers(rule, [0, 1, 2], given, 3)
    found = answered.scores_in_turns()
    assert np.isfinite(found).all()
    own = answered.decide(rows).score
    assert np.mean(found) > np.mean(own), "a sample looks stranger to those who have not seen it"
    plain, unseen = rule.parts_in_turns
    odds = (answered.odds_in_turns - answered.centre) / answered.spread
    weight = 12 / 32
    expected = [(1 - weight) * s + weight * u + o for s, u, o in zip(plain, odds, unseen, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)  # the formula of S_a: o counts whole


@pytest.mark.parametrize("alpha", [0.1, 0.2])
def test_the_rate_of_false_alarms_is_what_was_asked_for(alpha):
    """Fresh samples of the labelled kind, over draws of everything: the mean rate is at most alpha, up to its own error."""
    rates = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        means = 1.2 * np.random.default_rng(99).normal(size=(3, 8))

        def draw(count: int, rng: np.random.Generator = rng, means: np.ndarray = means) -> tuple[np.ndarray, np.ndarray]:
            labels = rng.integers(0, 3, count)
            return unit_rows(means[labels] + rng.normal(size=(count, 8)) + 2), labels

        (rows, labels), (held, _), (fresh, _) = draw(90), draw(20), draw(600)
        wild = np.concatenate([draw(60)[0], unit_rows(rng.normal(size=(40, 8)) + 2 - means[0])])
        rule = fit_rule(rows, labels, wild, 3)
        thresholds = learn_thresholds(rule, held, alpha)
        assert thresholds.held == 20 + 90
        rates.append(float(thresholds.reject(rule.decide(fresh)).mean()))
    error = np.std(rates) / np.sqrt(len(rates))
    assert np.mean(rates) <= alpha + 2.5 * error
    assert np.mean(rates) >= alpha / 3, "nor is it a threshold that rejects nothing"
