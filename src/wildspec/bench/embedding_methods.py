"""What the embeddings route is compared with: classifiers and detectors on the embeddings as they are.

Rows are scaled to length 1 for all of them. A classifier's score is 1 - its largest probability unless said otherwise; a
detector's classes come from logistic regression. scikit-learn's defaults are kept where there is no reason to change them.
It is imported when a method is run: tables of results need no more than the titles.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from wildspec.checks import choice
from wildspec.graph.search import NeighborIndex, unit_rows

Three = tuple[np.ndarray, np.ndarray, np.ndarray]  # ID, covariate, semantic test samples
Rows = np.ndarray  # (n, d)


@dataclass(frozen=True)
class Answer:
    """Scores (high = OOD) and classes of the three test sets; ``kept``: the method's own decision, where it has one."""

    scores: Three
    predictions: Three
    kept: Three | None = None


@dataclass(frozen=True)
class RowMethod:
    """``wild``: whether it uses the wild pool; ``ours``: not a baseline."""

    title: str
    run: Callable[[Any], Any]
    wild: bool = False
    ours: bool = False


def from_sklearn(place: str, **params: Any) -> Any:
    """An estimator by its place below scikit-learn."""
    module, _, name = place.rpartition(".")
    return getattr(import_module(f"sklearn.{module}"), name)(**params)


def logistic_regression() -> Any:
    """Not fitted; with the regularization that our own probe has."""
    return from_sklearn("linear_model.LogisticRegression", C=10.0, max_iter=300)


@lru_cache(maxsize=1)
def _fitted(task: Any) -> Any:
    """Logistic regression on the labelled samples, fitted once a task."""
    return logistic_regression().fit(unit_rows(task.labelled), task.labels)


def max_probability(rows: Rows, model: Any) -> np.ndarray:
    return np.asarray(1 - model.predict_proba(rows).max(axis=1))


def energy(rows: Rows, model: Any) -> np.ndarray:
    return np.asarray(-np.logaddexp.reduce(logits(rows, model), axis=1))


def head(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """(C, d), (C,) of logistic regression. For two classes it has one logit z, their difference: they get -z/2 and z/2."""
    if len(model.classes_) == 2:
        return model.coef_ * [[-0.5], [0.5]], model.intercept_ * [-0.5, 0.5]
    return model.coef_, model.intercept_


def logits(rows: Rows, model: Any) -> np.ndarray:
    """(n, C)"""
    weight, offset = head(model)
    return np.asarray(rows @ weight.T + offset)


def _scored(task: Any, score: Callable[[Rows, Any], np.ndarray]) -> Answer:
    """Classes by logistic regression, scores by a function of the rows and of that model."""
    model, tests = _fitted(task), [unit_rows(rows) for rows in task.tests]
    return Answer(_three(score(rows, model) for rows in tests), _three(model.predict(rows) for rows in tests))


def _by_logistic(score: Callable[[Rows, Any], np.ndarray]) -> Callable[[Any], Answer]:
    return lambda task: _scored(task, score)


def _by_classifier(place: str, semi: bool = False, **params: Any) -> Callable[[Any], Answer]:
    """A classifier of scikit-learn; ``semi``: it learns from the wild pool, too, as samples of class -1."""

    def answer(task: Any) -> Answer:
        rows, y = unit_rows(task.labelled), task.labels
        if semi:
            rows, y = np.concatenate([rows, unit_rows(task.wild)]), np.concatenate([y, np.full(len(task.wild), -1)])
        given = {"estimator": logistic_regression()} if place.endswith("SelfTrainingClassifier") else params
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # label propagation warns when it stops at its iteration limit
            model = from_sklearn(place, **given).fit(rows, y)
            found = [np.nan_to_num(model.predict_proba(unit_rows(each))) for each in task.tests]  # 0 / 0: no label arrives
        return Answer(
            _three(1 - each.max(axis=1) for each in found), _three(model.classes_[each.argmax(axis=1)] for each in found)
        )

    return answer


def _by_novelty(place: str, **params: Any) -> Callable[[Any], Answer]:
    """A novelty detector of scikit-learn: ``score_samples`` is high for inliers."""

    def answer(task: Any) -> Answer:
        fitted = from_sklearn(place, **params).fit(unit_rows(task.labelled))
        return _scored(task, lambda rows, model: -fitted.score_samples(rows))

    return answer


def _by_detector(name: str, **params: Any) -> Callable[[Any], Answer]:
    """A detector of `wildspec.detectors` on the labelled rows; logits and head are those of logistic regression."""

    def answer(task: Any) -> Answer:
        import torch
        from torch import nn

        from wildspec.detectors import build_detector

        model, labelled = _fitted(task), unit_rows(task.labelled)
        network = nn.Module()
        network.head = nn.Linear(labelled.shape[1], len(model.classes_))
        with torch.no_grad():
            for own, learned in zip(network.head.parameters(), head(model), strict=True):
                own.copy_(torch.from_numpy(learned))

        def seen(rows: Rows) -> dict[str, Any]:
            return {"features": torch.from_numpy(rows), "logits": torch.from_numpy(logits(rows, model)).float()}

        detector = build_detector(name, **params)
        detector.fit(labels=torch.from_numpy(task.labels), model=network, **seen(labelled))
        return _scored(task, lambda rows, model: detector.score(**seen(rows)).numpy())

    return answer


def pca_knn(task: Any) -> Answer:
    """64 principal components of the labelled rows, then the distance to the 10th nearest, in cosine."""
    labelled = unit_rows(task.labelled)
    reduction = from_sklearn("decomposition.PCA", n_components=min(64, *labelled.shape), random_state=0).fit(labelled)
    index = NeighborIndex(reduction.transform(labelled))
    return _scored(task, lambda rows, model: index.search(reduction.transform(rows), 10)[0][:, -1])


def spectral(**params: Any) -> Callable[[Any], Answer]:
    """`SpectralClassifier` as it comes, or with parameters changed."""

    def answer(task: Any) -> Answer:
        from wildspec.embeddings.classifier import SpectralClassifier

        model = SpectralClassifier(random_state=task.seed, **params).fit(task.labelled, task.labels, task.wild)
        likely = _three(model.classes_[model.predict_proba(rows).argmax(axis=1)] for rows in task.tests)
        kept = _three(model.predict(rows) != -1 for rows in task.tests)
        return Answer(_three(model.ood_score(rows) for rows in task.tests), likely, kept)

    return answer


def _three(parts: Any) -> Three:
    first, second, third = (np.asarray(part) for part in parts)
    return first, second, third


def method(name: str) -> RowMethod:
    """A method of ``METHODS``."""
    return METHODS[choice("method", name, METHODS)]


def _semi(title: str, name: str, **params: Any) -> RowMethod:
    return RowMethod(title, _by_classifier(f"semi_supervised.{name}", semi=True, **params), wild=True)


METHODS: dict[str, RowMethod] = {
    "spectral": RowMethod("SpectralClassifier", spectral(), wild=True, ours=True),
    "lr": RowMethod("logistic regression, max. probability", _by_logistic(max_probability)),
    "lr-energy": RowMethod("logistic regression, energy", _by_logistic(energy)),
    "knn-classifier": RowMethod("KNN classifier (10)", _by_classifier("neighbors.KNeighborsClassifier", n_neighbors=10)),
    "label-spreading-knn": _semi("LabelSpreading, knn", "LabelSpreading", kernel="knn", max_iter=200),
    "label-spreading-rbf": _semi("LabelSpreading, rbf", "LabelSpreading", kernel="rbf", max_iter=200),
    "label-propagation-knn": _semi("LabelPropagation, knn", "LabelPropagation", kernel="knn", max_iter=1000),
    "label-propagation-rbf": _semi("LabelPropagation, rbf", "LabelPropagation", kernel="rbf", max_iter=1000),
    "self-training": _semi("self-training, logistic regression", "SelfTrainingClassifier"),
    "one-class-svm": RowMethod("one-class SVM", _by_novelty("svm.OneClassSVM", nu=0.05)),
    "isolation-forest": RowMethod("Isolation Forest", _by_novelty("ensemble.IsolationForest", random_state=0)),
    "mahalanobis": RowMethod("Mahalanobis", _by_detector("mahalanobis")),
    "knn-1": RowMethod("KNN detector, k = 1", _by_detector("knn", k=1)),
    "knn-10": RowMethod("KNN detector, k = 10", _by_detector("knn", k=10)),
    "knn-50": RowMethod("KNN detector, k = 50", _by_detector("knn", k=50)),
    "vim": RowMethod("ViM", _by_detector("vim")),
    "pca-knn": RowMethod("PCA (64) + KNN (10)", pca_knn),
}
