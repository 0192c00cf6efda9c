"""The wild samples one by one: what the list of the page, its filters and its slider are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wildspec.report.facts import Group
from wildspec.report.groups import cut_distance, group_rows, most_typical

TYPICAL = 4  # members of a group that stand for it
MOST_LISTED = 20_000  # samples; of larger pools the most unlike


@dataclass(frozen=True)
class Listed:
    """(n,) each, the highest score first. ``margin``: score less threshold, above 0 = rejected; ``sample``: place among the
    samples that are shown, -1: none; ``group``: of the rejected ones, -1: none; ``answers``: what a person said, or "";
    ``turned``: the decision would be another without the answers. ``typical``: for each group the rows of the list that
    stand for it. ``of``: how many samples there are."""

    names: list[str]
    score: np.ndarray
    margin: np.ndarray
    p_value: np.ndarray
    likely: np.ndarray
    rejected: np.ndarray
    sample: np.ndarray
    group: np.ndarray
    answers: list[str]
    turned: np.ndarray
    typical: list[list[int]]
    of: int

    def __len__(self) -> int:
        return len(self.names)

    @property
    def sizes(self) -> list[int]:
        """Of the groups, the largest first."""
        return np.bincount(self.group[self.group >= 0], minlength=len(self.typical)).tolist()


def list_pool(
    group: Group, p_values: np.ndarray, rows: np.ndarray, names: Sequence[str], features: np.ndarray,
    labelled: tuple[np.ndarray, np.ndarray], shown: Mapping[int, int], threshold: float,
    answers: Mapping[int, Any] | None = None, turned: Sequence[int] = (),
) -> Listed:
    """``rows``: samples of the group that can be named, with their ``names`` and ``features``; ``labelled``: features and
    classes of labelled samples; ``shown``: row of the group -> place among the samples that are shown."""  # fmt: skip
    order = np.argsort(-group.scores[rows], kind="stable")[:MOST_LISTED]
    chosen = rows[order]
    rejected = group.rejected[chosen]
    groups = np.full(len(chosen), -1, np.int64)
    inside = features[order][rejected]
    found = group_rows(inside, cut_distance(*labelled, features))
    groups[rejected] = found
    sample = np.array([shown.get(int(row), -1) for row in chosen], np.int64)
    where = np.flatnonzero(rejected)
    typical = []
    for number in range(int(found.max(initial=-1)) + 1):
        members = where[most_typical(inside, found, number)]
        pictured = [row for row in members.tolist() if sample[row] >= 0]  # what can be looked at stands for the others
        typical.append((pictured or members.tolist())[:TYPICAL])
    said = {int(row): value for row, value in (answers or {}).items()}
    return Listed(
        names=[names[i] for i in order.tolist()],
        score=group.scores[chosen],
        margin=group.margins(threshold)[chosen],
        p_value=p_values[chosen],
        likely=group.likely[chosen],
        rejected=rejected,
        sample=sample,
        group=groups,
        answers=["" if row not in said else "unknown" if said[row] is None else str(said[row]) for row in chosen.tolist()],
        turned=np.isin(chosen, np.asarray(turned, np.int64)),
        typical=typical,
        of=len(group),
    )
