"""Hyper-parameters chosen by the paper's rule: ID validation accuracy, with unlabelled wild data and no OOD label.

Part of the labelled samples is kept out; the model is learned from the rest and the wild pool; the validation samples are
then classified by the path that shifted samples take: extended into the wild graph, denoised, and put to the probe that
learned from attributed wild samples. A graph that blurs the classes, or an attribution that went wrong, shows there, while
the plain probe on clean samples would not notice. The first setting with the highest accuracy wins.

Samples held out for calibration are not used: the promise of the threshold needs samples that nothing was chosen by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from wildspec.embeddings.classifier import SpectralClassifier
from wildspec.embeddings.joint import JointSettings, fit_joint
from wildspec.errors import InputError
from wildspec.graph.search import Rows

Labels = NDArray[np.int64]
GRID: list[dict[str, Sequence[Any]]] = [  # defaults first: they win ties
    {"n_neighbors": (10, 5, 20), "n_components": (None, 8, 32)},  # None: by the number of classes
    {"eta_l": (0.0, 0.2)},
]
SHARE = 0.25  # of the labelled samples, for validation


def validation_accuracy(
    labelled: Rows, labels: Labels, wild: Rows, n_classes: int, settings: JointSettings, *, seed: int = 0
) -> float:
    """Share of validation samples (prepared rows) that the path of shifted samples classifies rightly."""
    train, held = _split(labels, np.random.default_rng(seed))
    if not len(held):
        raise InputError("choosing by validation needs a class with at least 2 labelled samples; set tune=False")
    model = fit_joint(labelled[train], labels[train], wild, n_classes, settings)
    rows = labelled[held]
    if model.wild is None:
        probabilities = model.probe.probabilities(rows)
    else:
        aligned = model.wild.shift.align(rows, np.zeros(len(rows)))
        probabilities = model.wild.probe.probabilities(model.wild.graph.denoise(aligned))
    return float((probabilities.argmax(axis=1) == labels[held]).mean())


def tuned(labelled: Rows, labels: Labels, wild: Rows, n_classes: int, settings: JointSettings) -> JointSettings:
    """The settings of ``GRID`` that validate best."""
    candidates = [settings]  # what the user asked for wins ties
    for chosen in ParameterGrid(GRID):
        given = {name: value for name, value in chosen.items() if value is not None}
        candidates.append(replace(settings, graph=replace(settings.graph, **given)))
    scores = [validation_accuracy(labelled, labels, wild, n_classes, each, seed=settings.seed) for each in candidates]
    return candidates[int(np.argmax(scores))]


class SpectralClassifierCV(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator):
    """A `SpectralClassifier` whose parameters are chosen by ID validation accuracy.

    estimator: the classifier to start from. param_grid: parameter -> values to try, or a list of such; default ``GRID``.
    repeats: validation splits that the accuracy is averaged over.

    Learned: ``best_params_``, ``best_score_``, ``results_`` (one dict per setting), ``best_estimator_``, which answers.
    """

    def __init__(
        self,
        estimator: SpectralClassifier | None = None,
        *,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]] | None = None,
        repeats: int = 1,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.repeats = repeats

    def fit(self, X: Any, y: Any, X_wild: Any = None) -> "SpectralClassifierCV":
        """Try every setting, then fit the best one to everything."""
        base = SpectralClassifier() if self.estimator is None else self.estimator
        grid = list(ParameterGrid(GRID if self.param_grid is None else self.param_grid))
        if not grid:
            raise InputError("param_grid must hold at least one setting to try, got none")
        self.results_ = []
        for params in grid:
            candidate = clone(base).set_params(**params, tune=False)
            scores = candidate.validate(X, y, X_wild, repeats=self.repeats)
            self.results_.append({"params": params, "mean": float(np.mean(scores)), "scores": scores})
        best = int(np.argmax([entry["mean"] for entry in self.results_]))
        self.best_params_, self.best_score_ = grid[best], self.results_[best]["mean"]
        self.best_estimator_ = clone(base).set_params(**self.best_params_, tune=False).fit(X, y, X_wild)
        self.classes_, self.n_features_in_ = self.best_estimator_.classes_, self.best_estimator_.n_features_in_
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
        return self

    def _best(self) -> SpectralClassifier:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def predict(self, X: Any) -> NDArray[Any]:
        """As `SpectralClassifier.predict`."""
        return self._best().predict(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """As `SpectralClassifier.predict_proba`."""
        return self._best().predict_proba(X)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """As `SpectralClassifier.decision_function`."""
        return self._best().decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """As `SpectralClassifier.score`."""
        return self._best().score(X, y, sample_weight)

    def save(self, path: str | PathLike[str]) -> None:
        """As `SpectralClassifier.save`: the best estimator as a bundle."""
        self._best().save(path)

    def ood_score(self, X: Any) -> NDArray[np.float64]:
        """As `SpectralClassifier.ood_score`."""
        return self._best().ood_score(X)

    def p_value(self, X: Any) -> NDArray[np.float64]:
        """As `SpectralClassifier.p_value`."""
        return self._best().p_value(X)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """As `SpectralClassifier.transform`."""
        return self._best().transform(X)

    def explain(self, X: Any, neighbours: int = 5) -> list[Any]:
        """As `SpectralClassifier.explain`."""
        return self._best().explain(X, neighbours)

    @property
    def _n_features_out(self) -> int:
        return self._best()._n_features_out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _split(labels: Labels, rng: np.random.Generator) -> tuple[Labels, Labels]:
    """Train and validation rows, about SHARE of each class for validation; a class of one sample stays in training."""
    held = []
    for c in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == c))
        if len(members) > 1:
            held.append(members[: min(max(round(SHARE * len(members)), 1), len(members) - 1)])
    validation = np.sort(np.concatenate(held)) if held else np.empty(0, np.int64)
    return np.setdiff1d(np.arange(len(labels)), validation), validation
