"""The linear probe: multinomial logistic regression as two arrays, so that it can be saved and read without pickle."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.blas import one_blas_thread
from wildspec.checks import choice
from wildspec.errors import InputError, InputTypeError
from wildspec.graph.search import Rows

Vector = NDArray[np.float64]
INVERSE_REGULARIZATION = 10.0  # on features of length 1
ITERATIONS = 300
FEW = 20  # samples that a smaller class weighs as much as
MANY_CLASSES = "The number of unique classes is greater"  # scikit-learn asks whether it is a regression; it is not


def energy(logits: Vector) -> Vector:
    """(n, C) z -> (n,) -log sum_c exp z_c."""
    most = logits.max(axis=1)
    return np.asarray(-most - np.log(np.exp(logits - most[:, None]).sum(axis=1)))


def softmax(logits: Vector) -> Vector:
    """(n, C) z -> (n, C) probabilities."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class LinearProbe:
    """p(c|x) = softmax(x W^T + b)_c; ``weights`` (C, d), ``bias`` (C,). One class: p = 1."""

    weights: Vector
    bias: Vector

    def logits(self, rows: Rows) -> Vector:
        """(n, d) -> (n, C) z."""
        return np.asarray(rows @ self.weights.T + self.bias)

    def energy(self, rows: Rows) -> Vector:
        """(n, d) -> (n,) -log sum_c exp z_c, high = unlike every class."""
        return energy(self.logits(rows))

    def probabilities(self, rows: Rows) -> Vector:
        """(n, d) -> (n, C)."""
        return softmax(self.logits(rows))


@dataclass(frozen=True, eq=False)
class ForeignProbe:
    """Any scikit-learn classifier with ``predict_proba`` in the probe's place; it cannot be saved in a bundle."""

    model: Any
    n_classes: int

    def energy(self, rows: Rows) -> Vector:
        """(n,) minus the largest log-probability: such a classifier has no logits."""
        return np.asarray(-np.log(np.maximum(self.probabilities(rows).max(axis=1), 1e-12)))

    def probabilities(self, rows: Rows) -> Vector:
        found = np.zeros((len(rows), self.n_classes))
        if len(rows):
            found[:, np.asarray(self.model.classes_, dtype=np.int64)] = self.model.predict_proba(rows)
        return found


Probe = LinearProbe | ForeignProbe


def check_classifier(given: Any) -> None:
    """What ``classifier`` of `fit_probe` may be: "auto", or an object with ``fit`` and ``predict_proba``."""
    if isinstance(given, str):
        choice("classifier", given, ("auto",))
    elif isinstance(given, type):
        raise InputTypeError(f"classifier must be an object, {given.__name__}(), not the class itself")
    elif not hasattr(given, "fit"):
        raise InputTypeError(f"classifier must be 'auto' or a scikit-learn classifier, got {given!r}")
    elif not hasattr(given, "predict_proba"):
        raise InputError(f"classifier {given!r} has no predict_proba; wrap it in CalibratedClassifierCV")


def weights_of(labels: NDArray[np.int64], n_classes: int, classifier: Any = "auto") -> Vector | None:
    """(n,) w_i = max(1, FEW / samples of its class), divided by their mean; None where they are all alike.

    Three samples beside sixty of other classes would be drowned: the classifier would hardly ever say their class. Whoever
    brings a classifier says what it shall weigh: None.
    """
    if not isinstance(classifier, str):
        return None
    lifted = np.maximum(1.0, FEW / np.maximum(np.bincount(labels, minlength=n_classes), 1))[labels]
    return None if (lifted == lifted[:1]).all() else lifted / lifted.mean()


def fit_probe(
    rows: Rows, labels: NDArray[np.int64], n_classes: int, *, classifier: Any = "auto", weights: Vector | None = None
) -> Probe:
    """Learn p(c|x) from labelled rows (n, d), labels in 0..n_classes-1.

    classifier: "auto" (logistic regression) or a scikit-learn classifier, which is cloned. weights: (n,) of the samples.
    """
    if n_classes == 1:
        return LinearProbe(np.zeros((1, rows.shape[1])), np.zeros(1))
    if not isinstance(classifier, str):
        return _foreign(rows, labels, n_classes, classifier, weights)
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=ITERATIONS)
    with one_blas_thread(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=MANY_CLASSES)
        model.fit(rows, labels, sample_weight=weights)
    # row by row in memory, as a bundle is read: laid out otherwise, products differ in their last bits
    slope, bias = model.coef_.astype(np.float64, order="C"), model.intercept_.astype(np.float64)
    if n_classes == 2:  # scikit-learn keeps their difference; an energy needs logits of sum 0, as those of three or more
        slope, bias = np.vstack([-slope, slope]) / 2, np.r_[-bias, bias] / 2
    return LinearProbe(slope, bias)


def _foreign(
    rows: Rows, labels: NDArray[np.int64], n_classes: int, classifier: Any, weights: Vector | None
) -> ForeignProbe:
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter

    model = clone(classifier)
    if weights is not None and has_fit_parameter(model, "sample_weight"):
        model.fit(rows, labels, sample_weight=weights)
    else:
        model.fit(rows, labels)
    return ForeignProbe(model, n_classes)
