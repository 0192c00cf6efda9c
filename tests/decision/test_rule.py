"""The one rule against slow loops and closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import fisher_exact
from sklearn.metrics import roc_auc_score

from shifted_world import make_world
from wildspec.decision.bank import NEIGHBOR, VOTERS, ClassBank
from wildspec.decision.probe import LinearProbe, fit_probe
from wildspec.decision.rule import RuleSettings, fit_rule
from wildspec.decision.rule_state import restore_rule, restore_thresholds, rule_state, thresholds_state
from wildspec.decision.shift import LEVEL, find_shift
from wildspec.decision.thresholds import Thresholds, learn_thresholds
from wildspec.graph.search import unit_rows


@pytest.fixture(scope="module")
def fitted():
    world = make_world(3)
    rule = fit_rule(unit_rows(world.labelled), world.labels, unit_rows(world.wild), 3, RuleSettings(seed=1))
    return world, rule


@pytest.mark.parametrize("leave_out", [False, True])
def test_distance_and_margin_are_those_of_a_loop(rng, leave_out):
    rows, labels = unit_rows(rng.normal(size=(60, 5))), rng.integers(0, 3, 60)
    bank = ClassBank.of(rows, labels, 3, NEIGHBOR)
    asked = bank.rows[:20] if leave_out else unit_rows(rng.normal(size=(20, 5)))
    away, margin = bank.compare(asked, np.arange(20) if leave_out else None)
    for i, row in enumerate(asked):
        others = [j for j in range(60) if not (leave_out and j == i)]
        similar = {j: float(bank.rows[j] @ row) for j in others}
        assert away[i] == pytest.approx(1 - sorted(similar.values())[-NEIGHBOR], abs=1e-6)
        near = [np.mean(sorted(s for j, s in similar.items() if bank.labels[j] == c)[-VOTERS:]) for c in range(3)]
        assert margin[i] == pytest.approx(sorted(near)[-1] - sorted(near)[-2], abs=1e-6)


@pytest.mark.parametrize(("counts", "k"), [((3, 9, 40), 1), ((7, 9, 40), 3), ((30, 20, 40), 10), ((2, 1, 1), 1)])
def test_the_neighbour_that_counts_is_within_the_smallest_class(rng, counts, k):
    rows, labels = unit_rows(rng.normal(size=(sum(counts), 5))), np.repeat(np.arange(3), counts)
    asked = unit_rows(rng.normal(size=(8, 5)))
    bank = ClassBank.of(rows, labels, 3)
    assert bank.compare(asked)[0] == pytest.approx([1 - np.sort(rows @ row)[-k] for row in asked], abs=1e-6)
    part = ClassBank.of(rows[:-1], labels[:-1], 3, nearest=2)
    assert part.compare(asked)[0] == pytest.approx([1 - np.sort(rows[:-1] @ row)[-2] for row in asked], abs=1e-6)


def test_three_labelled_samples_a_class_are_enough_to_tell_unknown_ones_apart():
    """The tenth nearest of nine would always be one of another class."""
    world = make_world(1, noise=0.3)
    few = np.concatenate([np.flatnonzero(world.labels == c)[:3] for c in range(3)])
    rule = fit_rule(unit_rows(world.labelled[few]), world.labels[few], unit_rows(world.wild), 3, RuleSettings(seed=1))
    known, unknown = (rule.decide(unit_rows(rows)).evidence[:, 0] for rows in (world.id_test, world.unknown))
    truth = np.repeat([0, 1], [len(known), len(unknown)])
    assert roc_auc_score(truth, np.r_[known, unknown]) > 0.9
    again = restore_rule(*rule_state(rule))
    np.testing.assert_array_equal(again.decide(unit_rows(world.shifted)).score, rule.decide(unit_rows(world.shifted)).score)


def test_one_class_has_no_margin_and_a_small_bank_is_enough(rng):
    rows = unit_rows(rng.normal(size=(4, 5)))
    away, margin = ClassBank.of(rows, np.zeros(4, np.int64), 1).compare(rows[:2])
    assert np.isfinite(away).all()
    assert (margin == 0).all()


def test_energy_is_minus_the_log_of_the_sum_of_exponentials(rng):
    probe = LinearProbe(rng.normal(size=(3, 5)), rng.normal(size=3))
    rows = rng.normal(size=(7, 5)).astype(np.float32)
    expected = [-np.log(sum(np.exp(w @ row + b) for w, b in zip(probe.weights, probe.bias, strict=True))) for row in rows]
    np.testing.assert_allclose(probe.energy(rows), expected, rtol=1e-6)


def test_the_score_is_the_mean_of_three_standardized_numbers(fitted):
    """Every part from the rule's own pieces, put together again by the formula."""
    world, rule = fitted
    rows = unit_rows(world.shifted[:30])
    aligned = rule.shift.align(rows)
    features = unit_rows(aligned + rule.strength * rule.graph.denoise(aligned))
    away, margin = rule.bank.compare(features)
    found = np.stack([away, -margin, rule.probe.energy(features)], axis=1)
    decided = rule.decide(rows)
    np.testing.assert_allclose(decided.evidence, found, rtol=1e-6)
    plain = ((found - rule.centre) / rule.spread).mean(axis=1)
    assert (decided.score >= plain - 1e-9).all()
    assert np.mean(np.isclose(decided.score, plain)) > 0.8, "shifted samples like the pool's are nothing unseen"
    np.testing.assert_allclose(rule.wild_score.mean(), 0, atol=1e-6)


def test_a_sample_of_the_pool_asked_again_is_scored_as_it_was(fitted):
    world, rule = fitted
    again = rule.decide(unit_rows(world.wild)[rule.reference])
    np.testing.assert_allclose(again.score, rule.wild_score, atol=1e-5)


def test_the_graph_counts_as_much_as_it_parts_the_pools_scores():
    """eta by trying every cut."""
    world = make_world(0)
    rule = fit_rule(unit_rows(world.labelled), world.labels, unit_rows(world.wild), 3, RuleSettings(seed=1))

    def parted(strength: float) -> float:
        smooth = rule.graph.denoised_members(np.arange(len(rule.graph)))
        features = unit_rows(rule.graph.rows + np.float32(strength) * smooth)
        away, margin = rule.bank.compare(features)
        found = np.stack([away, -margin, rule.probe.energy(features)], axis=1)
        scores = np.sort(((found - found.mean(axis=0)) / found.std(axis=0)).mean(axis=1))
        within = [i * scores[:i].var() + (len(scores) - i) * scores[i:].var() for i in range(1, len(scores))]
        return 1 - min(within) / (len(scores) * scores.var())

    expected = 0.5 + 25 * (parted(1) - parted(0))
    assert 0 < expected < 1, "the world must be one in which the formula is not cut"
    assert rule.strength == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("seed", [0, 1])
def test_in_a_pool_without_unknown_things_the_graph_counts_less_and_new_ones_stand_out(seed):
    world = make_world(seed)
    labelled, settings = unit_rows(world.labelled), RuleSettings(seed=1)
    without = fit_rule(labelled, world.labels, unit_rows(world.wild[world.wild_kind < 2]), 3, settings)
    with_them = fit_rule(labelled, world.labels, unit_rows(world.wild), 3, settings)
    assert without.strength < with_them.strength
    known = unit_rows(np.concatenate([world.id_test, world.shifted]))

    def told_apart(rule) -> float:
        scores = [rule.decide(rows).score for rows in (known, unit_rows(world.unknown))]
        truth = np.repeat([0, 1], [len(part) for part in scores])
        return roc_auc_score(truth, np.concatenate(scores))

    assert told_apart(without) > told_apart(replace(without, strength=1.0))


def test_a_bundle_from_before_the_strength_counts_the_whole_graph(fitted):
    arrays, record = rule_state(fitted[1])
    assert restore_rule(arrays, record).strength == fitted[1].strength
    record.pop("strength")
    assert restore_rule(arrays, record).strength == 1.0


def test_aligned_rows_are_rows_less_their_groups_mean(fitted, rng):
    world, rule = fitted
    rows = unit_rows(world.shifted[:5])
    r = rng.uniform(size=5)
    for row, share, got in zip(rows, r, rule.shift.align(rows, r), strict=True):
        expected = row - (1 - share) * rule.shift.means[0] - share * rule.shift.means[1]
        np.testing.assert_allclose(got, expected / np.linalg.norm(expected), atol=1e-5)


def test_the_displaced_group_is_found_and_its_posterior_tells_it_apart(fitted):
    world, rule = fitted
    assert rule.shift.found
    assert rule.shift.p_value < LEVEL
    assert rule.shift.share == pytest.approx((world.wild_kind > 0).mean(), abs=0.05)
    assert (rule.shift.posterior(unit_rows(world.shifted)) > 0.5).mean() > 0.95
    assert (rule.shift.posterior(unit_rows(world.id_test)) > 0.5).mean() < 0.05


def test_the_level_of_the_test_is_what_it_says(rng):
    """Fisher's test on halves that the estimate has not seen: pools drawn alike are called shifted at most as often."""
    found = sum(
        find_shift(unit_rows(rng.normal(size=(80, 6)) + 1), unit_rows(rng.normal(size=(80, 6)) + 1), seed=s).found
        for s in range(60)
    )
    assert found <= 4  # P(more than 4 of 60 at 1 %) < 0.0004
    assert fisher_exact([[5, 35], [5, 35]], alternative="greater").pvalue > 0.5, "the test used: equal shares are no news"


def test_thresholds_are_the_formula_and_promise_stays(fitted):
    world, rule = fitted
    held = unit_rows(world.id_test)
    thresholds = learn_thresholds(rule, held, 0.1, apart=True)  # those held out alone
    scores = np.sort(rule.decide(held).score)
    assert thresholds.value == scores[int(np.ceil((len(scores) + 1) * 0.9)) - 1]
    assert thresholds.shifted == pytest.approx(rule.wild_score[rule.wild_shifted > 0.5].mean())
    decided = rule.decide(unit_rows(np.concatenate([world.shifted, world.id_test])))
    raised = thresholds.value + decided.shifted * max(0.0, thresholds.shifted - thresholds.value)
    np.testing.assert_allclose(thresholds.at(decided), raised)
    assert (thresholds.at(decided) >= thresholds.value).all(), "nothing is rejected that the conformal threshold keeps"
    lower = Thresholds(thresholds.scores, thresholds.calibration, 0.1, thresholds.value - 1, 0.0, (0.0, 0.0))
    assert (lower.at(decided) == thresholds.value).all()


def test_a_state_gives_the_same_decisions(fitted):
    world, rule = fitted
    thresholds = learn_thresholds(rule, unit_rows(world.id_test), 0.1)
    again = restore_rule(*rule_state(rule))
    rows = unit_rows(np.concatenate([world.id_test, world.shifted, world.unknown]))
    np.testing.assert_array_equal(again.decide(rows).score, rule.decide(rows).score)
    np.testing.assert_array_equal(again.decide(rows).probabilities, rule.decide(rows).probabilities)
    back = restore_thresholds(*thresholds_state(thresholds))
    np.testing.assert_array_equal(back.reject(again.decide(rows)), thresholds.reject(rule.decide(rows)))


def test_numbers_that_are_always_zero_change_no_shift():
    """With them rows have more numbers than there are samples, and the directions are found another way."""
    world = make_world(3, width=64)
    labelled, wild = unit_rows(world.labelled), unit_rows(world.wild)
    width, more = labelled.shape[1], len(labelled) + len(wild)
    narrow, wide = (find_shift(*(np.pad(rows, [(0, 0), (0, k)]) for rows in (labelled, wild))) for k in (0, more))
    assert narrow.found
    assert wide.p_value == pytest.approx(narrow.p_value)
    np.testing.assert_allclose(wide.direction[:width], narrow.direction, rtol=1e-6, atol=1e-6)
    assert not wide.direction[width:].any()
    np.testing.assert_allclose(wide.means[:, :width], narrow.means, atol=1e-9)


def test_a_shift_is_found_in_samples_of_few_kinds(rng):
    """Wide rows, each many times over: hardly any of the directions asked for has a variance."""
    kinds = unit_rows(rng.normal(size=(4, 900)))
    labelled, wild = kinds[[0, 1] * 80], kinds[[0, 1, 2, 3] * 40]
    found = find_shift(labelled, wild)
    assert found.found
    np.testing.assert_array_equal(found.posterior(kinds) > 0.5, [False, False, True, True])


def test_without_wild_samples_there_is_neither_shift_nor_graph():
    world = make_world(3)
    rows = unit_rows(world.labelled)
    rule = fit_rule(rows, world.labels, rows[:0], 3)
    assert rule.graph is None
    assert not rule.shift.found
    aligned = unit_rows(rows - rows.mean(axis=0))
    oracle = fit_probe(aligned, world.labels, 3).probabilities(aligned)
    np.testing.assert_allclose(rule.decide(rows).probabilities, oracle, atol=1e-4)


def test_a_group_of_other_things_does_not_raise_the_threshold(rng):
    """Three known classes and six other things, as far apart as they are; nothing is under other conditions."""
    centres = 5 * np.eye(9, 20)
    labels = np.repeat(np.arange(3), 60)
    known, fresh, strange = (centres[numbers] + 0.7 * rng.normal(size=(len(numbers), 20)) for numbers in (
        labels, np.repeat(np.arange(3), 40), np.tile(np.arange(3, 9), 30)))  # fmt: skip
    rule = fit_rule(unit_rows(known), labels, unit_rows(np.concatenate([fresh, strange[:90]])), 3)
    assert rule.shift.found
    moved, means = rule.shift.means, [unit_rows(known)[labels == c].mean(axis=0) for c in range(3)]
    apart = np.mean([sum((mean - np.mean(means, axis=0)) ** 2) for mean in means])
    assert rule.displacement == pytest.approx(sum((moved[1] - moved[0]) ** 2) / apart, rel=1e-5)
    group = rule.wild_score[rule.wild_shifted > 0.5]
    low, high = np.quantile(group, [0.05, 0.2])
    assert rule.displacement <= 1
    assert rule.shifted_threshold(low) == -np.inf  # a twentieth of them scores like known samples
    assert rule.shifted_threshold(high) == pytest.approx(group.mean())  # a fifth does
    thresholds = learn_thresholds(rule, unit_rows(fresh), 0.05, np.repeat(np.arange(3), 40))
    assert thresholds.reject(rule.decide(unit_rows(strange[90:]))).mean() > 0.95
    assert thresholds.raised(rule) == 0
    assert replace(thresholds, shifted=thresholds.value + 1).raised(rule) == len(group) > 0


def test_a_group_that_is_far_displaced_raises_the_threshold_whatever_it_scores(fitted):
    _, rule = fitted
    far = replace(rule, shift=replace(rule.shift, means=rule.shift.means * [[1.0], [50.0]]))
    group = rule.wild_score[rule.wild_shifted > 0.5]
    assert far.displacement > 1
    assert far.shifted_threshold(group.min() - 1) == pytest.approx(group.mean())


@pytest.mark.parametrize("count", [20, 59])
def test_a_small_pool_without_a_shift_leaves_the_scores_as_they_are_without_it(count):
    """Mean, deviation and surroundings of a few samples would say less than those of the labelled ones."""
    world = make_world(3, shift=0.0)
    rows, wild = unit_rows(world.labelled), unit_rows(world.wild)[:: len(world.wild) // 60]
    settings = RuleSettings(seed=1, shift=False)
    plain = fit_rule(rows, world.labels, wild[:0], 3, settings)
    for n, alike in ((count, True), (60, False)):
        rule = fit_rule(rows, world.labels, wild[:n], 3, settings)
        for asked in (world.id_test, world.unknown):
            expected = plain.decide(unit_rows(asked)).score
            assert np.allclose(rule.decide(unit_rows(asked)).score, expected, atol=1e-6) == alike
    pool = rule.decide(wild).score
    np.testing.assert_allclose(rule.member_scores(np.arange(60)), pool, atol=1e-5)


def test_a_sample_of_a_small_pool_asked_again_is_scored_as_it_was():
    world = make_world(3)
    wild = unit_rows(world.wild)[:: len(world.wild) // 40]
    rule = fit_rule(unit_rows(world.labelled), world.labels, wild, 3, RuleSettings(seed=1, shift=True))
    assert rule.shift.found
    np.testing.assert_allclose(rule.decide(wild).score, rule.wild_score, atol=1e-5)


def test_a_class_of_few_samples_is_named(fitted):
    """Three beside sixty of two other classes."""
    world, whole = fitted
    few = np.r_[np.flatnonzero(world.labels != 1), np.flatnonzero(world.labels == 1)[:3]]
    rule = fit_rule(unit_rows(world.labelled[few]), world.labels[few], unit_rows(world.wild), 3, RuleSettings(seed=1))
    asked, truth = unit_rows(world.id_test), world.id_labels
    right = [(r.decide(asked).probabilities.argmax(axis=1) == truth)[truth == 1].mean() for r in (rule, whole)]
    assert right[0] > 0.8 * right[1]
    assert (rule.probabilities_in_turns.argmax(axis=1) == rule.labels)[rule.labels != 1].mean() > 0.8
