"""The rule as tensor operations says what the rule says: with and without pool, shift, answers, promises class by class."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shifted_world import make_world
from wildspec.decision.answers import learn_answers
from wildspec.decision.rule import Rule, RuleSettings, fit_rule
from wildspec.decision.rule_graph import RuleGraph
from wildspec.decision.temperature import at_temperature
from wildspec.decision.thresholds import learn_thresholds
from wildspec.graph.search import unit_rows

CLOSE = 2e-4


@pytest.fixture(scope="module")
def world():
    return make_world(2)


def _rule(world, *, wild: bool = True, shift: object = "auto") -> Rule:
    pool = unit_rows(world.wild) if wild else unit_rows(world.wild)[:0]
    return fit_rule(unit_rows(world.labelled), world.labels, pool, 3, RuleSettings(seed=1, shift=shift))


def _compare(rule, world, *, per_class: bool = False) -> None:
    held = unit_rows(world.id_test)
    thresholds = learn_thresholds(rule, held[::2], 0.1, np.arange(len(held[::2])) % 3, per_class=per_class)
    rng = np.random.default_rng(5)
    fresh = np.concatenate([held[1::2], unit_rows(world.wild + 0.05 * rng.normal(size=world.wild.shape))])
    fresh = np.concatenate([fresh, unit_rows(rng.normal(size=(20, fresh.shape[1])))])  # like nothing that was seen
    fresh = np.concatenate([fresh, unit_rows(world.wild[:40])])  # the pool itself
    decided = rule.decide(fresh)
    likely, probabilities, score, p_value, reject, limit = (
        one.numpy() for one in RuleGraph(rule, thresholds, 1.7)(torch.from_numpy(fresh))
    )
    assert np.abs(score - decided.score).max() < CLOSE * max(1.0, np.abs(decided.score).max())
    assert np.abs(probabilities - at_temperature(decided.probabilities, 1.7)).max() < CLOSE
    assert limit == pytest.approx(thresholds.at(decided), abs=CLOSE)
    clear = np.abs(decided.score - thresholds.at(decided)) > CLOSE
    assert clear.mean() > 0.95
    assert (reject == thresholds.reject(decided))[clear].all()
    assert 0.05 < reject.mean() < 0.95
    top = np.sort(decided.probabilities, axis=1)
    sure = top[:, -1] - top[:, -2] > 10 * CLOSE
    assert (likely == decided.probabilities.argmax(1))[sure].all()
    apart = np.abs(decided.score[:, None] - thresholds.scores).min(1) > CLOSE
    assert apart.mean() > 0.5
    assert p_value[apart] == pytest.approx(thresholds.p_value(decided.score)[apart], abs=1e-5)


@pytest.mark.parametrize(("wild", "shift"), [(True, True), (True, False), (False, False)])
def test_the_graph_agrees_with_the_rule(world, wild: bool, shift: bool) -> None:
    rule = _rule(world, wild=wild, shift=shift)
    assert rule.shift.found == shift
    _compare(rule, world)


@pytest.mark.parametrize("strength", [0.0, 0.4])
def test_so_it_does_where_the_graph_counts_less(world, strength: float) -> None:
    _compare(replace(_rule(world), strength=strength), world)


def test_so_it_does_class_by_class(world) -> None:
    _compare(_rule(world), world, per_class=True)


@pytest.mark.parametrize("said", [None, "dog"])
def test_so_it_does_after_answers(world, said: str | None) -> None:
    rule = _rule(world)
    given = {int(row): said for row in np.argsort(-rule.wild_score)[:6]}
    answered, _ = learn_answers(rule, ["cat", "dog", "owl"], given, 3)
    _compare(answered, world)
