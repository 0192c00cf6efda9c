"""Why a sample was kept or rejected: the decision and the labelled samples nearest to it."""

from typing import Any

import numpy as np

from wildspec.decision.verdicts import REJECTED, Explanation, Verdicts, explain_rows
from wildspec.graph.search import Rows


def explain(estimator: Any, rows: Rows, neighbours: int) -> list[Explanation]:
    """One explanation for each prepared row of a fitted `SpectralClassifier`."""
    model, thresholds = estimator.model_, estimator.thresholds_
    decided = estimator._decide_rows(rows)
    likely, limits = decided.probabilities.argmax(axis=1), thresholds.at(decided)
    away, places = model.index.search(rows, min(neighbours, len(model.labels)))
    verdicts = Verdicts(
        np.where(decided.score > limits, REJECTED, likely), likely, decided.probabilities, decided.score, limits,
        thresholds.p_value(decided.score), places, away, rows,
    )  # fmt: skip
    names = [str(name) for name in estimator.classes_.tolist()]

    def neighbour(place: int) -> tuple[str, str, int]:
        return sample_name(estimator, place), names[int(model.labels[place])], int(estimator._rows[place])

    return explain_rows(verdicts, names, neighbour)


def sample_name(estimator: Any, place: int) -> str:
    """What a labelled sample is called: as in the table it came from, else by its row in the X of ``fit``. Samples that came
    later, by ``partial_fit``, have none."""
    names, row = estimator._names, int(estimator._rows[place])
    if names is not None and place < len(names):
        return str(names[place])
    return f"row {row}" if row >= 0 else "a later row"
