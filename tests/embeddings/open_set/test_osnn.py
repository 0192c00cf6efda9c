"""OSNN against hand-made places on a line and a slow loop over all pairs."""

import numpy as np
import pytest

from wildspec.embeddings import OSNN
from wildspec.errors import InputError

LINE, CLASSES = np.array([[0.0], [1.0], [10.0], [11.0]]), np.array([0, 0, 1, 1])


def test_places_on_a_line():
    model = OSNN().fit(LINE, CLASSES, [[5.0]])
    # 2: both nearest of class 0. 5: 4 to class 0, then 5: of class 0 again (0), so known. 5.5: 4.5 and 4.5 of two classes
    np.testing.assert_array_equal(model.predict([[2.0], [5.0], [5.5], [10.4]]), [0, 0, -1, 1])
    np.testing.assert_allclose(model.ood_score([[2.0], [5.0], [5.5], [10.4]]), [1 / 8, 4 / 5, 1, 0.4 / 9.4], rtol=1e-5)
    np.testing.assert_array_equal(model.predict_known([[5.4], [5.6]]), [0, 1])
    np.testing.assert_array_equal(model.transduction_, [0])


def test_class_means_are_always_of_two_classes():
    model = OSNN(reference="means").fit(LINE, CLASSES, [[4.0], [3.0]])  # means 0.5 and 10.5: 3.5 / 6.5 and 2.5 / 7.5
    np.testing.assert_array_equal(model.transduction_, [-1, 0])
    np.testing.assert_array_equal(OSNN(0.6, reference="means").fit(LINE, CLASSES, [[4.0]]).transduction_, [0])


def test_a_slow_loop_says_the_same():
    rng = np.random.default_rng(0)
    rows, labels, asked = rng.normal(size=(40, 3)), rng.integers(3, size=40), rng.normal(size=(200, 3))
    told, score = [], []
    for point in asked:
        distance = np.linalg.norm(rows - point, axis=1)
        first, second = np.argsort(distance)[:2]
        same = labels[first] == labels[second]
        told.append(labels[first] if same or distance[first] <= 0.5 * distance[second] else -1)
        score.append(distance[first] / distance[labels != labels[first]].min())
    model = OSNN().fit(rows, labels, asked)
    np.testing.assert_array_equal(model.transduction_, told)
    np.testing.assert_allclose(model.ood_score(asked), score, rtol=1e-4)
    assert {-1, 0, 1, 2} == set(told)


def test_one_class_is_never_doubted_and_two_at_one_place_are():
    np.testing.assert_array_equal(OSNN(0.0).fit([[0.0], [1.0]], [7, 7], [[50.0]]).transduction_, [7])
    twins = OSNN().fit([[0.0], [0.0], [3.0]], [0, 1, 1], [[0.0]])
    assert twins.ood_score([[0.0]]) == [1.0]


def test_wrong_parameters_are_named():
    with pytest.raises(InputError, match="ratio"):
        OSNN(1.5).fit(LINE, CLASSES, LINE)
    with pytest.raises(InputError, match="reference"):
        OSNN(reference="median").fit(LINE, CLASSES, LINE)
