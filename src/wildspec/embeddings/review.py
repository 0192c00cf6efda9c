"""A person in the loop of a `SpectralClassifier`: what to ask about, and what the answers change."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.decision.answers import AnsweredRule, check_answer, learn_answers
from wildspec.decision.questions import Pool, choose
from wildspec.decision.rule import Rule
from wildspec.decision.thresholds import learn_thresholds
from wildspec.errors import InputError

Numbers = NDArray[np.int64]


def questions(estimator: Any, n: int, rule: str) -> Numbers:
    """Rows of the wild pool, as ``fit`` was given it, not answered yet; the most wanted first."""
    base = base_rule(estimator)
    open_ones = np.flatnonzero(~np.isin(base.reference, list(answers(estimator))))
    seen = pool(estimator, open_ones)
    generator = np.random.default_rng([estimator._seed, len(answers(estimator))])
    chosen = open_ones[choose(rule, seen, n, generator)]
    return np.asarray(estimator._wild_rows[base.reference[chosen]])


def answer(estimator: Any, given: Mapping[Any, Any]) -> None:
    """Learn from answers beside those that were given before; one for the same row replaces the former one."""
    base = base_rule(estimator)
    found = answers(estimator)
    known = _known(estimator)
    classes = estimator.classes_.tolist()
    numbers = estimator.classes_.dtype.kind not in "USO"
    for place, value in zip(places(estimator, list(given)), given.values(), strict=True):
        names = [*classes, *(one for one in found.values() if one is not None and one not in classes)]
        found[place] = check_answer(value, names, numbers)
    if not given:
        return
    model, grown = learn_answers(base, classes, found, known, estimator._wild_rows)
    estimator.classes_ = np.array(grown, dtype=None if estimator.classes_.dtype.kind == "U" else estimator.classes_.dtype)
    estimator._take(model, learn_thresholds(model, estimator._held_rows, float(estimator.alpha)))


def places(estimator: Any, rows: list[Any]) -> list[int]:
    """Rows of the wild pool as places in the graph."""
    where = {int(row): place for place, row in enumerate(estimator._wild_rows.tolist())}
    for row in rows:
        if isinstance(row, bool) or not hasattr(row, "__index__") or int(row) not in where:
            raise InputError(
                f"the answers name the wild row {row!r}, which this model has not seen: its pool has {len(where):,} rows, "
                f"{min(where)} to {max(where)}; take the rows that its questions named"
            )
    return [where[int(row)] for row in rows]


def pool(estimator: Any, chosen: Numbers) -> Pool:
    """What the model thinks of its own wild samples, ``chosen`` of the rule's reference."""
    base, model, thresholds = base_rule(estimator), estimator.model_, estimator.thresholds_
    features = base.members(base.reference[chosen])
    scores, shifted = model.wild_score[chosen], model.wild_shifted[chosen]
    at = thresholds.at_shifted(shifted)
    if isinstance(model, AnsweredRule):
        return Pool(scores, at, features, model.named(features, base.probe.probabilities(features)))
    return Pool(scores, at, features, base.probe.probabilities(features))


def base_rule(estimator: Any) -> Rule:
    """The rule without answers, if it has wild samples to ask about."""
    rule: Rule = estimator._current("questions")
    if rule.graph is None or not estimator.n_wild_:
        raise InputError(
            f"the model has {estimator.n_wild_} wild samples and none to ask about; fit it with 20 wild samples or more"
        )
    return rule


def answers(estimator: Any) -> dict[int, Any]:
    """Sample of the graph -> answer, so far."""
    return dict(estimator.model_.given) if isinstance(estimator.model_, AnsweredRule) else {}


def pool_id(estimator: Any) -> str:
    """Twelve letters that name the wild pool: the same before and after answers, another one for another model."""
    graph = base_rule(estimator).graph
    assert graph is not None
    digest = hashlib.sha256(np.ascontiguousarray(graph.rows).tobytes())
    digest.update(np.ascontiguousarray(estimator._wild_rows, np.int64).tobytes())
    return digest.hexdigest()[:12]


def _known(estimator: Any) -> int:
    model = estimator.model_
    return model.known if isinstance(model, AnsweredRule) else len(estimator.classes_)
