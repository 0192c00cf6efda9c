"""Random answers: which count as drawn, shares against scipy and by simulation, the promise by simulation."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binomtest

from shifted_world import make_world
from wildspec.decision.answers import learn_answers
from wildspec.decision.drawn import drawn_samples, pool_shares, random_order
from wildspec.decision.review import Learned, Review
from wildspec.decision.rule import RuleSettings, fit_rule
from wildspec.decision.rule_state import restore_thresholds, thresholds_state
from wildspec.decision.thresholds import learn_thresholds
from wildspec.errors import CheckpointError, InputError
from wildspec.graph.search import unit_rows

CLASSES = ["a", "b", "c"]


def stub(shifted):
    """As much of a rule as shares need."""
    count = len(shifted)
    return SimpleNamespace(reference=np.arange(count), wild_shifted=np.asarray(shifted, float), graph=range(count))


def order_of(count, seed):
    return random_order(f"{seed}-{number}.jpg" for number in range(count))


def test_only_the_first_of_the_random_order_without_a_gap_are_drawn():
    order = order_of(100, 5)
    assert sorted(order.tolist()) == list(range(100))
    given = dict.fromkeys(order[:7].tolist() + order[8:20].tolist())
    assert drawn_samples(order, given).tolist() == order[:7].tolist()
    assert len(drawn_samples(order, dict.fromkeys(order[1:].tolist()))) == 0
    assert len(drawn_samples(order, dict.fromkeys(range(100)))) == 100
    assert order_of(100, 6).tolist() != order.tolist()


def test_the_order_is_that_of_the_names_wherever_they_stand():
    names = [f"{number}.jpg" for number in range(50)]
    there = [names[place] for place in random_order(names)]
    assert [names[::-1][place] for place in random_order(names[::-1])] == there
    assert [name for name in there if name != "7.jpg"] == [
        [one for one in names if one != "7.jpg"][place] for place in random_order(one for one in names if one != "7.jpg")
    ]
    places = np.argsort(np.concatenate([order_of(40, seed) for seed in range(500)]).reshape(500, 40), axis=1)
    assert np.abs(places.mean(axis=0) - 19.5).max() < 5 * np.sqrt(40**2 / 12 / 500)  # every place as often as others


def test_shares_are_exact_intervals_of_what_was_drawn_within_what_is_certain():
    rule, order = stub(np.r_[np.ones(400), np.zeros(600)]), order_of(1000, 0)
    said = {int(row): None if row % 3 == 0 else "a" for row in order[:60]}
    found = pool_shares(rule, order, said, CLASSES)
    kinds = ["unknown" if row % 3 == 0 else "shifted" if row < 400 else "known" for row in order[:60]]
    for name in ("known", "shifted", "unknown"):
        count = kinds.count(name)
        one = getattr(found, name)
        low, high = binomtest(count, 60).proportion_ci(0.95, "exact")
        assert (one.count, one.share) == (count, count / 60)
        assert (one.low, one.high) == (pytest.approx(low), pytest.approx(high))
    chosen = said | dict.fromkeys([int(row) for row in order[100:800]])  # 700 more are unknown for certain
    assert pool_shares(rule, order, chosen, CLASSES).unknown.low >= (700 + kinds.count("unknown")) / 1000
    every = {row: None if row % 3 == 0 else "a" for row in range(1000)}
    whole = pool_shares(rule, order, every, CLASSES).unknown
    assert whole.low == whole.share == whole.high == 0.334
    assert pool_shares(rule, order, {int(order[1]): None}, CLASSES) is None


@pytest.mark.parametrize(("chosen", "skip"), [(0, 0.0), (40, 0.0), (0, 0.4)])
def test_intervals_hold_the_truth_and_shrink(chosen, skip):
    """Pools of many compositions: 95 % and more of the intervals hold the true share, also where a rule has chosen the
    unknown samples to ask about, or a share ``skip`` of the unknown ones is passed over, and more answers make them
    narrower."""
    rng = np.random.default_rng(chosen)
    held, width = {20: [], 60: []}, {20: [], 60: []}
    for seed in range(400):
        truth = rng.choice(3, size=300, p=rng.dirichlet([1, 1, 1]))  # 0 like the labelled, 1 shifted, 2 unknown
        rule, order = stub(truth > 0), order_of(300, seed)  # an unknown sample may look shifted, too
        strange = np.flatnonzero(truth == 2)[:chosen]
        for count in held:
            rows = np.union1d(order[:count], strange)
            passed = {int(row) for row in rows if truth[row] == 2 and row % 10 < 10 * skip}
            said = {int(row): None if truth[row] == 2 else "a" for row in rows if row not in passed}
            found = pool_shares(rule, order, said, CLASSES, passed)
            if found is None:
                continue
            assert found.drawn >= count
            for kind, one in enumerate((found.known, found.shifted, found.unknown)):
                held[count].append(one.low <= (truth == kind).mean() <= one.high)
                width[count].append(one.high - one.low)
    for count in held:
        assert np.mean(held[count]) > 0.95 - 2 * np.sqrt(0.05 * 0.95 / 400)
    assert np.mean(width[60]) < (0.9 if skip else 0.7) * np.mean(width[20])


@pytest.fixture(scope="module")
def fitted():
    world = make_world(2, per_class=90, noise=0.8)
    rule = fit_rule(unit_rows(world.labelled), world.labels, unit_rows(world.wild), 3, RuleSettings(seed=1))
    assert rule.shift.found
    return world, rule


def review_of(fitted, seed=0, shift=True):
    """``seed``: other names, another order."""
    world, rule = fitted
    if not shift:
        rule = replace(rule, shift=replace(rule.shift, share=0.0), wild_shifted=np.zeros(len(rule.reference)))
    held = unit_rows(world.id_test)
    learned = Learned(rule, learn_thresholds(rule, held, 0.1), list(CLASSES))
    return Review(learned, held, seed * len(world.wild) + np.arange(len(world.wild)), "p")


def truth(world, rows):
    return {int(row): "unknown" if world.wild_kind[row] == 2 else "a" for row in rows}


@pytest.mark.parametrize(("shift", "skip"), [(True, 0), (False, 0), (True, 2)])
def test_the_promise_is_kept_and_not_overdone(fitted, shift, skip):
    """Over random orders of one pool: of the samples of known classes that nobody was asked about, on average at most alpha
    are rejected, and no less than alpha - 1 / (n + 1). So, too, where the ``skip`` hardest known ones are passed over."""
    world, rule = fitted
    alpha, rates, counts = 0.08, [], []
    for seed in range(60):
        review = review_of(fitted, seed, shift)
        names = review.ask(60 + 35 * skip, "random")
        drawn = np.array(names) - seed * len(world.wild)
        known = drawn[world.wild_kind[drawn] < 2]
        hardest = known[np.argsort(-rule.wild_score[known])[:skip]]
        told = dict(zip(names, truth(world, drawn).values(), strict=True))
        review.skip(hardest + seed * len(world.wild))
        review.answer({name: said for name, said in told.items() if name - seed * len(world.wild) not in hardest})
        review.promise = alpha
        learned = review.refit()
        assert learned.thresholds.promise is not None
        assert len(learned.thresholds.promise.skipped) == skip
        counts.append(len(learned.thresholds.promise.scores))
        r = learned.model.wild_shifted
        mine = (world.wild_kind < 2) & ((r > 0.5) | (not shift))
        mine[drawn] = False
        base, raised = learned.thresholds.value, learned.thresholds.shifted
        limits = base + (r if shift else 1) * max(0.0, raised - base)
        rates.append((learned.model.wild_score > limits)[mine].mean())
    error = np.std(rates) / np.sqrt(len(rates))
    assert np.mean(rates) <= alpha + 2 * error
    if shift and not skip:  # without one t_id may keep more than was promised
        assert np.mean(rates) >= alpha - 1 / (min(counts) + 1) - 2 * error


def test_drawn_answers_calibrate_and_teach_nothing(fitted):
    world, rule = fitted
    review = review_of(fitted)
    drawn = review.ask(50, "random")
    chosen = [name for name in review.ask(30) if name not in review.ask(51, "random")]  # the 51st would be drawn, too
    review.answer(truth(world, drawn) | truth(world, chosen))
    review.promise = 0.1
    learned = review.refit()
    oracle, _ = learn_answers(rule, CLASSES, {n: None if s == "unknown" else s for n, s in truth(world, chosen).items()}, 3)
    np.testing.assert_array_equal(learned.model.wild_score, oracle.wild_score)
    id_alone = learn_thresholds(oracle, review.held, 0.1)
    assert learned.thresholds.value == id_alone.value  # the promise for samples like the labelled ones is as it was
    r, base = oracle.wild_shifted, id_alone.value
    mine = [name for name in drawn if world.wild_kind[name] < 2 and r[name] > 0.5]
    values = sorted(base + (oracle.wild_score[name] - base) / r[name] for name in mine)
    assert learned.thresholds.shifted == pytest.approx(values[int(np.ceil((len(mine) + 1) * 0.9)) - 1])
    facts = review.facts()["promise"]
    assert (facts["made"], facts["known"], facts["needed"], facts["drawn"]) == (True, len(mine), 9, 50)
    assert len(review.answers) == len(learned.given) == 50 + len(chosen)
    assert learned.thresholds.interval == (review.shares().unknown.low, review.shares().unknown.high)


def test_how_many_it_takes_is_exact_and_told(fitted):
    world, rule = fitted
    order, r = random_order(range(len(world.wild))), rule.wild_shifted
    mine = np.cumsum((world.wild_kind[order] < 2) & (r[order] > 0.5))
    enough = int(np.flatnonzero(mine == 19)[0]) + 1
    for count in (enough - 1, enough):
        review = review_of(fitted)
        review.answer(truth(world, order[:count]))
        review.promise = 0.05
        learned = review.refit()
        facts = review.facts()["promise"]
        assert facts["needed"] == 19
        assert facts["made"] == (count == enough)
        assert facts["missing"] == (0 if count == enough else int(np.ceil((enough - 1) / 18)))
        # too few for a promise are not lost: they teach
        assert hasattr(learned.model, "given") == (count < enough)
    review.promise = 1.5
    with pytest.raises(InputError, match="promise"):
        review.refit()


def test_state_and_back(fitted):
    world, _ = fitted
    review = review_of(fitted)
    first, *others = review.ask(50, "random")
    review.skip([first])
    assert first not in review.ask(50, "random")
    review.answer(truth(world, others))
    review.promise = 0.1
    thresholds = review.refit().thresholds
    arrays, record = thresholds_state(thresholds)
    again = restore_thresholds(arrays, record)
    assert again.shifted == thresholds.shifted
    assert again.promise.given == thresholds.promise.given
    assert again.promise.skipped == (first,)
    kept = Review(replace(review.learned, thresholds=again), review.held, review.names, "p")
    assert kept.facts()["shares"]["drawn"] == 50  # what was passed over is no gap the next time, either
    np.testing.assert_array_equal(again.at_shifted(np.linspace(0, 1, 5)), thresholds.at_shifted(np.linspace(0, 1, 5)))
    with pytest.raises(CheckpointError, match="promise"):
        restore_thresholds(arrays | {"promise.scores": arrays["promise.scores"][:3]}, record)
