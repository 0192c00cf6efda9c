"""SpectralClassifier as a scikit-learn estimator: pipelines, searches, kinds of input, one clear line per mistake."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from wildspec import SpectralClassifier
from wildspec.embeddings.state import to_state
from wildspec.errors import InputError, InputTypeError


# -- scikit-learn ------------------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:no wild samples", "ignore:.*held-out labelled samples cannot promise")
def test_pipeline_grid_search_cross_validation_and_clone(world):
    rows = np.concatenate([world.labelled, world.wild[:100]])
    y = np.concatenate([world.labels, np.full(100, -1)])
    pipeline = make_pipeline(StandardScaler(), SpectralClassifier(metric="euclidean", random_state=0)).fit(rows, y)
    assert np.mean(pipeline.predict(world.id_test) == world.id_labels) > 0.85
    search = GridSearchCV(SpectralClassifier(random_state=0), {"n_neighbors": [5, 10]}, cv=2)
    search.fit(rows, y)
    chosen, right = search.best_estimator_.n_neighbors, []
    for train, test in StratifiedKFold(2).split(rows, y):  # by labelled samples left out; wild ones do not count
        model = SpectralClassifier(random_state=0, n_neighbors=chosen).fit(rows[train], y[train])
        right.append(np.mean((model.predict(rows[test]) == y[test])[y[test] >= 0]))
    assert search.best_score_ == pytest.approx(np.mean(right))
    assert cross_val_score(SpectralClassifier(random_state=0), world.labelled, world.labels, cv=3).mean() > 0.85
    twin = clone(SpectralClassifier(n_neighbors=7, alpha=0.2))
    assert (twin.n_neighbors, twin.alpha) == (7, 0.2)
    probe = make_pipeline(SpectralClassifier(random_state=0), LogisticRegression()).fit(world.labelled, world.labels)
    assert probe.predict(world.id_test).shape == (len(world.id_test),)


def test_a_classifier_of_your_own(world):
    model = SpectralClassifier(classifier=LogisticRegression(C=10, max_iter=300), random_state=0)
    model.fit(world.labelled, world.labels, world.wild)
    ours = SpectralClassifier(random_state=0).fit(world.labelled, world.labels, world.wild)
    np.testing.assert_allclose(model.predict_proba(world.shifted), ours.predict_proba(world.shifted), atol=1e-4)
    with pytest.raises(InputError, match="pickle"):
        to_state(model)


# -- kinds of input ----------------------------------------------------------------------------------------------------
def test_torch_pandas_sparse_memmap_float16_and_lists_give_the_same(world, model, tmp_path):
    pandas = pytest.importorskip("pandas")
    rows = world.shifted[:30]
    expected = model.ood_score(rows)
    mapped = np.memmap(tmp_path / "rows.bin", dtype=np.float32, mode="w+", shape=rows.shape)
    mapped[:] = rows
    for same in (torch.from_numpy(rows), sparse.csr_matrix(rows), sparse.csr_array(rows), mapped, rows.tolist(),
                 rows.astype(np.float64), pandas.DataFrame(rows)):  # fmt: skip
        np.testing.assert_allclose(model.ood_score(same), expected, atol=1e-6)
    half = rows.astype(np.float16)
    np.testing.assert_allclose(model.ood_score(half), model.ood_score(half.astype(np.float32)), atol=1e-6)
    brain = torch.from_numpy(rows).bfloat16()
    np.testing.assert_allclose(model.ood_score(brain), model.ood_score(brain.float()), atol=1e-6)


def test_fitting_takes_them_too_and_pandas_names_are_checked(world, model):
    pandas = pytest.importorskip("pandas")
    fitted = SpectralClassifier(random_state=0).fit(
        torch.from_numpy(world.labelled), torch.from_numpy(world.labels), X_wild=sparse.csr_matrix(world.wild)
    )
    np.testing.assert_array_equal(fitted.ood_score(world.shifted), model.ood_score(world.shifted))
    frame = pandas.DataFrame(world.labelled, columns=[f"f{i}" for i in range(24)])
    named = SpectralClassifier(random_state=0).fit(frame, pandas.Series(world.labels), X_wild=world.wild)
    assert named.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        named.predict(frame.rename(columns={"f0": "other"}))


def test_classes_may_be_names(world):
    names = np.array(["cat", "dog", "eel"])[world.labels]
    model = SpectralClassifier(random_state=0).fit(world.labelled, names, world.wild)
    found = model.predict(np.concatenate([world.id_test, world.unknown]))
    assert set(found.tolist()) == {"cat", "dog", "eel", "rejected"}
    assert model.classes_.tolist() == ["cat", "dog", "eel"]
    mixed = np.array([*names.tolist(), *[None] * len(world.wild)], dtype=object)
    again = SpectralClassifier(random_state=0).fit(np.concatenate([world.labelled, world.wild]), mixed)
    np.testing.assert_allclose(again.ood_score(world.shifted), model.ood_score(world.shifted), atol=1e-6)


@pytest.mark.parametrize("mark", [None, np.nan, -1])
@pytest.mark.parametrize("classes", [np.arange(3), np.array([b"cat", b"dog", b"eel"])])
def test_classes_may_be_objects_beside_what_marks_wild_samples(world, classes, mark):
    """As a list with gaps or a column of a table gives them."""
    y = [*classes[world.labels].tolist(), *[mark] * len(world.wild)]
    rows = np.concatenate([world.labelled, world.wild])
    model = SpectralClassifier(random_state=0).fit(rows, np.array(y, dtype=object))
    plain = SpectralClassifier(random_state=0).fit(world.labelled, classes[world.labels], world.wild)
    assert model.classes_.dtype == plain.classes_.dtype
    np.testing.assert_array_equal(model.predict(world.shifted), plain.predict(world.shifted))


# -- errors ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"n_components": 0}, InputError, "n_components must be at least 1"),
        ({"n_neighbors": 1}, InputError, "n_neighbors must be at least 2"),
        ({"n_neighbors": 2.5}, InputTypeError, "n_neighbors must be a whole number"),
        ({"shift": "maybe"}, InputError, "shift must be one of"),
        ({"metric": "manhattan"}, InputError, "metric must be one of"),
        ({"alpha": 0}, InputError, "alpha must lie strictly between"),
        ({"held_out": 1.0}, InputError, "held_out must lie strictly between"),
        ({"engine": "dask"}, InputError, "engine must be one of"),
        ({"classifier": "svm"}, InputError, "classifier must be one of"),
        ({"classifier": 3}, InputTypeError, "classifier must be 'auto' or"),
    ],
)
def test_a_wrong_parameter_is_one_clear_line(world, change, kind, text):
    with pytest.raises(kind, match=text) as caught:
        SpectralClassifier(**change).fit(world.labelled, world.labels)
    assert "\n" not in str(caught.value)
