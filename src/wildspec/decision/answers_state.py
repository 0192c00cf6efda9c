"""What a person answered, and what was learned from it, as arrays and JSON, and back: what a bundle holds. No pickle."""

from typing import Any

import numpy as np

from wildspec.decision.answers import AnsweredRule
from wildspec.decision.probe import LinearProbe
from wildspec.decision.rule import Rule
from wildspec.decision.rule_state import Arrays
from wildspec.errors import CheckpointError


def answers_state(answered: AnsweredRule) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and a record from which `restore_answers` makes it again, beside the state of its rule."""
    arrays = {
        "answers.rows": np.array(list(answered.given), np.int64), "answers.weights": answered.head.weights,
        "answers.bias": answered.head.bias, "answers.score": answered.wild_score,
    }  # fmt: skip
    record = {
        "given": list(answered.given.values()), "known": answered.known, "centre": answered.centre,
        "spread": answered.spread,
    }  # fmt: skip
    return arrays, record


def restore_answers(rule: Rule, arrays: Arrays, record: dict[str, Any]) -> AnsweredRule:
    """The rule with answers that `answers_state` described; one that does not hang together is a CheckpointError."""
    rows, given = arrays["answers.rows"].tolist(), record["given"]
    if len(rows) != len(given) or len(set(rows)) != len(rows) or rule.graph is None:
        raise CheckpointError("the model's answers do not fit its wild samples; answer again")
    if len(arrays["answers.weights"]) - rule.n_classes not in (0, 1):
        raise CheckpointError("what the model learned from answers does not fit its classes; answer again")
    head = LinearProbe(arrays["answers.weights"], arrays["answers.bias"])
    return AnsweredRule(
        rule, dict(zip(rows, given, strict=True)), int(record["known"]), head, float(record["centre"]),
        float(record["spread"]), arrays["answers.score"],
    )  # fmt: skip
