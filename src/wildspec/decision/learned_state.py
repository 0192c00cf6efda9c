"""All that decides, as arrays and JSON, and back: rule, answers where there are any, thresholds, temperature. No pickle."""

from typing import Any

from wildspec.decision.answers import AnsweredRule
from wildspec.decision.answers_state import answers_state, restore_answers
from wildspec.decision.rule import Rule
from wildspec.decision.rule_state import Arrays, restore_rule, restore_thresholds, rule_state, thresholds_state
from wildspec.decision.thresholds import Thresholds


def learned_state(
    model: Rule | AnsweredRule, thresholds: Thresholds, temperature: float
) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and a record from which `restore_learned` makes them again."""
    arrays, rule = rule_state(model.rule if isinstance(model, AnsweredRule) else model)
    held, promised = thresholds_state(thresholds)
    arrays, record = arrays | held, {"rule": rule, "thresholds": promised, "temperature": temperature}
    if isinstance(model, AnsweredRule):
        more, record["answers"] = answers_state(model)
        arrays |= more
    return arrays, record


def restore_learned(arrays: Arrays, record: dict[str, Any]) -> tuple[Rule | AnsweredRule, Thresholds, float]:
    """Rule, thresholds and temperature (1 in early bundles) that `learned_state` described."""
    rule: Rule | AnsweredRule = restore_rule(arrays, record["rule"])
    if "answers" in record:
        assert isinstance(rule, Rule)
        rule = restore_answers(rule, arrays, record["answers"])
    return rule, restore_thresholds(arrays, record["thresholds"]), float(record.get("temperature", 1.0))
