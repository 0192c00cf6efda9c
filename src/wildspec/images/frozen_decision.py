"""From features of a frozen network to a decision: rule, threshold, and probabilities that mean what they say."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from wildspec.decision.answers import AnsweredRule
from wildspec.decision.calibration import Calibration
from wildspec.decision.rule import BLOCK, Rule
from wildspec.decision.rule_graph import RuleGraph
from wildspec.decision.temperature import at_temperature
from wildspec.decision.thresholds import Thresholds
from wildspec.graph.nearest import normalize


class RuleName:
    """What a report and the service say a decision is made by."""

    name = "rule"

    def config(self) -> dict[str, Any]:
        """Nothing to set."""
        return {}

    def __repr__(self) -> str:
        return "one rule: distance, margin and energy, with the wild pool's shift undone"


@dataclass(frozen=True)
class Judged:
    """(n,) each: ``likely`` class, ``score`` high = OOD, ``threshold`` above which a sample is rejected, conformal
    ``p_value``, ``shifted`` posterior of the shifted group; ``probabilities`` (n, C)."""

    likely: np.ndarray
    probabilities: np.ndarray
    score: np.ndarray
    threshold: np.ndarray
    p_value: np.ndarray
    shifted: np.ndarray

    @property
    def rejected(self) -> np.ndarray:
        return self.score > self.threshold


def as_rows(features: Tensor) -> np.ndarray:
    """(n, d) features -> (n, d) float32 rows of length 1."""
    return normalize(features.float()).cpu().numpy()


@dataclass(frozen=True, eq=False)
class FrozenDecision:
    """``rule`` and ``thresholds``: of rows; ``temperature``: of probabilities."""

    rule: Rule | AnsweredRule
    thresholds: Thresholds
    temperature: float

    @property
    def detector(self) -> RuleName:
        return RuleName()

    @property
    def without_answers(self) -> Rule:
        """The rule of the fit."""
        return self.rule.rule if isinstance(self.rule, AnsweredRule) else self.rule

    @property
    def threshold(self) -> float:
        """Of samples that are not shifted."""
        return self.thresholds.value

    @property
    def alpha(self) -> float:
        return self.thresholds.alpha

    @property
    def calibration(self) -> Calibration:
        assert self.thresholds.calibration is not None, "a fit of images holds out as many as alpha needs"
        return self.thresholds.calibration

    def describe(self) -> str:
        """What is promised, in plain words."""
        said = self.thresholds.describe()
        if self.thresholds.promise is not None:
            return f"{said} {self.thresholds.promise.describe()}"
        if self.thresholds.shifted <= self.threshold:
            return said
        return f"{said} Samples under the wild pool's shift are kept up to {self.thresholds.shifted:.4g}."

    def graph(self) -> RuleGraph:
        """The decision as a module for export."""
        return RuleGraph(self.rule, self.thresholds, self.temperature)

    def rows(self, features: Tensor) -> np.ndarray:
        """(n, d) features -> (n, d) float32 rows of the rule."""
        return as_rows(features)

    def judge(self, rows: np.ndarray) -> Judged:
        """(n, d) rows of the rule -> decisions, every row on its own."""
        decided = self.rule.decide(rows)
        return self._judged(decided.probabilities, decided.score, decided.shifted)

    def judge_pool(self, shifted: np.ndarray) -> Judged:
        """The wild images that the rule's graph is made of; ``shifted`` (g,): their posterior of the shifted group."""
        everyone = np.arange(len(shifted))
        base = self.without_answers
        found = []
        for start in range(0, len(shifted), BLOCK):
            features, probabilities = base.of_members(everyone[start : start + BLOCK], shifted[start : start + BLOCK])
            if isinstance(self.rule, AnsweredRule):
                probabilities = self.rule.named(features, probabilities)
            found.append(probabilities)
        score = np.empty(len(shifted))
        score[base.reference] = self.rule.wild_score
        others = np.setdiff1d(everyone, base.reference)  # of pools larger than the rule looks at
        score[others] = self.rule.member_scores(others)
        return self._judged(np.concatenate(found), score, shifted)

    def _judged(self, probabilities: np.ndarray, score: np.ndarray, shifted: np.ndarray) -> Judged:
        return Judged(
            likely=probabilities.argmax(axis=1),
            probabilities=at_temperature(probabilities, self.temperature),
            score=score,
            threshold=self.thresholds.at_shifted(shifted),
            p_value=self.thresholds.p_value(score),
            shifted=shifted,
        )
