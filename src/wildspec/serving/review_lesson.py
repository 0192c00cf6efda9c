"""One lesson of a review: the model that has learned from some answers, what it thinks of the pool, what it would ask next.

Everything that takes longer than a moment is here, and is done in the background while a person goes on answering.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.decision.answers import copy_keys
from wildspec.decision.questions import Pool
from wildspec.decision.review import Review
from wildspec.report.groups import cut_distance, group_rows, most_typical
from wildspec.serving.engine import histogram
from wildspec.serving.review_words import Thought

ASKED = 20  # questions chosen at a time; of these, groups asks about the middle of ten groups first
SHEETS = 12  # groups of rejected samples that the page shows, the largest
NEAREST = 10  # labelled samples that the words count


@dataclass(frozen=True, eq=False)
class Lesson:
    """``acts``: numbers of what was learned from. Of the m samples that can be asked about: ``pool``, ``shifted`` (m,).
    ``questions``: samples, the most wanted first, then all others by how near they are to the boundary. ``sheets``: rejected
    samples in groups, those of the report (`wildspec.report.groups`)."""

    review: Review
    acts: frozenset[str]
    pool: Pool
    shifted: NDArray[np.float64]
    questions: list[int]
    sheets: list[NDArray[np.int64]]
    facts: dict[str, Any]
    scores: dict[str, Any] | None

    @property
    def classes(self) -> list[str]:
        return [str(name) for name in self.review.learned.classes]

    @property
    def rejected(self) -> NDArray[np.bool_]:
        return np.asarray(self.pool.scores > self.pool.thresholds)

    def thought(self, i: int) -> Thought:
        chances = self.pool.probabilities[i]
        likely = int(chances.argmax())
        return Thought(
            self.classes[likely], float(chances[likely]), float(self.pool.scores[i]), float(self.pool.thresholds[i]),
            float(self.review.learned.thresholds.value), float(self.shifted[i]),
        )  # fmt: skip

    def ranked(self, i: int) -> list[tuple[str, float]]:
        """Classes with their probabilities, the likeliest first."""
        chances = self.pool.probabilities[i]
        classes = self.classes
        return [(classes[c], float(chances[c])) for c in np.argsort(-chances, kind="stable").tolist()]

    def nearest(self, i: int) -> list[tuple[str, int]]:
        """The labelled samples nearest to sample i, as the score sees them: class, and row of the rule's labelled samples;
        -1: an answered one, or not known where the bank is a part of them."""
        rule = self.review.learned.rule
        bank, known = rule.bank, len(rule.labels)
        similar = bank.rows @ self.pool.features[i]
        count = min(NEAREST, len(similar))
        near = np.argpartition(-similar, count - 1)[:count]
        near = near[np.argsort(-similar[near], kind="stable")]
        whole = int((bank.labels < self.review.learned.known).sum()) == known
        order = np.argsort(rule.labels, kind="stable")  # the bank is ordered by class, answered samples come last
        classes = self.classes
        return [(classes[int(bank.labels[j])], int(order[j]) if whole and j < known else -1) for j in near.tolist()]


def learn(
    base: Review, given: Mapping[Any, Any], skipped: Collection[Any], acts: frozenset[str], rule: str, settled: set[int]
) -> Lesson:
    """From the review of the model as it was loaded, with all answers, name -> class, and names that were passed over;
    ``settled``: samples that have an answer or were passed over, which go on no sheet. Where a promise is wanted and not
    made yet, questions are drawn at random, else by ``rule``."""
    review = base
    if given:
        review = base.again()
        review.skip(skipped)
        review.answer(given)
        review.refit()
    rule = "random" if review.promise is not None and review.learned.thresholds.promise is None else rule
    pool = review.pool()
    wanted = len(pool) if rule == "random" else ASKED  # no question out of turn: answers behind a gap do not count
    places = {place: i for i, place in enumerate(review.learned.rule.reference.tolist())}
    first = [places[place] for place in review.places(review.ask(wanted, rule))] if len(given) < len(pool) else []
    finite = np.isfinite(pool.thresholds)
    away = np.abs(pool.scores - np.where(finite, pool.thresholds, pool.scores.max()))
    order = list(dict.fromkeys([*first, *np.argsort(away, kind="stable").tolist()]))
    open_ones = np.ones(len(pool), bool)
    open_ones[list(settled)] = False
    strange = np.flatnonzero(open_ones & (pool.scores > pool.thresholds))
    bank = review.learned.rule.bank
    groups = group_rows(pool.features[strange], cut_distance(bank.rows, bank.labels, pool.features))
    count = min(SHEETS, int(groups.max(initial=-1)) + 1)
    sheets = [strange[most_typical(pool.features[strange], groups, number)] for number in range(count)]
    limit = review.learned.thresholds.value
    scores = None
    if np.isfinite(limit) and review.learned.thresholds.held:
        scores = histogram({"known": review.learned.thresholds.scores, "wild": pool.scores}, limit)
    shifted = np.asarray(review.learned.model.wild_shifted, np.float64)
    return Lesson(review, acts, pool, shifted, order, sheets, review.facts(), scores)


def copies_of(review: Review) -> NDArray[np.int64]:
    """(m,) of the samples that can be asked about: the first that is the same to single precision's last digits."""
    rule = review.learned.rule
    first: dict[bytes, int] = {}
    keys = copy_keys(rule, rule.reference.tolist())
    return np.array([first.setdefault(key, i) for i, key in enumerate(keys)], np.int64)
