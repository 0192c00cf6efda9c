"""Why a sample was kept or rejected: the decision and the labelled samples nearest to it."""

from typing import Any

from wildspec.decision.verdicts import REJECTED_NAME, Explanation, Neighbour
from wildspec.graph.search import Rows


def explain(estimator: Any, rows: Rows, neighbours: int) -> list[Explanation]:
    """One explanation for each prepared row of a fitted `SpectralClassifier`."""
    model, thresholds = estimator.model_, estimator.thresholds_
    decided = model.decide(rows)
    rejected, limits, p_values = thresholds.reject(decided), thresholds.at(decided), thresholds.p_value(decided.score)
    count = min(neighbours, len(model.labels))
    distances, places = model.index.search(rows, count)
    names = [str(name) for name in estimator.classes_.tolist()]
    found = []
    for i, likely in enumerate(decided.probabilities.argmax(axis=1).tolist()):
        near = tuple(
            Neighbour(
                name=sample_name(estimator, place),
                label=names[int(model.labels[place])],
                distance=float(distance),
                row=int(estimator._rows[place]),
            )
            for place, distance in zip(places[i].tolist(), distances[i].tolist(), strict=True)
        )
        found.append(
            Explanation(
                decision=REJECTED_NAME if rejected[i] else names[likely],
                likely=names[likely],
                probability=float(decided.probabilities[i, likely]),
                ood_score=float(decided.score[i]),
                threshold=float(limits[i]),
                p_value=float(p_values[i]),
                neighbours=near,
            )
        )
    return found


def sample_name(estimator: Any, place: int) -> str:
    """What a labelled sample is called: as in the table it came from, else by its row in the X of ``fit``. Samples that came
    later, by ``partial_fit``, have none."""
    names, row = estimator._names, int(estimator._rows[place])
    if names is not None and place < len(names):
        return str(names[place])
    return f"row {row}" if row >= 0 else "a later row"
