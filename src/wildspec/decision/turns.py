"""Calibration scores of samples that were learned from, in turns: each fifth is scored by what the other four teach.

Few held-out samples make a poor threshold: among 35 of them the conformal one is their largest score, whatever it is. Where
there are fewer than `ENOUGH`, the samples that the rule learned from are calibration samples too, as in cross-conformal
prediction (Vovk 2015). Shift and graph stay as they are; they have seen no class of any sample.

The promise is then an estimate: no theorem covers a threshold from parts that is used for the whole. The parts learn from
fewer samples than the whole, so their scores are rather too high, and the rate of false alarms rather too low: at or below
alpha in the simulation of tests/decision/test_turns.py.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]

ENOUGH = 200  # held-out samples: the rate of their threshold then varies by 1.5 points between draws
TURNS = 5


def turns(rows: NDArray[Any], labels: Labels, seed: int = 0) -> Iterator[tuple[Labels, Labels]]:
    """(n, d) rows, (n,) classes -> pairs (learned from, scored) that score every row once.

    Copies of a row are scored together; every class is dealt evenly. A class is never left without a sample to learn from:
    where all of it would be scored in one turn (a single sample, or copies of one, of other classes too), it is always
    learned from, and not scored.
    """
    rounded = np.round(rows.astype(np.float64), 6) + 0.0
    _, first, copy_of = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # sets of copies in order of appearance: turning the features changes nothing
    first, copy_of = first[order], np.argsort(order)[copy_of.reshape(-1)]
    dealt = np.empty(len(first), np.int64)
    rng = np.random.default_rng(seed)
    start = 0
    for label in np.unique(labels):
        mine = rng.permutation(np.flatnonzero(labels[first] == label))
        dealt[mine] = (start + np.arange(len(mine))) % TURNS
        start += len(mine)
    for label in np.unique(labels):
        sets = copy_of[labels == label]
        if len(np.unique(dealt[sets])) == 1:
            dealt[sets] = -1
    turn = dealt[copy_of]
    for number in range(TURNS):
        scored = np.flatnonzero(turn == number)
        if len(scored):
            yield np.flatnonzero(turn != number), scored
