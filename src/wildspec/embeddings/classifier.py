"""``SpectralClassifier``: embeddings in, a classifier that knows when to refuse out. No training, seconds on a CPU."""

import warnings
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from wildspec.checks import choice, fraction, integer, non_negative, open_fraction, positive
from wildspec.embeddings.joint import Decided, JointModel, JointSettings, aligned_shifted, fit_joint, refit_wild
from wildspec.embeddings.linear import check_classifier
from wildspec.embeddings.rows import (
    accuracy,
    as_seed,
    check_rows,
    check_wild,
    held_out_rows,
    split_labels,
    warn_of_zeros,
    wild_rows,
    with_rejected,
)
from wildspec.embeddings.thresholds import Thresholds, learn_thresholds
from wildspec.embeddings.wild_graph import GraphSettings, grow
from wildspec.errors import InputError
from wildspec.graph.search import METRICS, Rows, far_from_origin, unit_rows

FEWEST, MOST = 16, 128  # eigenvectors, where n_components is None
NO_WILD = (
    "no wild samples were given: nothing is learned about shifted or unknown samples, and shifted samples of known classes "
    "will be rejected more often; mark wild samples with y = -1 or pass X_wild"
)
FEW = (
    "{held} labelled samples for calibration cannot promise alpha = {alpha:g} (that needs {needed}): nothing will be "
    "rejected; give more labelled samples or a larger alpha"
)


class SpectralClassifier(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator):
    """Classify embeddings of known classes, under conditions without labels too, and reject what is none of them.

    n_components: leading eigenvectors of the wild graph that are kept; None: twice the known classes, 16 to 128.
    n_neighbors: k of the graph, the sample counted.
    eta_u, eta_l: weights of the self-supervised and the supervised edges (eq. 3); supervised edges join wild samples
    attributed to one class. diffusion_time: how far features run along the edges. metric: "cosine" or "euclidean".
    classifier: "auto" (logistic regression) or a scikit-learn classifier with ``predict_proba``. detector: "knn", the joint
    decision of `wildspec.embeddings.joint`. alpha: share of in-distribution samples that may be rejected by mistake.
    threshold: "joint" also keeps shifted samples of known classes; "id" rejects whatever is unlike the labelled samples
    (`wildspec.embeddings.thresholds`).
    held_out: share of the labelled samples kept aside for calibration where a shift is found. attribute, rounds: how
    much of the shifted wild pool is attributed to known classes, how often. mutual: mutual neighbours only. search:
    "auto", "exact", "ivf", "hnsw". max_bank: samples that a decision compares with at most. engine: "auto", "local", or
    "ray" (extra [ray]).
    random_state: seed.

    Learned: ``classes_``, ``threshold_`` (the calibrated one), ``shifted_threshold_`` (of shifted samples, an estimate),
    ``calibration_`` (None where too few samples were there for it), ``model_``, ``n_wild_``, ``shifted_share_`` and
    ``unknown_share_`` (estimated shares of shifted samples, and of samples of no known class, in the wild pool; where no
    shift was found the first is 0 and the second counts all that are unlike the labelled samples), ``recall_`` of the
    neighbour search.
    """

    def __init__(
        self,
        n_components: int | None = None,
        n_neighbors: int = 10,
        *,
        eta_u: float = 1.0,
        eta_l: float = 0.05,
        diffusion_time: float = 1.0,
        metric: str = "cosine",
        classifier: Any = "auto",
        detector: str = "knn",
        alpha: float = 0.05,
        threshold: str = "joint",
        held_out: float = 0.2,
        attribute: float = 1 / 3,
        rounds: int = 2,
        mutual: bool = False,
        search: str = "auto",
        max_bank: int = 20_000,
        engine: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.eta_u = eta_u
        self.eta_l = eta_l
        self.diffusion_time = diffusion_time
        self.metric = metric
        self.classifier = classifier
        self.detector = detector
        self.alpha = alpha
        self.threshold = threshold
        self.held_out = held_out
        self.attribute = attribute
        self.rounds = rounds
        self.mutual = mutual
        self.search = search
        self.max_bank = max_bank
        self.engine = engine
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------------------------------
    def fit(self, X: Any, y: Any, X_wild: Any = None) -> "SpectralClassifier":
        """Learn from embeddings X (n, d) with classes y, -1 = wild; ``X_wild`` (m, d) are further wild samples.

        Labels of wild samples are never looked at. Without wild samples the model still works; a warning says what is lost.
        """
        settings, places, labelled, labels, pool = self._read(X, y, X_wild)
        rng = np.random.default_rng(self._seed)
        held = held_out_rows(labels, self.held_out, rng)
        kept = np.setdiff1d(np.arange(len(labels)), held)
        if not len(pool):
            warnings.warn(NO_WILD, UserWarning, stacklevel=2)
        aside = (labelled[held], labels[held])
        model = fit_joint(labelled[kept], labels[kept], pool, len(self.classes_), settings, aside)
        if model.wild is None:  # distances to labelled samples alone: calibrated without holding any out (`thresholds`)
            model = fit_joint(labelled, labels, pool[:0], len(self.classes_), settings)
            kept, held = np.arange(len(labels)), held[:0]
        self.n_wild_ = len(pool)
        self._rows = places[kept]
        self._held_rows = labelled[held]
        self._take(model, pool)
        return self

    def _read(
        self, X: Any, y: Any, X_wild: Any
    ) -> tuple[JointSettings, NDArray[np.int64], Rows, NDArray[np.int64], Rows]:
        """Settings; places in X, prepared rows and class numbers of the labelled samples; prepared wild rows."""
        settings = self._settings()
        self._seed = as_seed(self.random_state)
        settings = replace(settings, seed=self._seed, graph=replace(settings.graph, seed=self._seed))
        rows = check_rows(self, X, reset=True)
        wild, self.classes_, numbers = split_labels(y, len(rows))
        if self.n_components is None:  # a class needs an eigenvector, and nobody knows how many unknown ones there are
            count = min(max(FEWEST, 2 * len(self.classes_)), MOST)
            settings = replace(settings, graph=replace(settings.graph, n_components=count))
        extra = check_wild([] if X_wild is None else X_wild, self)
        self._centre, self._scale = np.zeros(rows.shape[1], np.float32), 1.0
        if self.metric == "euclidean":  # lengths about 1, and no origin so far away that all rows look alike
            known = rows[~wild]  # alone: wild samples may stand among X or apart from it
            if far_from_origin(known):
                self._centre = known.mean(axis=0, dtype=np.float64).astype(np.float32)
            near = known - self._centre
            self._scale = float(np.sqrt(np.einsum("ij,ij->", near, near, dtype=np.float64) / len(near))) or 1.0
        labelled = np.flatnonzero(~wild)
        if self.metric == "cosine":
            warn_of_zeros(rows, labelled)
        pool = np.concatenate([self._prepare(rows[wild]), self._prepare(extra)])
        return settings, labelled, self._prepare(rows[~wild]), numbers[labelled], pool

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> "SpectralClassifier":
        """Add wild samples without starting over; the first call is a ``fit`` and needs labelled samples.

        The shift, the probe on labelled samples and the held-out samples stay; the graph takes the new samples in and is
        solved again from its old solution; attribution, ranks and thresholds are learned again. Labelled samples cannot be
        added: calibration needs samples that nothing was learned from.
        """
        if not hasattr(self, "model_"):
            return self.fit(X, y)
        rows = check_rows(self, X, reset=False)
        if y is not None and not wild_rows(y).all():
            raise InputError("partial_fit adds wild samples only (y = -1 or None); call fit to add labelled ones")
        if self.model_.wild is None:
            raise InputError("the model was fitted without shifted wild samples and has no graph to grow; call fit instead")
        new, _ = aligned_shifted(self.model_.wild.shift, self._prepare(rows))
        self.n_wild_ += len(rows)
        if len(new):
            self._take(refit_wild(self.model_, grow(self.model_.wild.graph, new)))
        return self

    def _take(self, model: JointModel, pool: Rows | None = None) -> None:
        self.model_ = model
        self._decide_with(learn_thresholds(model, self._held_rows, float(self.alpha), self.threshold, pool))

    def _decide_with(self, thresholds: Thresholds, *, warn: bool = True) -> None:
        self._thresholds = thresholds
        self.threshold_ = thresholds.value
        self.shifted_threshold_ = thresholds.shifted
        self.calibration_ = thresholds.calibration
        wild = self.model_.wild
        self.shifted_share_ = 0.0 if wild is None else wild.shift.share
        self.unknown_share_ = thresholds.unknown * (1.0 if wild is None else wild.shift.share)
        self.recall_ = 1.0 if wild is None else wild.graph.neighbors.recall
        if warn and thresholds.calibration is None:
            text = FEW.format(held=thresholds.held, alpha=self.alpha, needed=thresholds.needed)
            warnings.warn(text, UserWarning, stacklevel=4)

    # -- asking --------------------------------------------------------------------------------------------------------
    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) classes, -1 = rejected (an object array where classes are names and something was rejected)."""
        decided = self._decide(X)
        found = self.classes_[decided.probabilities.argmax(axis=1)]
        return with_rejected(found, self._thresholds.reject(decided))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(n, C) probabilities over the known classes, as if each sample belonged to one of them."""
        return self._decide(X).probabilities

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """(n, C) log-probabilities of the known classes; for two classes (n,), the log-odds of the second."""
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(self._decide(X).probabilities), -745.0)  # the log of the smallest double
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def ood_score(self, X: Any) -> NDArray[np.float64]:
        """(n,) in [0, 1], high = out-of-distribution.

        Above ``threshold_`` a sample is rejected; a shifted one, with threshold="joint", above ``shifted_threshold_``.
        """
        return self._decide(X).score

    def p_value(self, X: Any) -> NDArray[np.float64]:
        """(n,) conformal p-values: of in-distribution samples at most a share a has p <= a."""
        return self._thresholds.p_value(self._decide(X).score)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the samples with a class; a rejected one counts as wrong, wild ones (y = -1) do not count.

        So a grid search over X and y with wild samples among them chooses by accuracy on labelled samples alone.
        """
        return accuracy(self, X, y, sample_weight)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """(n, k) spectral coordinates in the wild graph; without one, the log-probabilities of the classes (n, C)."""
        check_is_fitted(self, "model_")
        rows = self._prepare(check_rows(self, X, reset=False))
        wild = self.model_.wild
        if wild is None:
            return np.log(np.maximum(self.model_.naming.probabilities(rows), 1e-300))
        return wild.graph.coordinates(wild.shift.align(rows))

    def explain(self, X: Any, neighbours: int = 5) -> list[Any]:
        """For each sample: the decision, score against threshold, p-value, and the nearest labelled samples.

        Neighbours are named by their row in the X of ``fit``.
        """
        from wildspec.embeddings.explain import explain

        check_is_fitted(self, "model_")
        rows = self._prepare(check_rows(self, X, reset=False))
        return explain(self, rows, integer("neighbours", neighbours, minimum=1))

    # -- keeping -------------------------------------------------------------------------------------------------------
    def save(self, path: str | PathLike[str]) -> None:
        """Write a bundle (safetensors and JSON); `wildspec.load` reads it."""
        from wildspec.embeddings.state import write

        check_is_fitted(self, "model_")
        write(self, path)

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and a JSON record from which ``from_state`` makes the fitted estimator again."""
        from wildspec.embeddings.state import to_state

        check_is_fitted(self, "model_")
        return to_state(self)

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], record: dict[str, Any]) -> "SpectralClassifier":
        """The fitted estimator that ``to_state`` described."""
        from wildspec.embeddings.state import from_state

        return from_state(cls, arrays, record)

    @classmethod
    def from_bundle(cls, stored: Any, **options: Any) -> "SpectralClassifier":
        """From a verified bundle; ``device`` is accepted and ignored, embeddings are decided on the CPU."""
        from wildspec.embeddings.state import read

        return read(cls, stored)

    # -- inside --------------------------------------------------------------------------------------------------------
    def _decide(self, X: Any) -> Decided:
        check_is_fitted(self, "model_")
        rows = self._prepare(check_rows(self, X, reset=False))
        if self.engine == "ray":
            from wildspec.embeddings.ray_engine import decide

            return decide(self.model_, rows)
        return self.model_.decide(rows)

    def _prepare(self, rows: Rows) -> Rows:
        if self.metric == "cosine":
            return unit_rows(rows)
        return ((rows - self._centre) / np.float32(self._scale)).astype(np.float32)

    def _settings(self) -> JointSettings:
        choice("metric", self.metric, METRICS)
        choice("detector", self.detector, ("knn",))
        choice("engine", self.engine, ("auto", "local", "ray"))
        choice("threshold", self.threshold, ("joint", "id"))
        open_fraction("alpha", self.alpha)
        open_fraction("held_out", self.held_out)
        check_classifier(self.classifier)
        return JointSettings(
            graph=GraphSettings(
                n_components=FEWEST if self.n_components is None else integer("n_components", self.n_components, minimum=1),
                n_neighbors=integer("n_neighbors", self.n_neighbors, minimum=2),
                eta_u=positive("eta_u", self.eta_u),
                eta_l=non_negative("eta_l", self.eta_l),
                time=non_negative("diffusion_time", self.diffusion_time),
                mutual=bool(choice("mutual", self.mutual, (True, False))),
                search=choice("search", self.search, ("auto", "exact", "ivf", "hnsw")),
                engine="ray" if self.engine == "ray" else "local",
            ),
            classifier=self.classifier,
            attribute=fraction("attribute", self.attribute),
            rounds=integer("rounds", self.rounds),
            most=integer("max_bank", self.max_bank, minimum=100),
        )

    @property
    def _n_features_out(self) -> int:
        wild = self.model_.wild
        return len(self.classes_) if wild is None else len(wild.graph.values)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
