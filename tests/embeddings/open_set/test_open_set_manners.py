"""What the four systems have in common: scikit-learn's checks, -1 in y, names, a score that points outwards."""

import doctest
import warnings
from importlib import import_module

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from shifted_world import make_world
from wildspec.embeddings import DAOD, OSLPP, OSNN, OVANet

SYSTEMS = [OSNN(1.0), OSLPP(), DAOD(random_state=0), OVANet(steps=50, learning_rate=0.05, random_state=0)]
NAMES = [type(system).__name__ for system in SYSTEMS]
EXCEPTION = {"check_classifiers_classes": "uses the class -1, which marks wild samples here as in scikit-learn"}
REFUSES = {"check_classifiers_train": "the open heads refuse a few of the training samples, and predict says so"}


def expected_failures(system):
    return EXCEPTION | (REFUSES if isinstance(system, OVANet) else {})


@parametrize_with_checks(SYSTEMS, expected_failed_checks=expected_failures)
def test_check_estimator(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the checks give no wild samples; we say so
        check(estimator)


@pytest.mark.parametrize("system", SYSTEMS, ids=NAMES)
def test_the_example_in_the_documentation_runs(system):
    module = import_module(type(system).__module__)
    assert doctest.testmod(module) == (0, len(doctest.DocTestFinder().find(type(system))[0].examples))


@pytest.fixture(scope="module")
def world():
    return make_world(7, per_class=30)


@pytest.mark.parametrize("system", SYSTEMS, ids=NAMES)
def test_wild_rows_may_stand_among_the_labelled(system, world):
    apart = system.fit(world.labelled, world.labels, world.wild)
    told, score, n_wild = apart.transduction_, apart.ood_score(world.unknown), apart.n_wild_
    rows = np.concatenate([world.labelled, world.wild])
    mixed = system.fit(rows, np.concatenate([world.labels, np.full(len(world.wild), -1)]))
    np.testing.assert_array_equal(mixed.transduction_, told)
    np.testing.assert_allclose(mixed.ood_score(world.unknown), score)
    assert mixed.n_wild_ == n_wild == len(told) == len(world.wild)


@pytest.mark.parametrize("system", SYSTEMS, ids=NAMES)
def test_scores_point_outwards_and_the_order_of_rows_does_not_matter(system, world):
    model = system.fit(world.labelled, world.labels, world.wild)
    kinds = [model.ood_score(world.wild[world.wild_kind == kind]).mean() for kind in (0, 2)]
    assert kinds[1] > kinds[0]
    order = np.random.default_rng(0).permutation(len(world.wild))
    np.testing.assert_allclose(model.ood_score(world.wild[order]), model.ood_score(world.wild)[order], atol=1e-6)


@pytest.mark.parametrize("system", SYSTEMS, ids=NAMES)
def test_names_come_back_as_names(system, world):
    names = np.array(["cat", "dog", "eel"])
    by_name = system.fit(world.labelled, names[world.labels], world.wild)
    told, known = by_name.predict(world.wild), by_name.predict_known(world.wild)
    by_number = system.fit(world.labelled, world.labels, world.wild)
    kept = by_number.predict(world.wild) != -1
    np.testing.assert_array_equal(known, names[by_number.predict_known(world.wild)])
    np.testing.assert_array_equal(told[kept], known[kept])
    assert not set(told[~kept]) & set(names.tolist())


@pytest.mark.parametrize("system", SYSTEMS, ids=NAMES)
def test_without_wild_samples_it_says_what_is_missing(system, world):
    with pytest.warns(UserWarning, match="X_wild"):
        model = system.fit(world.labelled, world.labels)
    assert model.n_wild_ == 0
    assert len(model.transduction_) == 0
    assert np.mean(model.predict_known(world.id_test) == world.id_labels) > 0.7
