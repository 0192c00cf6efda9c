"""The rows of `wildspec bench pacs-open-set`: systems that name known classes and reject, each by its own decision.

A system gets the labelled source rows and the wild pool of a task, and tells of the test rows: the class or -1, and a score
(high = unknown); of the held-out source rows the same. Where the test rows are the pool itself, systems that decide about
their pool (``transduction_``) are asked for that. No system sees a label of the target.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wildspec.evaluation import calibrate
from wildspec.graph.search import unit_rows

ALPHA = 0.05  # of the conformal threshold of the rows that have none of their own


@dataclass(frozen=True, eq=False)
class Predictions:
    """``predicted`` (n,), -1 = unknown, and ``scores`` (n,) of the test rows; ``id_predicted``, ``id_scores`` of the
    held-out source rows."""

    predicted: np.ndarray
    scores: np.ndarray
    id_predicted: np.ndarray
    id_scores: np.ndarray


@dataclass(frozen=True)
class System:
    """``wild``: whether it learns from the pool; ``ours``: not a rival."""

    title: str
    run: Callable[[Any], Predictions]
    wild: bool = True
    ours: bool = False


def _estimator(make: Callable[[int], Any]) -> Callable[[Any], Predictions]:
    def run(task: Any) -> Predictions:
        model = make(task.seed).fit(task.labelled, task.labels, task.wild)
        own = getattr(model, "transduction_", None)
        predicted = own if task.transductive and own is not None else model.predict(task.test)
        return Predictions(predicted, model.ood_score(task.test), model.predict(task.id_test), model.ood_score(task.id_test))

    return run


def _daod(seed: int) -> Any:
    from wildspec.embeddings import DAOD

    return DAOD(random_state=seed)


def _oslpp(**params: Any) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from wildspec.embeddings import OSLPP

        return OSLPP(**params)

    return make


def _osnn(**params: Any) -> Callable[[int], Any]:
    def make(seed: int) -> Any:
        from wildspec.embeddings import OSNN

        return OSNN(**params)

    return make


def _ovanet(seed: int) -> Any:
    from wildspec.embeddings import OVANet

    return OVANet(random_state=seed)


def _spectral(seed: int) -> Any:
    from wildspec.embeddings import SpectralClassifier

    return SpectralClassifier(random_state=seed)


def _source_only(score: Callable[[Any, np.ndarray], np.ndarray]) -> Callable[[Any], Predictions]:
    """Logistic regression on four fifths of the labelled rows; the conformal threshold of the others' scores."""

    def run(task: Any) -> Predictions:
        from sklearn.linear_model import LogisticRegression

        from wildspec.data.splits import holdout

        split = holdout(task.labels, 0.2, task.seed)
        rows = unit_rows(task.labelled)
        model = LogisticRegression(C=10.0, max_iter=300).fit(rows[split["train"]], task.labels[split["train"]])
        limit = calibrate(score(model, rows[split["holdout"]]), ALPHA).threshold
        told = []
        for asked in (unit_rows(task.test), unit_rows(task.id_test)):
            scores = score(model, asked)
            told += [np.where(scores > limit, -1, model.predict(asked)), scores]
        return Predictions(*told)

    return run


def _max_probability(model: Any, rows: np.ndarray) -> np.ndarray:
    return np.asarray(1 - model.predict_proba(rows).max(axis=1))


def _energy(model: Any, rows: np.ndarray) -> np.ndarray:
    return np.asarray(-np.logaddexp.reduce(model.decision_function(rows), axis=1))


SYSTEMS: dict[str, System] = {
    "spectral": System("SpectralClassifier", _estimator(_spectral), ours=True),
    "daod": System("DAOD", _estimator(_daod)),
    "oslpp": System("OSLPP", _estimator(_oslpp())),
    "oslpp-centred": System("OSLPP, centred", _estimator(_oslpp(center=True))),
    "ovanet": System("OVANet, heads only", _estimator(_ovanet)),
    "osnn": System("OSNN", _estimator(_osnn()), wild=False),
    "osnn-means": System("OSNN, class means", _estimator(_osnn(reference="means")), wild=False),
    "lr-msp": System("logistic regression, max. probability", _source_only(_max_probability), wild=False),
    "lr-energy": System("logistic regression, energy", _source_only(_energy), wild=False),
}
