"""What the embeddings route is compared with: classifiers and detectors on the embeddings as they are.

Rows are scaled to length 1 for all of them. A classifier's score is 1 - its largest probability unless said otherwise; a
detector's classes come from logistic regression. scikit-learn's defaults are kept where there is no reason to change them.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from wildspec.checks import choice

Three = tuple[np.ndarray, np.ndarray, np.ndarray]  # ID, covariate, semantic test samples


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
    run: Callable[[Any], Answer]
    wild: bool = False
    ours: bool = False


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1."""
    from wildspec.graph.search import unit_rows as scaled  # scipy comes with it: tables of results need none

    return scaled(rows)


def _rows(task: Any) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    return unit_rows(task.labelled), unit_rows(task.wild), [unit_rows(rows) for rows in task.tests]


@lru_cache(maxsize=1)
def logistic(task: Any) -> Any:
    """Logistic regression on the labelled samples, with the regularization that our own probe has; fitted once a task."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=10.0, max_iter=300).fit(unit_rows(task.labelled), task.labels)


def _classified(task: Any, scores: Callable[[np.ndarray, Any], np.ndarray]) -> Answer:
    model = logistic(task)
    tests = _rows(task)[2]
    return Answer(_three(scores(rows, model) for rows in tests), _three(model.predict(rows) for rows in tests))


def max_probability(task: Any) -> Answer:
    return _classified(task, lambda rows, model: 1 - model.predict_proba(rows).max(axis=1))


def energy(task: Any) -> Answer:
    return _classified(task, lambda rows, model: -np.logaddexp.reduce(model.decision_function(rows), axis=1))


def _by_model(model: Any, semi: bool = False) -> Callable[[Any], Answer]:
    def answer(task: Any) -> Answer:
        from sklearn.base import clone

        labelled, wild, tests = _rows(task)
        rows, y = labelled, task.labels
        if semi:
            rows, y = np.concatenate([labelled, wild]), np.concatenate([task.labels, np.full(len(wild), -1)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # label propagation warns when it stops at its iteration limit
            fitted = clone(model()).fit(rows, y)
            found = [np.nan_to_num(fitted.predict_proba(each)) for each in tests]  # 0 / 0 where no label arrives
        return Answer(
            _three(1 - each.max(axis=1) for each in found), _three(fitted.classes_[each.argmax(axis=1)] for each in found)
        )

    return answer


def _knn_classifier() -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(10)


def _spreading(kernel: str) -> Callable[[], Any]:
    def make() -> Any:
        from sklearn.semi_supervised import LabelSpreading

        return LabelSpreading(kernel=kernel, max_iter=200)

    return make


def _propagation(kernel: str) -> Callable[[], Any]:
    def make() -> Any:
        from sklearn.semi_supervised import LabelPropagation

        return LabelPropagation(kernel=kernel, max_iter=1000)

    return make


def _self_training() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import SelfTrainingClassifier

    return SelfTrainingClassifier(LogisticRegression(C=10.0, max_iter=300))


def _by_detector(make: Callable[[], Any]) -> Callable[[Any], Answer]:
    """A detector of `wildspec.detectors` on the labelled rows; logits and head are those of logistic regression."""

    def answer(task: Any) -> Answer:
        import torch
        from torch import nn

        model = logistic(task)
        head = nn.Linear(task.labelled.shape[1], len(model.classes_))
        with torch.no_grad():
            head.weight.copy_(torch.from_numpy(model.coef_))
            head.bias.copy_(torch.from_numpy(model.intercept_))
        network = nn.Module()
        network.head = head
        labelled, _, tests = _rows(task)
        detector = make().fit(
            features=torch.from_numpy(labelled), labels=torch.from_numpy(task.labels), model=network,
            logits=torch.from_numpy(model.decision_function(labelled)).float(),
        )  # fmt: skip
        scores = _three(
            detector.score(
                features=torch.from_numpy(rows), logits=torch.from_numpy(model.decision_function(rows)).float()
            ).numpy()
            for rows in tests
        )
        return Answer(scores, _three(model.predict(rows) for rows in tests))

    return answer


def _knn(k: int) -> Callable[[], Any]:
    def make() -> Any:
        from wildspec.detectors import build_detector

        return build_detector("knn", k=k)

    return make


def _named(name: str) -> Callable[[], Any]:
    def make() -> Any:
        from wildspec.detectors import build_detector

        return build_detector(name)

    return make


def _by_novelty(make: Callable[[], Any]) -> Callable[[Any], Answer]:
    """A scikit-learn novelty detector: ``score_samples`` is high for inliers."""

    def answer(task: Any) -> Answer:
        fitted = make().fit(unit_rows(task.labelled))
        return _classified(task, lambda rows, model: -fitted.score_samples(rows))

    return answer


def _one_class_svm() -> Any:
    from sklearn.svm import OneClassSVM

    return OneClassSVM(nu=0.05)


def _isolation_forest() -> Any:
    from sklearn.ensemble import IsolationForest

    return IsolationForest(random_state=0)


def pca_knn(task: Any) -> Answer:
    """64 principal components of the labelled rows, then the distance to the 10th nearest, in cosine."""
    from sklearn.decomposition import PCA

    from wildspec.graph.search import NeighborIndex

    labelled = unit_rows(task.labelled)
    reduction = PCA(min(64, *labelled.shape), random_state=0).fit(labelled)
    index = NeighborIndex(reduction.transform(labelled))
    return _classified(task, lambda rows, model: index.search(reduction.transform(rows), 10)[0][:, -1])


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
    """A method of ``METHODS``, or "spectral:PARAMETER=VALUE+..." for `SpectralClassifier` with parameters changed."""
    if not name.startswith("spectral:"):
        return METHODS[choice("method", name, METHODS)]
    from wildspec.training.recipe import parse_changes

    changes = parse_changes(name.removeprefix("spectral:").split("+"))
    title = ", ".join(f"{key} = {value}" for key, value in changes.items())
    return RowMethod(title, spectral(**changes), wild=True, ours=True)


METHODS: dict[str, RowMethod] = {
    "spectral": RowMethod("SpectralClassifier", spectral(), wild=True, ours=True),
    "lr": RowMethod("logistic regression, max. probability", max_probability),
    "lr-energy": RowMethod("logistic regression, energy", energy),
    "knn-classifier": RowMethod("KNN classifier (10)", _by_model(_knn_classifier)),
    "label-spreading-knn": RowMethod("LabelSpreading, knn", _by_model(_spreading("knn"), semi=True), wild=True),
    "label-spreading-rbf": RowMethod("LabelSpreading, rbf", _by_model(_spreading("rbf"), semi=True), wild=True),
    "label-propagation-knn": RowMethod("LabelPropagation, knn", _by_model(_propagation("knn"), semi=True), wild=True),
    "label-propagation-rbf": RowMethod("LabelPropagation, rbf", _by_model(_propagation("rbf"), semi=True), wild=True),
    "self-training": RowMethod("self-training, logistic regression", _by_model(_self_training, semi=True), wild=True),
    "one-class-svm": RowMethod("one-class SVM", _by_novelty(_one_class_svm)),
    "isolation-forest": RowMethod("Isolation Forest", _by_novelty(_isolation_forest)),
    "mahalanobis": RowMethod("Mahalanobis", _by_detector(_named("mahalanobis"))),
    "knn-1": RowMethod("KNN detector, k = 1", _by_detector(_knn(1))),
    "knn-10": RowMethod("KNN detector, k = 10", _by_detector(_knn(10))),
    "knn-50": RowMethod("KNN detector, k = 50", _by_detector(_knn(50))),
    "vim": RowMethod("ViM", _by_detector(_named("vim"))),
    "pca-knn": RowMethod("PCA (64) + KNN (10)", pca_knn),
}
