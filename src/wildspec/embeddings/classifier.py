"""``SpectralClassifier``: embeddings in, a classifier that knows when to refuse out. No training, seconds on a CPU."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from wildspec.checks import choice, class_names, integer, open_fraction
from wildspec.decision.answers import AnsweredRule
from wildspec.decision.near_copies import warn_of_near_copies
from wildspec.decision.probe import check_classifier
from wildspec.decision.review import Review
from wildspec.decision.rule import SHIFT_CHOICES, Decided, Rule, RuleSettings, fit_rule
from wildspec.decision.temperature import at_temperature
from wildspec.decision.thresholds import Thresholds, learn_temperature, learn_thresholds
from wildspec.decision.verdicts import with_rejected
from wildspec.embeddings.growing import add_samples
from wildspec.embeddings.review import make_review, rows_id, take_review
from wildspec.embeddings.rows import (
    accuracy,
    as_seed,
    check_groups,
    check_rows,
    check_wild,
    copies,
    held_out_rows,
    split_labels,
    warn_of_wild_copies,
    warn_of_zeros,
)
from wildspec.graph.search import METRICS, Rows, far_from_origin, unit_rows
from wildspec.graph.wild_graph import GraphSettings, build_graph

LEAST, MOST = 32, 128  # eigenvectors, where n_components is None
NO_WILD = (
    "no wild samples were given: nothing is learned about shifted or unknown samples, and shifted samples of known classes "
    "will be rejected more often; pass X_wild, or mark wild samples in y with -1 (in a table: label -1, or --wild)"
)
FEW = (
    "{held} labelled samples for calibration cannot promise alpha = {alpha:g} (that needs {needed}): nothing will be "
    "rejected; give more labelled samples or a larger alpha"
)


class SpectralClassifier(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator):
    """Classify embeddings of known classes, under conditions without labels too, and reject what is none of them.

    The rule is `wildspec.decision.rule`: the shift of the wild pool is undone, features are smoothed along the wild graph,
    and a sample is rejected that is far from all labelled ones, between classes, and of high energy.

    Parameters
    ----------
    n_components : int or None
        Leading eigenvectors of the wild graph that are kept; None: twice the known classes, 32 to 128.
    n_neighbors : int
        Neighbours of the graph, the sample counted.
    shift : {"auto", True, False}
        "auto": a shift is undone where its test finds one (``shift_test_``); True: whatever the test says; False: never.
    metric : {"cosine", "euclidean"}
        How rows are compared; "cosine": by their directions.
    classifier : "auto" or estimator
        "auto": logistic regression; or a scikit-learn classifier with ``predict_proba``.
    alpha : float
        Share of in-distribution samples that may be rejected by mistake.
    per_class : bool
        True: alpha is promised for each class that has ceil(1 / alpha) - 1 held-out samples or more, not only for all
        together. The threshold is then the one of the hardest class; fewer unknown samples are rejected.
    held_out : float
        Share of the labelled samples kept aside for calibration.
    search : {"auto", "exact", "ivf", "hnsw"}
        How neighbours are searched for.
    max_bank : int
        Labelled samples that a decision compares with at most.
    engine : {"auto", "local", "ray"}
        Where neighbours are searched for; "ray": on a cluster, with the extra [ray].
    random_state : int, RandomState or None
        Of the split and of what is sampled.

    Attributes
    ----------
    classes_ : ndarray
        The known classes.
    threshold_ : float
        Calibrated: samples like the labelled ones are rejected above it.
    shifted_threshold_ : float
        The same for shifted samples, an estimate; minus infinity where no shift was found.
    shift_test_ : dict
        ``found``, ``p_value``, ``share`` of displaced samples in the wild pool.
    unknown_share_, unknown_interval_ : float, tuple
        Estimated share of samples of no known class in the wild pool.
    calibration_ : Calibration or None
        None where too few samples were there for the promise.
    class_rates_ : list of ClassRate or None
        How often each class is rejected among the held-out samples, with its 95 % interval; None in models of version 0.1.
    temperature_ : float
        Of the probabilities, so that they mean what they say (`wildspec.decision.temperature`).
    n_wild_ : int
        Wild samples that were learned from.
    recall_ : float
        Of the neighbour search.

    Examples
    --------
    >>> import numpy as np
    >>> from wildspec import SpectralClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 8)); y = np.arange(200) % 2; X[:, 0] += 6 * y; X[:, 1] += 6 * (1 - y)
    >>> model = SpectralClassifier(random_state=0).fit(X, y, X_wild=X + 0.1)
    >>> model.predict(X[:2]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        n_components: int | None = None,
        n_neighbors: int = 10,
        *,
        shift: Any = "auto",
        metric: str = "cosine",
        classifier: Any = "auto",
        alpha: float = 0.05,
        per_class: bool = False,
        held_out: float = 0.2,
        search: str = "auto",
        max_bank: int = 20_000,
        engine: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.shift = shift
        self.metric = metric
        self.classifier = classifier
        self.alpha = alpha
        self.per_class = per_class
        self.held_out = held_out
        self.search = search
        self.max_bank = max_bank
        self.engine = engine
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------------------------------
    def fit(self, X: Any, y: Any, X_wild: Any = None, groups: Any = None) -> "SpectralClassifier":
        """Learn from embeddings.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,)
            Classes; -1 = wild. Labels of wild samples are never looked at.
        X_wild : array of shape (m, d), optional
            Further wild samples. Without any the model still works; a warning says what is lost.
        groups : array of shape (n,), optional
            Samples that belong together (frames of one film, crops of one slide) and must not stand on both sides of the
            calibration split. Identical rows are kept together without it.
        """
        rows = check_rows(self, X, reset=True)
        wild, self.classes_, numbers = split_labels(y, len(rows))
        class_names(self.classes_.tolist())
        self._seed = as_seed(self.random_state)
        settings = self._settings(self._seed)
        extra = check_wild([] if X_wild is None else X_wild, self)
        labelled = np.flatnonzero(~wild)
        self._choose_origin(rows[labelled])
        if self.metric == "cosine":
            warn_of_zeros(rows, labelled)
        pool = np.concatenate([self._prepare(rows[wild]), self._prepare(extra)])
        known, labels = self._prepare(rows[labelled]), numbers[labelled]
        given = None if groups is None else check_groups(groups, len(rows), "rows of X")[labelled]
        together = copies(known, given)
        warn_of_near_copies(known, labels, together, "rows")
        held = held_out_rows(labels, self.held_out, np.random.default_rng(self._seed), together)
        kept = np.flatnonzero(~np.isin(together, together[held]))  # copies of a held-out row teach nothing
        if not len(pool):
            warnings.warn(NO_WILD, UserWarning, stacklevel=2)
        warn_of_wild_copies(pool)
        rule = fit_rule(known[kept], labels[kept], pool, len(self.classes_), settings, (known[held], labels[held]))
        self.n_wild_ = len(pool)
        # Rows of X where wild samples are marked there, those of X_wild counted on; else rows of X_wild.
        inside = np.flatnonzero(wild)
        before = len(rows) if len(inside) else 0
        self._wild_rows = np.r_[inside, before + np.arange(len(extra))].astype(np.int64)
        self._rows_seen = before + len(extra)  # those of partial_fit count on
        self._pool = rows_id(rows[wild], extra)
        self._rows, self._held_rows, self._held_labels = labelled[kept], known[held], labels[held]
        self._names: list[str] | None = None  # of rows that came from a table with names, and their thumbnails
        self._pictures: Any = None
        self._take(rule, self._thresholds(rule, apart=groups is not None))
        self.temperature_ = learn_temperature(rule, self._held_rows, self._held_labels, apart=groups is not None)
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> "SpectralClassifier":
        """Add samples without starting over; the first call is a ``fit``.

        Wild samples (y = -1 or None) join the graph, which is solved again from its old solution; labelled ones join those
        that are compared with and learned from, unless they are copies of held-out ones. The shift and the held-out samples
        stay; thresholds are learned again. Questions name new wild samples by their row, counted on from those of ``fit``.
        """
        if not hasattr(self, "model_"):
            return self.fit(X, y)
        add_samples(self, X, y)
        return self

    def _thresholds(self, rule: Rule, *, apart: bool) -> Thresholds:
        labels = self._held_labels if (self._held_labels >= 0).all() else None  # not in bundles of earlier versions
        per_class = bool(self.per_class)
        return learn_thresholds(rule, self._held_rows, float(self.alpha), labels, per_class=per_class, apart=apart)

    def _take(self, rule: Any, thresholds: Thresholds, *, warn: bool = True) -> None:
        self.model_, self.thresholds_ = rule, thresholds
        self.threshold_, self.shifted_threshold_ = thresholds.value, thresholds.shifted
        self.calibration_ = thresholds.calibration
        self.unknown_share_, self.unknown_interval_ = thresholds.unknown, thresholds.interval
        self.class_rates_ = thresholds.rates(self.classes_.tolist())
        shift = getattr(rule, "shift", None)
        self.shift_test_ = {
            "found": bool(shift is not None and shift.found), "p_value": None if shift is None else shift.p_value,
            "share": 0.0 if shift is None else shift.share,
        }  # fmt: skip
        self.shifted_share_ = self.shift_test_["share"]
        self.recall_ = 1.0 if rule.graph is None else rule.graph.neighbors.recall
        if warn and thresholds.calibration is None:
            text = FEW.format(held=thresholds.held, alpha=self.alpha, needed=thresholds.needed)
            warnings.warn(text, UserWarning, stacklevel=3)

    # -- asking --------------------------------------------------------------------------------------------------------
    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) classes; rejected ones are -1 where classes are numbers, "rejected" where they are names."""
        decided = self._decide(X)
        return with_rejected(self.classes_[decided.probabilities.argmax(axis=1)], self.thresholds_.reject(decided))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(n, C) probabilities over the known classes, as if each sample belonged to one of them."""
        return self._decide(X).probabilities

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """(n, C) log-probabilities of the known classes; for two classes (n,), the log-odds of the second."""
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(self._decide(X).probabilities), -745.0)  # the log of the smallest double
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def ood_score(self, X: Any) -> NDArray[np.float64]:
        """(n,), high = out-of-distribution; 0 is the mean of the wild pool.

        Above ``threshold_`` a sample is rejected; a shifted one above ``shifted_threshold_``, where that is higher.
        """
        return self._decide(X).score

    def p_value(self, X: Any) -> NDArray[np.float64]:
        """(n,) conformal p-values: of in-distribution samples at most a share a has p <= a."""
        return self.thresholds_.p_value(self._decide(X).score)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the samples with a class; a rejected one counts as wrong, wild ones (y = -1) do not count.

        So a grid search over X and y with wild samples among them chooses by accuracy on labelled samples alone.
        """
        return accuracy(self, X, y, sample_weight)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """(n, n_components) spectral coordinates in the wild graph; zeros where it has fewer eigenvectors.

        With fewer than 20 wild samples there is none, and the graph is that of the labelled samples.
        """
        rows, rule = self._asked(X), self._rule
        found = np.zeros((len(rows), self._n_features_out))
        graph = rule.graph
        if graph is None and len(rule.labelled) > 3:
            graph = build_graph(rule.shift.align(rule.labelled), rule.settings.graph)
        if graph is not None:
            coordinates = graph.coordinates(rule.shift.align(rows))
            found[:, : coordinates.shape[1]] = coordinates
        return found

    def explain(self, X: Any, neighbours: int = 5) -> list[Any]:
        """For each sample: the decision, score against threshold, p-value, and the nearest labelled samples.

        Neighbours are named by their row in the X of ``fit``.
        """
        from wildspec.embeddings.explain import explain

        return explain(self, self._asked(X), integer("neighbours", neighbours, minimum=1))

    # -- a person in the loop ------------------------------------------------------------------------------------------
    def questions(self, n: int = 20, rule: str = "groups") -> NDArray[np.int64]:
        """At most n wild samples to ask a person about, the most wanted first (`wildspec.decision.questions`).

        They are named by their row in X_wild; where wild samples are marked in X, by their row there, and those of X_wild
        are counted on from the end of X. Rows that have an answer are not asked about again.
        """
        return np.array(self.review().ask(n, rule), np.int64)

    def answer(self, given: Mapping[int, Any], *, promise: float | None = None) -> "SpectralClassifier":
        """Learn from answers, row -> class, and return self (`wildspec.decision.answers`).

        A class is a known one, "unknown", or a new name, which from ten samples on becomes a class of its own at the end of
        ``classes_``. Answers add up over calls; one for the same row replaces the former one. ``threshold_`` is calibrated
        again on labelled samples alone.

        promise: share of shifted samples of known classes that may be rejected. Answers to ``questions(n, rule="random")``
        then calibrate the threshold of shifted samples instead of being learned from, if they are enough; how many it takes
        is in ``review().facts()["promise"]`` (`wildspec.decision.drawn`).
        """
        review = self.review()
        return self.take(review) if review.learn(given, promise) else self

    def review(self) -> Review:
        """The wild pool and the answers so far, to ask and answer step by step (`wildspec.decision.review`)."""
        check_is_fitted(self, "model_")
        return make_review(self)

    def take(self, review: Review) -> "SpectralClassifier":
        """Decide as the review's last refit has learned."""
        take_review(self, review)
        return self

    # -- keeping -------------------------------------------------------------------------------------------------------
    def save(self, path: str | PathLike[str]) -> None:
        """Write a bundle (safetensors and JSON); `wildspec.load` reads it."""
        from wildspec.embeddings.state import write

        check_is_fitted(self, "model_")
        write(self, path)

    @classmethod
    def from_bundle(cls, stored: Any, **options: Any) -> "SpectralClassifier":
        """From a verified bundle; ``device`` is accepted and ignored, embeddings are decided on the CPU."""
        from wildspec.embeddings.state import read

        return read(cls, stored)

    # -- inside --------------------------------------------------------------------------------------------------------
    def _asked(self, X: Any) -> Rows:
        """(n, d) rows as the rule takes them."""
        check_is_fitted(self, "model_")
        return self._prepare(check_rows(self, X, reset=False))

    def _decide(self, X: Any) -> Decided:
        return self._decide_rows(self._asked(X))

    def _decide_rows(self, rows: Rows) -> Decided:
        """(n, d) rows as the rule takes them."""
        if self.engine == "ray" and isinstance(self.model_, Rule):
            from wildspec.decision.ray_decide import decide

            decided = decide(self.model_, rows)
        else:
            decided = self.model_.decide(rows)
        return replace(decided, probabilities=at_temperature(decided.probabilities, self.temperature_))

    @property
    def _rule(self) -> Rule:
        """Without answers."""
        return self.model_.rule if isinstance(self.model_, AnsweredRule) else self.model_

    def _choose_origin(self, known: Rows) -> None:
        """Euclidean rows get lengths of about 1, and no origin so far away that all rows look alike."""
        self._centre, self._scale = np.zeros(known.shape[1], np.float32), 1.0
        if self.metric == "euclidean":
            if far_from_origin(known):
                self._centre = known.mean(axis=0, dtype=np.float64).astype(np.float32)
            near = known - self._centre
            self._scale = float(np.sqrt(np.einsum("ij,ij->", near, near, dtype=np.float64) / len(near))) or 1.0

    def _prepare(self, rows: Rows) -> Rows:
        if self.metric == "cosine":
            return unit_rows(rows)
        return ((rows - self._centre) / np.float32(self._scale)).astype(np.float32)

    def _settings(self, seed: int) -> RuleSettings:
        """The parameters, checked, as settings of the rule."""
        choice("metric", self.metric, METRICS)
        choice("engine", self.engine, ("auto", "local", "ray"))
        shift = choice("shift", self.shift, SHIFT_CHOICES)
        open_fraction("alpha", self.alpha)
        open_fraction("held_out", self.held_out)
        check_classifier(self.classifier)
        return RuleSettings(
            graph=GraphSettings(
                n_components=self._components(),
                n_neighbors=integer("n_neighbors", self.n_neighbors, minimum=2),
                search=choice("search", self.search, ("auto", "exact", "ivf", "hnsw")),
                engine="ray" if self.engine == "ray" else "local",
                seed=seed,
            ),
            classifier=self.classifier,
            shift=shift if shift == "auto" else bool(shift),
            most=integer("max_bank", self.max_bank, minimum=100),
            seed=seed,
        )

    def _components(self) -> int:
        """A class needs an eigenvector, and nobody knows how many unknown ones there are."""
        if self.n_components is not None:
            return integer("n_components", self.n_components, minimum=1)
        return min(max(LEAST, 2 * len(self.classes_)), MOST)

    @property
    def _n_features_out(self) -> int:
        """Of the fit: answers may add classes, the width stays."""
        return int(self._rule.settings.graph.n_components)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
