"""Bad input to SpectralClassifier: one clear line, or the right result."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shifted_world import make_world
from wildspec import SpectralClassifier
from wildspec.embeddings.rows import held_out_rows
from wildspec.errors import InputError

WORLD = make_world(5, per_class=40)
QUICK = settings(deadline=None, max_examples=25)


@pytest.fixture(scope="module")
def model():
    return SpectralClassifier(random_state=0).fit(WORLD.labelled, WORLD.labels, WORLD.wild)


def quiet_fit(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(*data)


@QUICK
@given(st.integers(0, 119), st.integers(0, 23), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_nan_and_inf_are_refused_wherever_they_stand(row, column, value):
    def spoiled(rows):
        rows = rows.copy()
        rows[row % len(rows), column] = value
        return rows

    for labelled, wild in ((spoiled(WORLD.labelled), WORLD.wild), (WORLD.labelled, spoiled(WORLD.wild))):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            SpectralClassifier(random_state=0).fit(labelled, WORLD.labels, wild)


def test_nan_and_inf_are_refused_when_asked(model):
    for value in (np.nan, np.inf, -np.inf):
        rows = WORLD.shifted.copy()
        rows[3, 1] = value
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.predict(rows)


def test_labelled_rows_of_zeros_are_told_of():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 30)
    rows = rng.normal(size=(60, 64)).astype(np.float32) + 6 * np.eye(2, 64, dtype=np.float32)[labels]
    rows[[7, 40]] = 0
    with pytest.warns(UserWarning, match=r"2 of 60 labelled .*zeros, first row 7"):
        SpectralClassifier().fit(rows, labels)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        SpectralClassifier(metric="euclidean").fit(rows, labels)
    assert not [w for w in said if "zeros" in str(w.message)]


@QUICK
@given(st.integers(1, 20), st.integers(0, 10**6))
def test_zero_vectors_and_duplicates_are_decided_not_stumbled_over(count, seed):
    rng = np.random.default_rng(seed)
    labelled, wild = WORLD.labelled.copy(), WORLD.wild.copy()
    labelled[rng.integers(len(labelled), size=count)] = 0
    wild[rng.integers(len(wild), size=count)] = 0
    wild[rng.integers(len(wild), size=2 * count)] = wild[0]
    model = quiet_fit(SpectralClassifier(random_state=0), labelled, WORLD.labels, wild)
    scores = model.ood_score(np.concatenate([WORLD.shifted, np.zeros((2, 24), np.float32), wild[:1]]))
    assert np.isfinite(scores).all()
    probabilities = model.predict_proba(WORLD.shifted)
    assert np.isfinite(probabilities).all()
    assert np.mean(probabilities.argmax(axis=1) == WORLD.shifted_labels) > 0.7


@QUICK
@given(
    st.integers(2, 30), st.integers(0, 30), st.integers(1, 6), st.integers(1, 4), st.sampled_from(["cosine", "euclidean"]),
    st.integers(0, 10**6),
)  # fmt: skip
def test_small_and_degenerate_sets_give_finite_answers(count, pool, width, classes, metric, seed):
    rng = np.random.default_rng(seed)
    rows, wild = rng.integers(-1, 2, size=(count, width)), rng.integers(-1, 2, size=(pool, width))
    y = rng.integers(0, classes, size=count)
    model = quiet_fit(SpectralClassifier(metric=metric, random_state=0), rows, y, wild)
    asked = rng.normal(size=(5, width))
    assert np.isfinite(model.ood_score(asked)).all()
    np.testing.assert_allclose(model.predict_proba(asked).sum(axis=1), 1)
    assert set(model.predict(asked).tolist()) <= {-1, *y.tolist()}
    assert ((model.p_value(asked) > 0) & (model.p_value(asked) <= 1)).all()
    assert model.transform(asked).shape[0] == 5
    assert len(model.explain(asked, neighbours=3)) == 5


@pytest.mark.parametrize(("groups", "says"), [
    (np.arange(50), "120.*50"), (np.arange(130), "120.*130"), ([None] * 3 + ["a"] * 117, "3 of 120"),
    (np.r_[np.nan, np.arange(119)], "1 of 120"),
])  # fmt: skip
def test_groups_have_an_entry_for_each_row(groups, says):
    with pytest.raises(InputError, match=f"groups .*{says}"):
        SpectralClassifier().fit(WORLD.labelled, WORLD.labels, WORLD.wild, groups=groups)


def test_groups_may_be_of_any_kind():
    names = [f"film{row // 3}" if row % 2 else row // 3 for row in range(120)]
    one = quiet_fit(SpectralClassifier(random_state=0), WORLD.labelled, WORLD.labels, WORLD.wild, names)
    two = quiet_fit(SpectralClassifier(random_state=0), WORLD.labelled, WORLD.labels, WORLD.wild, [str(x) for x in names])
    assert one.threshold_ == two.threshold_


def test_an_empty_table_of_wild_samples_is_none():
    pd = pytest.importorskip("pandas")
    with pytest.warns(UserWarning, match="no wild samples"):
        SpectralClassifier(random_state=0).fit(WORLD.labelled, WORLD.labels, pd.DataFrame())


def test_many_small_classes_are_no_regression():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, 30))
    rows, y = np.repeat(centres, 2, axis=0) + 0.1 * rng.normal(size=(80, 30)), np.repeat(np.arange(40), 2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = SpectralClassifier(random_state=0).fit(rows, y, centres + 0.1 * rng.normal(size=(40, 30)))
    assert not [w for w in said if "regression" in str(w.message)]
    assert np.mean(model.predict_proba(centres).argmax(axis=1) == np.arange(40)) > 0.9


def test_classes_of_bytes_are_text():
    model = quiet_fit(SpectralClassifier(random_state=0), WORLD.labelled, np.array([b"cat", b"dog", b"owl"])[WORLD.labels])
    assert model.classes_.tolist() == ["cat", "dog", "owl"]


def test_classes_minus_one_and_one_are_told_of():
    """A habit of support vector machines: here -1 is no class."""
    y = np.where(WORLD.labels == 0, -1, 1)
    with pytest.warns(UserWarning, match=r"-1 .*wild.* another number"):
        model = SpectralClassifier(random_state=0).fit(WORLD.labelled, y)
    assert model.classes_.tolist() == [1]


@pytest.mark.parametrize("count", [1, 19])
def test_a_pool_too_small_to_learn_from_is_told_of(count):
    with pytest.warns(UserWarning, match=rf"pool of {count} .*20 wild"):
        model = SpectralClassifier(random_state=0).fit(WORLD.labelled, WORLD.labels, WORLD.wild[:count])
    alone = quiet_fit(SpectralClassifier(random_state=0), WORLD.labelled, WORLD.labels)
    np.testing.assert_allclose(model.ood_score(WORLD.unknown), alone.ood_score(WORLD.unknown))


def test_no_wild_samples_works_and_says_what_is_lost():
    with pytest.warns(UserWarning, match="no wild samples were given"):
        model = SpectralClassifier(random_state=0).fit(WORLD.labelled, WORLD.labels)
    assert np.mean(model.predict(WORLD.id_test) == WORLD.id_labels) > 0.85
    assert np.mean(model.predict(WORLD.unknown) == -1) > 0.6
    assert model.shifted_share_ == 0


def test_too_few_labelled_samples_to_promise_anything_reject_nothing_and_say_so():
    with pytest.warns(UserWarning, match="nothing will be rejected"):
        model = SpectralClassifier(random_state=0).fit(WORLD.labelled[::8][:15], WORLD.labels[::8][:15], WORLD.wild)
    assert (model.predict(np.concatenate([WORLD.unknown, -WORLD.unknown])) != -1).all()
    assert model.calibration_ is None
    assert model.threshold_ == np.inf


def test_one_class_is_a_novelty_detector():
    one = WORLD.labels == 0
    model = SpectralClassifier(random_state=0, alpha=0.2).fit(WORLD.labelled[one], WORLD.labels[one], WORLD.wild)
    assert model.classes_.tolist() == [0]
    assert np.mean(model.predict(WORLD.id_test[WORLD.id_labels == 0]) == 0) > 0.6
    np.testing.assert_array_equal(model.predict_proba(WORLD.id_test), 1)


def test_a_pool_of_one_class_is_no_error():
    wild = WORLD.shifted[WORLD.shifted_labels == 1]
    model = SpectralClassifier(random_state=0).fit(WORLD.labelled, WORLD.labels, wild)
    assert np.mean(model.predict_proba(WORLD.id_test).argmax(axis=1) == WORLD.id_labels) > 0.9


def test_a_class_of_one_sample_is_learned_not_held_out():
    y = WORLD.labels.copy()
    y[0] = 7
    model = SpectralClassifier(random_state=0).fit(WORLD.labelled, y, WORLD.wild)
    assert 7 in model.classes_
    assert 0 in model._rows


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_every_class_keeps_a_sample_whatever_is_drawn(share):
    labels = np.r_[np.zeros(30, int), np.full(2, 1), np.arange(2, 12)]  # ten classes of one sample
    for seed in range(20):
        held = held_out_rows(labels, share, np.random.default_rng(seed))
        assert len(np.unique(held)) == len(held) == min(int(share * 42), 29 + 1)
        assert set(np.delete(labels, held).tolist()) == set(range(12))
        assert (np.diff(held) > 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_a_class_keeps_a_row_where_groups_hold_several_classes(seed):
    """Class 2 is in two groups, both of which hold class 0, too; of a held-out group nothing is learned."""
    labels, groups = np.r_[np.zeros(10, int), np.ones(10, int), 2, 2], np.r_[np.arange(20), 0, 1]
    held = held_out_rows(labels, 0.5, np.random.default_rng(seed), groups)
    assert len(held) == 10
    assert set(labels[~np.isin(groups, groups[held])].tolist()) == {0, 1, 2}


def test_dimension_mismatch_is_named(model):
    with pytest.raises(ValueError, match="23 features"):
        model.predict(WORLD.shifted[:, :23])
    with pytest.raises(InputError, match=r"X_wild has 5 .*24"):
        SpectralClassifier().fit(WORLD.labelled, WORLD.labels, WORLD.wild[:, :5])


@pytest.mark.parametrize("rows", [WORLD.shifted[0], WORLD.shifted[None], np.array(3.0)])
def test_arrays_of_another_dimension_are_refused(model, rows):
    with pytest.raises(ValueError, match=r"2D array|dim"):
        model.predict(rows)


def test_object_arrays_of_numbers_are_numbers_and_others_are_refused(model):
    np.testing.assert_allclose(model.ood_score(WORLD.shifted.astype(object)), model.ood_score(WORLD.shifted), atol=1e-6)
    with pytest.raises((ValueError, TypeError)):
        model.predict(np.full((2, 24), "a", dtype=object))


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="every sample as wild"):
        SpectralClassifier().fit(WORLD.labelled, np.full(len(WORLD.labelled), -1))
    with pytest.raises(InputError, match="120 rows and y 5 entries"):
        SpectralClassifier().fit(WORLD.labelled, WORLD.labels[:5])
    with pytest.raises(ValueError, match="label type"):
        SpectralClassifier().fit(WORLD.labelled, WORLD.labels + 0.5)


def test_a_sparse_matrix_too_large_to_be_dense_is_refused_before_it_is():
    from scipy import sparse

    with pytest.raises(InputError, match="TruncatedSVD"):
        SpectralClassifier().fit(sparse.csr_matrix((200_000, 100_000), dtype=np.float32), np.zeros(200_000))


def test_values_beyond_single_precision_are_refused():
    rows = WORLD.labelled.astype(np.float64)
    rows[0, 0] = 1e300
    with pytest.raises(ValueError, match=r"infinity|too large"):
        SpectralClassifier().fit(rows, WORLD.labels, WORLD.wild)


def test_nothing_asked_nothing_answered(model):
    with pytest.raises(ValueError, match="0 sample"):
        model.predict(np.empty((0, 24)))


def test_wild_columns_in_another_order_are_refused():
    import pandas as pd

    names = [f"f{i}" for i in range(24)]
    labelled, wild = pd.DataFrame(WORLD.labelled, columns=names), pd.DataFrame(WORLD.wild, columns=names)
    with pytest.raises(InputError, match=r"X_wild .*'f23' where X has 'f0'"):
        SpectralClassifier(random_state=0).fit(labelled, WORLD.labels, wild[names[::-1]])
    same = SpectralClassifier(random_state=0).fit(labelled, WORLD.labels, wild)
    assert same.n_wild_ == len(wild)


@pytest.mark.parametrize("missing", [-1, "-1", None, float("nan")])
def test_wild_samples_among_names_may_be_marked_in_any_usual_way(model, missing):
    """numpy turns -1 beside names into "-1"; pandas marks a missing name with None or NaN. None of them is a class."""
    names = np.array(["ant", "bee", "cat"], dtype=object)[WORLD.labels].tolist() + [missing] * len(WORLD.wild)
    rows = np.concatenate([WORLD.labelled, WORLD.wild])
    for y in (np.array(names, dtype=object), np.array(names)) if missing in (-1, "-1") else (np.array(names, dtype=object),):
        found = SpectralClassifier(random_state=0).fit(rows, y)
        assert found.classes_.tolist() == ["ant", "bee", "cat"]
        assert found.n_wild_ == len(WORLD.wild)
        np.testing.assert_array_equal(found.ood_score(WORLD.shifted), model.ood_score(WORLD.shifted))


def test_wild_samples_do_not_count_in_a_score(model):
    rows, y = np.concatenate([WORLD.id_test, WORLD.wild]), np.r_[WORLD.id_labels, np.full(len(WORLD.wild), -1)]
    expected = np.mean(model.predict(WORLD.id_test) == WORLD.id_labels)
    assert model.score(rows, y) == pytest.approx(expected)
    assert model.score(WORLD.id_test, WORLD.id_labels) == pytest.approx(expected)
    weights = np.arange(len(y)) + 1.0
    right = model.predict(WORLD.id_test) == WORLD.id_labels
    assert model.score(rows, y, weights) == pytest.approx(np.average(right, weights=weights[: len(right)]))
    with pytest.raises(InputError, match="every sample as wild"):
        model.score(WORLD.wild, np.full(len(WORLD.wild), -1))
    named = SpectralClassifier(random_state=0).fit(WORLD.labelled, np.array(["ant", "bee", "cat"])[WORLD.labels], WORLD.wild)
    assert named.score(WORLD.id_test, np.array(["ant", "bee", "cat"])[WORLD.id_labels]) == pytest.approx(expected)


def test_an_empty_pool_is_said():
    with pytest.warns(UserWarning, match="no wild samples were given"):
        assert SpectralClassifier().fit(WORLD.labelled, WORLD.labels, []).n_wild_ == 0
