"""The probe as two arrays gives what scikit-learn's object gives."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from wildspec.decision.probe import FEW, INVERSE_REGULARIZATION, LinearProbe, fit_probe, weights_of


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_probabilities_are_scikit_learns(classes, weighted, rng):
    rows, labels = rng.normal(size=(90, 6)).astype(np.float32), np.arange(90) % classes
    rows[np.arange(90), labels] += 1
    weights = rng.uniform(0.1, 3, size=90) if weighted else None
    probe = fit_probe(rows, labels, classes, weights=weights)
    expected = LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=300).fit(rows, labels, sample_weight=weights)
    assert probe.weights.shape == (classes, 6)
    np.testing.assert_allclose(probe.probabilities(rows), expected.predict_proba(rows), atol=1e-6)
    unweighted = fit_probe(rows, labels, classes).probabilities(rows)
    assert (np.abs(unweighted - probe.probabilities(rows)).max() > 1e-3) == weighted


def test_far_rows_do_not_overflow():
    probe = LinearProbe(np.array([[0.0], [1.0]]), np.zeros(2))
    far = np.array([[1e6], [-1e6], [0.0]], np.float32)
    np.testing.assert_allclose(probe.probabilities(far), [[0, 1], [1, 0], [0.5, 0.5]])


def test_one_class_is_certain(rng):
    rows = rng.normal(size=(4, 3)).astype(np.float32)
    np.testing.assert_array_equal(fit_probe(rows, np.zeros(4, np.int64), 1).probabilities(rows), np.ones((4, 1)))


@pytest.mark.parametrize("other", [GaussianNB(), KNeighborsClassifier(3)])
def test_another_classifier_stands_in_its_place_and_is_not_changed(other, rng):
    rows, labels = rng.normal(size=(40, 3)).astype(np.float32), np.array([0, 2] * 20)  # class 1 has no sample here
    weights = rng.uniform(0.1, 3, size=40)  # neighbours cannot use them
    probe = fit_probe(rows, labels, 3, classifier=other, weights=weights)
    fitted = type(other)(**other.get_params())
    fitted = fitted.fit(rows, labels, sample_weight=weights) if isinstance(other, GaussianNB) else fitted.fit(rows, labels)
    found = probe.probabilities(rows)
    np.testing.assert_allclose(found[:, [0, 2]], fitted.predict_proba(rows))
    np.testing.assert_array_equal(found[:, 1], 0)
    assert not hasattr(other, "classes_")
    assert probe.probabilities(rows[:0]).shape == (0, 3)


def test_of_two_classes_neither_is_nearer_to_the_unknown(rng):
    """The energy is the same whichever class is called 0, and -log(2 cosh(z / 2)) of scikit-learn's one logit z."""
    labels = rng.integers(0, 2, 80)
    rows = (rng.normal(size=(80, 4)) + labels[:, None]).astype(np.float32)
    one, other = fit_probe(rows, labels, 2), fit_probe(rows, 1 - labels, 2)
    assert isinstance(one, LinearProbe)
    np.testing.assert_allclose(one.energy(rows), other.energy(rows), atol=1e-4)
    z = LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=300).fit(rows, labels).decision_function(rows)
    np.testing.assert_allclose(one.energy(rows), -np.log(2 * np.cosh(z / 2)), atol=1e-4)


def test_a_small_class_weighs_as_much_as_if_its_samples_were_repeated(rng):
    """Of 5 samples as much as FEW = 20: each four times. Then all weights are divided by their mean, as C would be."""
    counts = (5, 30, 40)
    labels = np.repeat(np.arange(3), counts)
    rows = rng.normal(size=(75, 4)).astype(np.float32) + np.eye(3, 4, dtype=np.float32)[labels]
    weights = weights_of(labels, 3)
    assert weights.mean() == pytest.approx(1)
    times = np.where(labels == 0, FEW // 5, 1)
    expected = LogisticRegression(C=INVERSE_REGULARIZATION / times.mean(), max_iter=2000, tol=1e-8).fit(
        np.repeat(rows, times, axis=0), np.repeat(labels, times)
    )
    found = fit_probe(rows, labels, 3, weights=weights)
    np.testing.assert_allclose(found.probabilities(rows), expected.predict_proba(rows), atol=1e-3)
    assert np.abs(fit_probe(rows, labels, 3).probabilities(rows) - expected.predict_proba(rows)).max() > 0.05


@pytest.mark.parametrize("counts", [(3, 3, 3), (20, 21, 900), (1,)])
def test_classes_that_are_alike_or_large_enough_are_not_weighed(counts):
    assert weights_of(np.repeat(np.arange(len(counts)), counts), len(counts)) is None


def test_who_brings_a_classifier_says_what_it_weighs():
    assert weights_of(np.repeat([0, 1], [3, 60]), 2, LogisticRegression()) is None
