"""The object behind questions and answers: what it asks, notes, takes back and learns, against the functions it calls."""

import numpy as np
import pytest

from shifted_world import make_world
from wildspec.decision.answers import NEW_CLASS, learn_answers
from wildspec.decision.review import Learned, Review
from wildspec.decision.rule import RuleSettings, fit_rule
from wildspec.decision.thresholds import learn_thresholds
from wildspec.errors import InputError
from wildspec.graph.search import unit_rows

CLASSES = ["cat", "dog", "owl"]


@pytest.fixture(scope="module")
def fitted():
    world = make_world(2)
    rule = fit_rule(unit_rows(world.labelled), world.labels, unit_rows(world.wild), 3, RuleSettings(seed=1))
    return world, rule, learn_thresholds(rule, unit_rows(world.id_test), 0.1)


@pytest.fixture
def review(fitted):
    world, rule, thresholds = fitted
    names = np.array([f"{number}.jpg" for number in range(len(world.wild))], dtype=object)
    return Review(Learned(rule, thresholds, list(CLASSES)), unit_rows(world.id_test), names, "p")


def test_what_it_says_about_the_pool_is_what_the_model_says_about_such_samples(fitted, review):
    world, rule, thresholds = fitted
    decided = rule.decide(unit_rows(world.wild))
    said = review.about(review.names.tolist())
    likely = np.array([CLASSES.index(one.likely) for one in said])
    assert (likely == decided.probabilities.argmax(axis=1)).mean() > 0.98  # members stand in the graph, new samples do not
    rejected = np.array([one.rejected for one in said])
    assert (rejected == thresholds.reject(decided)).mean() > 0.95
    assert review.facts()["rejected"] == rejected.sum()


def test_answers_are_noted_learned_and_taken_back(fitted, review):
    world, rule, thresholds = fitted
    first = review.ask(6)
    review.answer(dict.fromkeys(first[:3], "unknown"))
    review.answer({first[3]: "dog"})
    assert review.learned.model is rule  # noted, not learned
    assert review.answers == {**dict.fromkeys(first[:3]), first[3]: "dog"}
    assert not set(review.ask(400, "boundary")) & set(review.answers)
    review.answer({first[3]: "owl"})
    assert review.undo() == first[3]
    assert review.answers[first[3]] == "dog"
    learned = review.refit()
    numbers = [int(name.removesuffix(".jpg")) for name in first[:4]]
    oracle, _ = learn_answers(rule, CLASSES, dict(zip(numbers, [None, None, None, "dog"], strict=True)), 3)
    np.testing.assert_array_equal(learned.model.wild_score, oracle.wild_score)
    assert learned.thresholds.value == learn_thresholds(oracle, unit_rows(world.id_test), 0.1).value
    assert [review.undo() for _ in range(5)] == [first[3], *first[2::-1], None]
    assert review.answers == {}
    np.testing.assert_array_equal(review.refit().model.wild_score, rule.wild_score)
    assert review.learned.thresholds.value == thresholds.value


def test_a_new_class_keeps_its_place_and_goes_when_its_answers_go(fitted, review):
    world, rule, _ = fitted
    strange = [f"{row}.jpg" for row in np.flatnonzero(world.wild_kind == 2)[::-1]]
    review.answer(dict.fromkeys(strange[:NEW_CLASS], "elk"))
    assert review.refit().classes == [*CLASSES, "elk"]
    review.answer(dict.fromkeys(strange[NEW_CLASS : 2 * NEW_CLASS], "fox"))  # rows before those of elk
    assert review.refit().classes == [*CLASSES, "elk", "fox"]
    for _ in range(2 * NEW_CLASS):
        review.undo()
    assert review.refit().classes == CLASSES
    np.testing.assert_allclose(review.learned.model.wild_score, rule.wild_score, atol=1e-6)


def test_a_mistake_changes_nothing(review):
    review.answer({"0.jpg": "cat"})
    for given, word in [({"1.jpg": "dog", "none.jpg": "dog"}, "none.jpg"), ({"1.jpg": "dog", "2.jpg": "DOG"}, "case"),
                        ({1: "dog"}, "1"), ({"1.jpg": "elk", "2.jpg": "Elk"}, "case")]:  # fmt: skip
        with pytest.raises(InputError, match=word):
            review.answer(given)
    assert review.answers == {"0.jpg": "cat"}
    review.answer({"1.jpg": "elk"})
    review.answer({"1.jpg": "Elk"})  # a name of one sample alone may be corrected
    assert review.answers["1.jpg"] == "Elk"


def test_copies_cannot_be_two_things(fitted):
    world, _, _ = fitted
    wild = unit_rows(np.concatenate([world.wild, world.wild[:1]]))
    rule = fit_rule(unit_rows(world.labelled), world.labels, wild, 3, RuleSettings(seed=1))
    held = unit_rows(world.id_test)
    review = Review(Learned(rule, learn_thresholds(rule, held, 0.1), list(CLASSES)), held, np.arange(len(wild)), "p")
    review.answer({0: "cat"})
    with pytest.raises(InputError, match=r"0 and 420 .*'cat' and unknown"):
        review.answer({420: "unknown"})
    assert review.answers == {0: "cat"}


def test_again_is_a_review_without_the_answers_of_the_first(fitted):
    world, rule, _ = fitted
    held = unit_rows(world.id_test)
    thresholds = learn_thresholds(rule, held, 0.1, world.id_labels, per_class=True)
    names = np.arange(len(world.wild))
    first = Review(Learned(rule, thresholds, list(CLASSES)), held, names, "p", world.id_labels)
    asked = first.ask(6)
    first.answer(dict.fromkeys(asked, "unknown"))
    second = first.again()
    assert second.answers == {}
    second.answer({asked[0]: "unknown", asked[1]: "cat"})
    learned = second.refit()
    assert first.learned.model is rule, "the first is left as it was"
    fresh = Review(Learned(rule, thresholds, list(CLASSES)), held, names, "p", world.id_labels)
    fresh.answer({asked[0]: "unknown", asked[1]: "cat"})
    oracle = fresh.refit()
    np.testing.assert_array_equal(learned.model.wild_score, oracle.model.wild_score)
    assert learned.thresholds.per_class
    assert learned.thresholds.value == oracle.thresholds.value
