"""Decisions on a Ray cluster: the rule goes to the object store once; blocks of rows are independent tasks.

A task whose worker dies is run again by Ray; its result replaces nothing and is counted once, so rows are neither lost nor
doubled.
"""

from typing import Any
from uuid import uuid4

import numpy as np

from wildspec.decision.rule import Decided, Rule
from wildspec.decision.rule_state import restore_rule, rule_state
from wildspec.graph.ray_engine import in_order, started
from wildspec.graph.search import Rows

BLOCK = 8192


def decide(rule: Rule, rows: Rows) -> Decided:
    """``rule.decide(rows)``, block by block on the cluster; the order of the rows is kept."""
    ray = started()
    if not len(rows):
        return rule.decide(rows)
    stored = ray.put(_Portable(*rule_state(rule)))
    calls = ((stored, rows[start : start + BLOCK]) for start in range(0, len(rows), BLOCK))
    parts = list(in_order(_decide_block, calls))
    return Decided(*(np.concatenate([getattr(part, name) for part in parts]) for name in Decided.__dataclass_fields__))


class _Portable:
    """A rule between processes: as arrays and JSON, because a search index cannot be copied byte by byte."""

    def __init__(self, arrays: dict[str, np.ndarray], record: dict[str, Any]) -> None:
        self.arrays, self.record = arrays, record
        self.key = uuid4().hex


_LAST: tuple[str, Rule] | None = None  # a worker restores a rule once, not once for every block


def _decide_block(stored: _Portable, rows: Rows) -> Decided:
    global _LAST
    if _LAST is None or _LAST[0] != stored.key:
        _LAST = (stored.key, restore_rule(stored.arrays, stored.record))
    return _LAST[1].decide(rows)
