"""The rows of `wildspec bench pacs-open-set`: systems that name known classes and reject, each by its own decision.

A system gets the labelled source rows and the wild pool of a task, and tells of the test rows: the class or -1, and a score
(high = unknown); of the held-out source rows the same. Where the test rows are the pool itself, systems that decide about
their pool (``transduction_``) are asked for that. No system sees a label of the target.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wildspec.bench.embedding_methods import RowMethod, energy, logistic_regression, max_probability
from wildspec.data.splits import holdout
from wildspec.evaluation import calibrate
from wildspec.graph.search import unit_rows

ALPHA = 0.05  # of the conformal threshold of the systems that have none of their own


@dataclass(frozen=True, eq=False)
class Predictions:
    """``predicted`` (n,), -1 = unknown, and ``scores`` (n,) of the test rows; ``id_predicted``, ``id_scores`` of the
    held-out source rows."""

    predicted: np.ndarray
    scores: np.ndarray
    id_predicted: np.ndarray
    id_scores: np.ndarray


def _estimator(name: str, **params: Any) -> Callable[[Any], Predictions]:
    """An estimator of `wildspec.embeddings`."""

    def run(task: Any) -> Predictions:
        from wildspec import embeddings

        model = getattr(embeddings, name)(**params)
        if "random_state" in model.get_params():
            model.set_params(random_state=task.seed)
        model.fit(task.labelled, task.labels, task.wild)
        own = getattr(model, "transduction_", None)
        predicted = own if task.transductive and own is not None else model.predict(task.test)
        return Predictions(predicted, model.ood_score(task.test), model.predict(task.id_test), model.ood_score(task.id_test))

    return run


def _source_only(score: Callable[[np.ndarray, Any], np.ndarray]) -> Callable[[Any], Predictions]:
    """Logistic regression on four fifths of the labelled rows; the conformal threshold of the others' scores."""

    def run(task: Any) -> Predictions:
        parts, rows = holdout(task.labels, 0.2, task.seed), unit_rows(task.labelled)
        model = logistic_regression().fit(rows[parts["train"]], task.labels[parts["train"]])
        limit = calibrate(score(rows[parts["holdout"]], model), ALPHA).threshold
        told = []
        for asked in (unit_rows(task.test), unit_rows(task.id_test)):
            scores = score(asked, model)
            told += [np.where(scores > limit, -1, model.predict(asked)), scores]
        return Predictions(*told)

    return run


SYSTEMS: dict[str, RowMethod] = {
    "spectral": RowMethod("SpectralClassifier", _estimator("SpectralClassifier"), wild=True, ours=True),
    "daod": RowMethod("DAOD", _estimator("DAOD"), wild=True),
    "oslpp": RowMethod("OSLPP", _estimator("OSLPP"), wild=True),
    "oslpp-centred": RowMethod("OSLPP, centred", _estimator("OSLPP", center=True), wild=True),
    "ovanet": RowMethod("OVANet, heads only", _estimator("OVANet"), wild=True),
    "osnn": RowMethod("OSNN", _estimator("OSNN")),
    "osnn-means": RowMethod("OSNN, class means", _estimator("OSNN", reference="means")),
    "lr-msp": RowMethod("logistic regression, max. probability", _source_only(max_probability)),
    "lr-energy": RowMethod("logistic regression, energy", _source_only(energy)),
}
