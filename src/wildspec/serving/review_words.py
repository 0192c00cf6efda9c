"""What the review says in plain words: what the model thinks of a sample and why, and what its last lesson has changed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Thought:
    """What the model thinks of one sample; `wildspec.decision.review.Question` without its name."""

    likely: str
    probability: float
    score: float
    threshold: float
    usual: float  # the threshold of samples that are not shifted
    shifted: float

    @property
    def rejected(self) -> bool:
        return self.score > self.threshold


def per(share: float) -> str:
    """0.25 -> 25 %, not to be broken."""
    return f"{100 * share:.0f}\u00a0%"


def _number(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # no negative zero


def thought(about: Thought, nearest: Sequence[str]) -> list[str]:
    """Sentences. ``nearest``: classes of the nearest labelled samples."""
    score, limit, sure = _number(about.score), _number(about.threshold), per(about.probability)
    if not np.isfinite(about.threshold):
        said = [
            f"Looks like {about.likely} ({sure} among the known classes). Nothing is rejected: there were too few labelled "
            "samples for a threshold."
        ]
    elif about.rejected:
        said = [
            f"Its score of {score} is above the threshold of {limit}: it is too unlike the known classes. If it had to be "
            f"one of them: {about.likely} ({sure})."
        ]
    else:
        said = [
            f"Kept as {about.likely}, {sure} sure among the known classes: its score of {score} is not above the threshold "
            f"of {limit}."
        ]
    if np.isfinite(about.usual) and about.threshold > about.usual + 0.005:
        said.append(
            f"It seems to come from other conditions than the labelled samples ({per(about.shifted)}): that raises its "
            f"threshold from {_number(about.usual)}."
        )
    if nearest:
        counts = ", ".join(f"{count} {name}" for name, count in Counter(nearest).most_common())
        said.append(f"Of the {len(nearest)} nearest labelled samples: {counts}.")
    return said


@dataclass(frozen=True)
class Tally:
    """Of the samples with an answer: how many of a class are kept, and how many unknown ones are rejected; of the pool: the
    share that is rejected."""

    known: int
    kept: int
    unknown: int
    found: int
    rejected: float

    def to_json(self) -> dict[str, Any]:
        return {
            "kept": self.kept / self.known if self.known else None,
            "found": self.found / self.unknown if self.unknown else None,
            "rejected": self.rejected,
        }


def tally(rejected: np.ndarray, known: Mapping[int, bool]) -> Tally:
    """``rejected`` (m,) by a model; ``known``: sample -> was the answer a class that the model has?"""
    yes = [rejected[i] for i, is_known in known.items() if is_known]
    no = [rejected[i] for i, is_known in known.items() if not is_known]
    return Tally(len(yes), len(yes) - int(sum(yes)), len(no), int(sum(no)), float(rejected.mean()))


def changed(answers: int, first: Tally, now: Tally, facts: Mapping[str, Any], new: Sequence[str]) -> str:
    """One line about a lesson. ``first``: by the model as it was before any answer; ``facts``: of the review that has
    learned; ``new``: classes that it has made."""
    parts = []
    if now.known:
        parts.append(f"known kept {now.kept} of {now.known} (at first {first.kept})")
    if now.unknown:
        parts.append(f"unknown found {now.found} of {now.unknown} (at first {first.found})")
    low, high = facts["unknown_interval"]
    said = f"Learned from {answers} {'answer' if answers == 1 else 'answers'}: {', '.join(parts)}." if parts else ""
    pool = (f"Of the pool {per(now.rejected)} is rejected (at first {per(first.rejected)}); unknown, estimated: "
            f"{per(facts['unknown_share'])} ({per(low)} to {per(high)}).")  # fmt: skip
    made = f"New class: {', '.join(new)}." if new else ""
    return " ".join(part for part in (said, pool, made) if part)
