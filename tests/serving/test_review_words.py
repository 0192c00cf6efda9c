"""What the review says: numbers that are right, and words that fit them."""

import numpy as np
import pytest

from wildspec.serving.review_words import Thought, changed, per, tally, thought


def said(**more: float) -> str:
    about = {"probability": 0.834, "score": 0.5, "threshold": 0.9, "usual": 0.9, "shifted": 0.1, **more}
    return " ".join(thought(Thought("dog", **about), ["dog", "owl", "dog"])).replace("\u00a0", " ")


def test_kept_rejected_raised_and_without_a_threshold() -> None:
    kept = said()
    assert "Kept as dog, 83 % sure" in kept
    assert "0.50" in kept
    assert "0.90" in kept
    assert "2 dog, 1 owl" in kept
    assert "conditions" not in kept
    rejected = said(score=1.2)
    assert "above the threshold" in rejected
    assert "dog (83 %)" in rejected
    raised = said(threshold=1.4, shifted=0.97)
    assert "(97 %)" in raised
    assert "from 0.90" in raised
    assert "too few" in said(threshold=np.inf, usual=np.inf)
    assert "-0.00" not in said(score=-0.001)


def test_the_tally_counts_by_hand() -> None:
    rejected = np.array([True, False, True, False, False])
    found = tally(rejected, {0: True, 1: True, 2: False, 4: False, 3: True})
    assert (found.known, found.kept, found.unknown, found.found) == (3, 2, 2, 1)
    assert found.rejected == pytest.approx(0.4)
    assert found.to_json() == {"kept": pytest.approx(2 / 3), "found": 0.5, "rejected": pytest.approx(0.4)}
    assert tally(rejected, {}).to_json()["kept"] is None
    facts = {"unknown_share": 0.25, "unknown_interval": [0.1, 0.5]}
    line = changed(5, tally(~rejected, {0: True, 2: False}), found, facts, ["newt"]).replace("\u00a0", " ")
    for part in ("5 answers", "kept 2 of 3", "found 1 of 2", "40 %", "60 %", "25 % (10 % to 50 %)", "newt"):
        assert part in line
    assert per(0.005) == "0\u00a0%"
