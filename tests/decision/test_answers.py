"""Answers against the formula put together again, and what becomes of them."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from shifted_world import make_world
from wildspec.decision.answers import HALF, NEW_CLASS, check_answer, learn_answers
from wildspec.decision.answers_state import answers_state, restore_answers
from wildspec.decision.rule import RuleSettings, evidence, fit_rule
from wildspec.decision.thresholds import learn_thresholds
from wildspec.errors import CheckpointError, InputError
from wildspec.evaluation.metrics import auroc
from wildspec.graph.search import unit_rows

CLASSES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def fitted():
    world = make_world(2, noise=0.8)
    rule = fit_rule(unit_rows(world.labelled), world.labels, unit_rows(world.wild), 3, RuleSettings(seed=1))
    return world, rule


def truth(world, rule, rows):
    """Known ones get the class the rule names: the world keeps no classes of its pool."""
    likely = rule.decide(unit_rows(world.wild[rows])).probabilities.argmax(axis=1)
    return {int(r): None if world.wild_kind[r] == 2 else CLASSES[c] for r, c in zip(rows, likely, strict=True)}


def test_the_score_is_the_weighted_mean_of_the_rule_and_of_standardized_log_odds(fitted):
    world, rule = fitted
    given = truth(world, rule, np.arange(30))
    made, classes = learn_answers(rule, CLASSES, given, 3)
    assert classes == CLASSES
    pool = rule.members(np.arange(len(world.wild)))
    labels = np.array([3 if given[r] is None else CLASSES.index(given[r]) for r in range(30)])
    rows = np.concatenate([rule.features(rule.labelled), pool[:30]])
    weights = np.r_[np.ones(180), np.full(30, 180 / 3 / 30)]
    oracle = LogisticRegression(C=10, max_iter=2000).fit(rows, np.r_[rule.labels, labels], sample_weight=weights)

    def odds(features):
        logits = oracle.decision_function(features)
        return logits[:, 3] - logits[:, :3].max(axis=1)

    asked = unit_rows(world.shifted[:40])
    own = (odds(rule.features(asked)) - odds(pool).mean()) / odds(pool).std() * rule.wild_score.std()
    base = rule.decide(asked)
    standard = ((base.evidence - rule.centre) / rule.spread).mean(axis=1)
    w = 30 / (30 + HALF)
    expected = (1 - w) * standard + w * own + (base.score - standard)
    np.testing.assert_allclose(made.decide(asked).score, expected, atol=0.02)
    np.testing.assert_allclose(made.decide(asked).probabilities.sum(axis=1), 1)


def test_answers_tell_unknown_from_shifted_on_samples_that_nobody_asked_about(fitted):
    world, rule = fitted
    made, _ = learn_answers(rule, CLASSES, truth(world, rule, np.arange(0, 360, 6)), 3)
    found = [auroc(m.decide(unit_rows(world.shifted)).score, m.decide(unit_rows(world.unknown)).score) for m in (rule, made)]
    assert found[1] > found[0] + 0.02


def test_the_promise_rests_on_held_out_samples_alone(fitted):
    world, rule = fitted
    held = unit_rows(world.id_test)
    made, _ = learn_answers(rule, CLASSES, truth(world, rule, np.arange(30)), 3)
    found = learn_thresholds(made, held, 0.1, apart=True)
    scores = np.sort(made.decide(held).score)
    assert found.value == scores[int(np.ceil(181 * 0.9)) - 1]


@pytest.mark.parametrize("shift", [1.5, 0.0])
def test_the_threshold_for_shifted_samples_is_the_quantile_of_two_shares(shift):
    """The share that the answers show to be known is rather too large, and never passed. Without a shift it is small:
    unknown samples alone are displaced."""
    world = make_world(3, shift=shift, unknown=2 if shift else 6)
    rule = fit_rule(unit_rows(world.labelled), world.labels, unit_rows(world.wild), 3, RuleSettings(seed=1))
    asked = [np.flatnonzero(world.wild_kind == kind)[:20] for kind in (0, 2)]
    made, _ = learn_answers(rule, CLASSES, truth(world, rule, np.concatenate(asked)), 3)
    rows = rule.members(rule.reference)
    called = []
    for row in rows:
        z = made.head.weights @ row + made.head.bias
        called.append(z[3] > max(z[:3]))
    scores = [s for s, r in zip(made.wild_score, rule.wild_shifted, strict=True) if r > 0.5]
    below = sum(s <= sum(scores) / len(scores) for s in scores) / len(scores)
    known = [not c for c, r in zip(called, rule.wild_shifted, strict=True) if r > 0.5]
    w = len(made.given) / (len(made.given) + 20)  # the more answers, the more they say of the share
    share = sum(known) / len(known)
    assert (share < below) == (shift == 0)
    expected = np.quantile(scores, (1 - w) * below + w * share if shift else share)
    assert made.shifted_threshold(np.inf) == pytest.approx(expected)  # by this threshold they are no other things


def test_all_unknown_is_learned(fitted):
    world, rule = fitted
    rows = np.flatnonzero(world.wild_kind == 2)[:12]
    made, _ = learn_answers(rule, CLASSES, dict.fromkeys(rows.tolist()), 3)
    change = made.wild_score - rule.wild_score
    assert change[rows].mean() > np.delete(change, rows).mean() + 0.1


def test_without_an_unknown_answer_energy_takes_the_place_of_the_log_odds(fitted):
    world, rule = fitted
    rows = np.flatnonzero(world.wild_kind == 1)[:20]
    made, _ = learn_answers(rule, CLASSES, truth(world, rule, rows), 3)
    assert made.head.weights.shape[0] == 3
    energy = made.head.energy(rule.members(rule.reference))
    own = (energy - energy.mean()) / energy.std() * rule.wild_score.std()
    np.testing.assert_allclose(made.wild_score, (rule.wild_score + own) / 2, atol=1e-9)


def test_a_new_name_is_a_stranger_until_ten_samples_have_it_and_can_be_taken_back(fitted):
    world, rule = fitted
    strange = np.flatnonzero(world.wild_kind == 2)
    few, classes = learn_answers(rule, CLASSES, dict.fromkeys(strange[: NEW_CLASS - 1].tolist(), "new"), 3)
    same, _ = learn_answers(rule, CLASSES, dict.fromkeys(strange[: NEW_CLASS - 1].tolist()), 3)
    assert classes == CLASSES
    np.testing.assert_array_equal(few.wild_score, same.wild_score)
    many, classes = learn_answers(rule, CLASSES, dict.fromkeys(strange[:40].tolist(), "new"), 3)
    assert classes == [*CLASSES, "new"]
    decided = many.decide(unit_rows(world.wild[strange]))
    assert decided.probabilities.shape[1] == 4
    assert (decided.probabilities.argmax(axis=1) == 3).mean() > 0.6
    assert decided.score.mean() < rule.decide(unit_rows(world.wild[strange])).score.mean()  # no stranger any more
    back, classes = learn_answers(many.rule, classes, dict.fromkeys(strange[: NEW_CLASS - 1].tolist()), 3)
    assert classes == CLASSES
    np.testing.assert_allclose(back.wild_score, same.wild_score, atol=1e-6)


def test_state_and_back(fitted):
    world, rule = fitted
    made, _ = learn_answers(rule, CLASSES, truth(world, rule, np.arange(15)), 3)
    arrays, record = answers_state(made)
    again = restore_answers(rule, arrays, record)
    rows = unit_rows(world.shifted[:20])
    np.testing.assert_array_equal(again.decide(rows).score, made.decide(rows).score)
    assert again.given == made.given
    with pytest.raises(CheckpointError, match="answers"):
        restore_answers(rule, arrays, record | {"given": record["given"][1:]})


def test_copies_have_one_answer(fitted):
    world, _ = fitted
    wild = unit_rows(np.concatenate([world.wild, world.wild[:1]]))
    rule = fit_rule(unit_rows(world.labelled), world.labels, wild, 3, RuleSettings(seed=1))
    with pytest.raises(InputError, match=r"0 and 420 .*'a' and unknown"):
        learn_answers(rule, CLASSES, {0: "a", 420: None}, 3)
    assert len(learn_answers(rule, CLASSES, {0: "a", 420: "a"}, 3)[0].given) == 2


def test_what_an_answer_may_be():
    assert check_answer(" Unknown ", CLASSES, False) is None
    assert check_answer("b ", CLASSES, False) == "b"
    assert check_answer("zebra", CLASSES, False) == "zebra"
    assert check_answer("2", [1, 2], True) == 2
    assert check_answer(7, [1, 2], True) == 7
    assert check_answer("True", [False, True], True) is True
    for value, classes, numbers, word in [
        ("B", CLASSES, False, "case"), ("rejected", CLASSES, False, "new name"), ("", CLASSES, False, "new name"),
        ("cat", [1, 2], True, "numbers"), ("-1", [1, 2], True, "-1"), ("unknown", ["unknown", "x"], False, "rename"),
        ("Unknown", ["Unknown", "x"], False, "'Unknown'.*rename"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=word):
            check_answer(value, classes, numbers)


def test_with_answers_too_a_group_of_other_things_does_not_raise_the_threshold(fitted):
    world, rule = fitted
    rows = np.r_[np.flatnonzero(world.wild_kind == 1)[:6], np.flatnonzero(world.wild_kind == 2)[:6]]
    answered, _ = learn_answers(rule, CLASSES, truth(world, rule, rows), 3)
    group = answered.wild_score[answered.wild_shifted > 0.5]
    near = replace(rule, shift=replace(rule.shift, means=np.zeros_like(rule.shift.means)))  # not displaced at all
    apart = replace(answered, rule=near)
    assert apart.shifted_threshold(group.min() - 1) == -np.inf
    assert apart.shifted_threshold(group.max()) == pytest.approx(answered.shifted_threshold(group.max()))


def test_a_small_pool_can_be_answered_and_its_scale_stays_that_of_the_labelled_samples():
    """Also where ten answers make a new class: mean and deviation are those of the bank, each sample left out."""
    world = make_world(3)
    wild = unit_rows(world.wild)[np.r_[np.flatnonzero(world.wild_kind == 0)[:15], np.flatnonzero(world.wild_kind == 2)[:15]]]
    rule = fit_rule(unit_rows(world.labelled), world.labels, wild, 3, RuleSettings(seed=1))
    made, classes = learn_answers(rule, CLASSES, dict.fromkeys(range(15, 30), "eel"), 3)
    assert classes == [*CLASSES, "eel"]
    decided = made.decide(wild)
    assert (decided.probabilities[15:].argmax(axis=1) == 3).mean() > 0.9
    bank, probe = made.rule.bank, made.rule.probe
    found = evidence(bank.rows, bank, probe, np.arange(len(bank.rows)))
    np.testing.assert_allclose(made.rule.centre, found.mean(axis=0))
    np.testing.assert_allclose(made.rule.spread, found.std(axis=0))
