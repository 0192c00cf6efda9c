"""SpectralClassifier: classes under shift, unknown ones rejected, the promise kept, a scikit-learn estimator."""

import warnings

import numpy as np
import pytest
import torch
from scipy import sparse
from shifted_world import make_world
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import wildspec
from wildspec import SpectralClassifier, SpectralClassifierCV
from wildspec.errors import CheckpointError, InputError, InputTypeError
from wildspec.evaluation import auroc
from wildspec.graph.search import unit_rows


@pytest.fixture(scope="module")
def world():
    return make_world(2)


@pytest.fixture(scope="module")
def model(world):
    return SpectralClassifier(random_state=0).fit(world.labelled, world.labels, X_wild=world.wild)


def likely(model, rows):
    return model.classes_[model.predict_proba(rows).argmax(axis=1)]


# -- what it is for ----------------------------------------------------------------------------------------------------
def test_classes_are_recognised_under_shift_where_a_plain_probe_fails(world, model):
    plain = LogisticRegression(C=10).fit(unit_rows(world.labelled), world.labels)
    expected = (plain.predict(unit_rows(world.shifted)) == world.shifted_labels).mean()
    assert (likely(model, world.shifted) == world.shifted_labels).mean() > expected + 0.05
    assert (likely(model, world.id_test) == world.id_labels).mean() > 0.97


def test_unknown_classes_are_told_from_shifted_known_ones(world, model):
    known = np.concatenate([model.ood_score(world.id_test), model.ood_score(world.shifted)])
    unknown = model.ood_score(world.unknown)
    assert auroc(known, unknown) > 0.97
    nearest = wildspec.graph.search.NeighborIndex(world.labelled)  # the distance to labelled samples alone
    far = [nearest.search(rows, 1)[0][:, 0] for rows in (world.id_test, world.shifted, world.unknown)]
    assert auroc(known, unknown) > auroc(np.concatenate(far[:2]), far[2]) + 0.05


def test_decisions_keep_known_and_reject_unknown(world, model):
    kept_id, kept_shifted = (np.mean(model.predict(rows) != -1) for rows in (world.id_test, world.shifted))
    assert kept_id >= 0.95
    assert kept_shifted > 0.9
    assert np.mean(model.predict(world.unknown) == -1) > 0.75


def test_the_id_threshold_rejects_more_than_the_joint_one(world):
    strict = SpectralClassifier(threshold="id", random_state=0).fit(world.labelled, world.labels, world.wild)
    assert np.mean(strict.predict(world.shifted) == -1) > 0.8  # unlike the labelled samples
    scores = strict.ood_score(world.shifted)
    np.testing.assert_array_equal(strict.predict(world.shifted) == -1, scores > strict.threshold_)


def test_the_shares_of_the_pool_are_estimated(world, model):
    assert model.shifted_share_ == pytest.approx((world.wild_kind > 0).mean(), abs=0.03)
    assert model.unknown_share_ == pytest.approx((world.wild_kind == 2).mean(), abs=0.08)


def test_something_far_from_everything_is_rejected(world, model, rng):
    """Neither near labelled nor near wild samples: the opposite direction of all of them."""
    assert (model.predict(-world.labelled) == -1).all()
    assert (model.predict(-world.wild) == -1).all()


def test_in_distribution_samples_are_rejected_no_more_often_than_promised():
    """Over worlds and calibration draws: the mean false-alarm rate of the "id" threshold is at most alpha."""
    rates = []
    for seed in range(12):
        world = make_world(seed, per_class=40)
        model = SpectralClassifier(threshold="id", alpha=0.1, held_out=0.4, random_state=seed)
        model.fit(world.labelled, world.labels, world.wild)
        rates.append(np.mean(model.predict(world.id_test) == -1))
    # the rate of one draw is Beta(n + 1 - r, r), standard deviation about 0.04 with n = 48, plus that of 120 test samples
    assert np.mean(rates) <= 0.1 + 3 * 0.05 / np.sqrt(12)
    assert np.mean(rates) > 0.03  # and it is no idle threshold


def test_p_values_are_the_conformal_formula(world, model):
    scores, held = model.ood_score(world.shifted[:20]), model.calibration_.scores
    expected = [(1 + sum(h >= s for h in held)) / (len(held) + 1) for s in scores]
    np.testing.assert_allclose(model.p_value(world.shifted[:20]), expected)


# -- the shape of the answers ------------------------------------------------------------------------------------------
def test_answers_have_the_shapes_they_promise(world, model):
    rows = world.shifted[:7]
    assert model.predict_proba(rows).shape == (7, 3)
    np.testing.assert_allclose(model.predict_proba(rows).sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(model.decision_function(rows)), model.predict_proba(rows), atol=1e-12)
    assert model.transform(rows).shape == (7, 16)
    assert ((model.ood_score(rows) >= 0) & (model.ood_score(rows) <= 1)).all()


def test_two_classes_have_log_odds(world):
    two = world.labels < 2
    model = SpectralClassifier(random_state=0).fit(world.labelled[two], world.labels[two], world.wild)
    probabilities = model.predict_proba(world.shifted)
    np.testing.assert_allclose(model.decision_function(world.shifted), np.log(probabilities[:, 1] / probabilities[:, 0]))


def test_every_row_is_decided_on_its_own(world, model):
    whole = model.ood_score(world.shifted)
    np.testing.assert_allclose([model.ood_score(row[None])[0] for row in world.shifted[:10]], whole[:10], atol=1e-5)
    np.testing.assert_allclose(model.ood_score(world.shifted[::-1])[::-1], whole, atol=1e-5)


def test_y_minus_one_and_x_wild_are_the_same(world, model):
    rows = np.concatenate([world.labelled, world.wild])
    y = np.concatenate([world.labels, np.full(len(world.wild), -1)])
    marked = SpectralClassifier(random_state=0).fit(rows, y)
    np.testing.assert_allclose(marked.ood_score(world.shifted), model.ood_score(world.shifted), atol=1e-6)


def test_the_same_seed_gives_the_same_model_and_another_one_another(world, model):
    again = SpectralClassifier(random_state=0).fit(world.labelled, world.labels, world.wild)
    np.testing.assert_array_equal(again.ood_score(world.shifted), model.ood_score(world.shifted))
    other = SpectralClassifier(random_state=1).fit(world.labelled, world.labels, world.wild)
    assert (other.ood_score(world.shifted) != model.ood_score(world.shifted)).any()


@pytest.mark.parametrize(
    "change",
    [
        {"n_components": 3}, {"n_neighbors": 25}, {"eta_l": 2.0}, {"eta_u": 0.2}, {"diffusion_time": 6.0},
        {"metric": "euclidean"}, {"mutual": True}, {"attribute": 0.6}, {"rounds": 0}, {"held_out": 0.5}, {"max_bank": 100},
        {"classifier": GaussianNB()},
    ],
)  # fmt: skip
def test_every_parameter_changes_the_result(world, model, change):
    other = SpectralClassifier(random_state=0, **change).fit(world.labelled, world.labels, world.wild)
    assert np.abs(other.ood_score(world.shifted) - model.ood_score(world.shifted)).max() > 1e-4


@pytest.mark.parametrize(("classes", "expected"), [(3, 16), (12, 24), (70, 128)])
def test_eigenvectors_are_twice_the_classes_within_limits(classes, expected, rng):
    rows, y = rng.normal(size=(2 * classes, 4)), np.arange(2 * classes) % classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert SpectralClassifier().fit(rows, y).model_.settings.graph.n_components == expected
        assert SpectralClassifier(n_components=5).fit(rows, y).model_.settings.graph.n_components == 5


def test_alpha_moves_the_threshold(world, model):
    other = SpectralClassifier(random_state=0, alpha=0.2).fit(world.labelled, world.labels, world.wild)
    assert other.threshold_ < model.threshold_


def test_explanations_name_true_neighbours(world, model):
    found = model.explain(world.unknown[:3], neighbours=4)
    rows = unit_rows(world.labelled)
    kept = np.sort(model._rows)  # the others are held out
    for explanation, query in zip(found, unit_rows(world.unknown[:3]), strict=True):
        order = kept[np.argsort(np.linalg.norm(rows[kept] - query, axis=1))[:4]]
        assert [neighbour.row for neighbour in explanation.neighbours] == order.tolist()
        assert [neighbour.label for neighbour in explanation.neighbours] == [str(world.labels[row]) for row in order]
    decided = ["rejected" if p == -1 else str(p) for p in model.predict(world.unknown[:3])]
    assert [explanation.decision for explanation in found] == decided
    assert "threshold" in str(found[0])


# -- scikit-learn ------------------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:no wild samples", "ignore:.*held-out labelled samples cannot promise")
def test_pipeline_grid_search_cross_validation_and_clone(world):
    rows = np.concatenate([world.labelled, world.wild[:100]])
    y = np.concatenate([world.labels, np.full(100, -1)])
    pipeline = make_pipeline(StandardScaler(), SpectralClassifier(metric="euclidean", random_state=0)).fit(rows, y)
    assert np.mean(pipeline.predict(world.id_test) == world.id_labels) > 0.85
    search = GridSearchCV(SpectralClassifier(random_state=0), {"n_neighbors": [5, 10]}, cv=2)
    search.fit(world.labelled, world.labels)
    assert search.best_params_["n_neighbors"] in (5, 10)
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
        model.to_state()


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
    assert set(found.tolist()) == {"cat", "dog", "eel", -1}
    assert model.classes_.tolist() == ["cat", "dog", "eel"]
    mixed = np.array([*names.tolist(), *[None] * len(world.wild)], dtype=object)
    again = SpectralClassifier(random_state=0).fit(np.concatenate([world.labelled, world.wild]), mixed)
    np.testing.assert_allclose(again.ood_score(world.shifted), model.ood_score(world.shifted), atol=1e-6)


# -- choosing ----------------------------------------------------------------------------------------------------------
def test_cv_picks_the_setting_that_validates_best_and_never_sees_ood_labels(world):
    search = SpectralClassifierCV(
        SpectralClassifier(random_state=0), param_grid={"n_components": [1, 12], "n_neighbors": [10]}, repeats=2
    ).fit(world.labelled, world.labels, world.wild)
    means = {entry["params"]["n_components"]: entry["mean"] for entry in search.results_}
    assert means[12] > means[1] + 0.1  # one eigenvector cannot hold three classes
    assert search.best_params_["n_components"] == 12
    assert search.best_score_ == means[12]
    direct = SpectralClassifier(n_components=12, random_state=0).fit(world.labelled, world.labels, world.wild)
    np.testing.assert_array_equal(search.ood_score(world.shifted), direct.ood_score(world.shifted))
    np.testing.assert_array_equal(search.predict(world.shifted), direct.predict(world.shifted))


def test_eta_is_among_what_is_chosen(world):
    """By default n_neighbors, n_components and eta_l are tried; a list of grids is taken one after the other."""
    search = SpectralClassifierCV(SpectralClassifier(random_state=0), param_grid=[{"eta_l": [0.0]}, {"eta_l": [0.3]}])
    search.fit(world.labelled, world.labels, world.wild)
    assert [entry["params"] for entry in search.results_] == [{"eta_l": 0.0}, {"eta_l": 0.3}]
    from wildspec.estimators.spectral_cv import GRID

    assert {name for grid in GRID for name in grid} == {"n_neighbors", "n_components", "eta_l"}


def test_tune_improves_a_bad_start(world):
    poor = SpectralClassifier(n_components=1, random_state=0).fit(world.labelled, world.labels, world.wild)
    tuned = SpectralClassifier(n_components=1, tune=True, random_state=0).fit(world.labelled, world.labels, world.wild)
    assert tuned.model_.settings.graph.n_components > 1
    right = [np.mean(likely(m, world.shifted) == world.shifted_labels) for m in (poor, tuned)]
    assert right[1] > right[0]


# -- growing -----------------------------------------------------------------------------------------------------------
def test_partial_fit_is_close_to_a_full_refit(world):
    early, late = world.wild[:300], world.wild[300:]
    grown = SpectralClassifier(random_state=0).fit(world.labelled, world.labels, early).partial_fit(late)
    full = SpectralClassifier(random_state=0).fit(world.labelled, world.labels, world.wild)
    assert grown.n_wild_ == full.n_wild_ == len(world.wild)
    rows = np.concatenate([world.id_test, world.shifted, world.unknown])
    assert np.mean(likely(grown, rows) == likely(full, rows)) > 0.98
    assert np.corrcoef(grown.ood_score(rows), full.ood_score(rows))[0, 1] > 0.97
    assert np.mean(grown.predict(rows) == full.predict(rows)) > 0.93


def test_partial_fit_takes_wild_samples_only(world, model):
    with pytest.raises(InputError, match="adds wild samples only"):
        clone_of(model).partial_fit(world.labelled, world.labels)
    same = clone_of(model).partial_fit(world.wild[:5], np.full(5, -1))
    assert same.n_wild_ == model.n_wild_ + 5


def test_partial_fit_without_a_graph_says_so(world):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = SpectralClassifier(random_state=0).fit(world.labelled, world.labels)
    with pytest.raises(InputError, match="no graph to grow"):
        plain.partial_fit(world.wild)


def clone_of(model):
    return SpectralClassifier.from_state(*model.to_state())


# -- keeping -----------------------------------------------------------------------------------------------------------
def test_a_bundle_decides_as_the_model_did(world, model, tmp_path):
    model.save(tmp_path / "MODEL")
    loaded = wildspec.load(tmp_path / "MODEL")
    rows = np.concatenate([world.id_test, world.shifted, world.unknown])
    np.testing.assert_allclose(loaded.ood_score(rows), model.ood_score(rows), rtol=1e-12)
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    np.testing.assert_allclose(loaded.predict_proba(rows), model.predict_proba(rows), rtol=1e-12)
    np.testing.assert_array_equal(loaded.p_value(rows), model.p_value(rows))
    np.testing.assert_allclose(loaded.transform(rows), model.transform(rows), rtol=1e-9)
    assert [str(e) for e in loaded.explain(rows[:2])] == [str(e) for e in model.explain(rows[:2])]
    assert loaded.get_params() == model.get_params()
    grown = [m.partial_fit(world.shifted[:40]).ood_score(rows) for m in (loaded, clone_of(model))]
    np.testing.assert_allclose(grown[0], grown[1], atol=1e-6)


@pytest.mark.filterwarnings("ignore:no wild samples")
def test_models_without_a_graph_or_with_names_are_kept_too(world, tmp_path):
    names = np.array(["cat", "dog", "eel"])[world.labels]
    model = SpectralClassifier(random_state=0).fit(world.labelled, names)
    model.save(tmp_path / "MODEL")
    loaded = wildspec.load(tmp_path / "MODEL")
    np.testing.assert_array_equal(loaded.predict(world.shifted), model.predict(world.shifted))
    assert loaded.classes_.tolist() == ["cat", "dog", "eel"]


def test_a_large_graphs_index_is_rebuilt_as_it_was(world, monkeypatch):
    monkeypatch.setattr("wildspec.graph.search.EXACT_UP_TO", 100)
    model = SpectralClassifier(random_state=0).fit(world.labelled, world.labels, world.wild)
    assert model.model_.wild.graph.neighbors.method == "ivf"
    assert 0.8 < model.recall_ <= 1
    np.testing.assert_array_equal(clone_of(model).ood_score(world.shifted), model.ood_score(world.shifted))


def test_a_damaged_state_is_refused(model):
    arrays, record = model.to_state()
    for name in ("labelled", "bank.rows", "ranks.sums", "held_scores"):
        with pytest.raises(CheckpointError):
            SpectralClassifier.from_state({k: v for k, v in arrays.items() if k != name}, record)
    with pytest.raises(CheckpointError):
        SpectralClassifier.from_state(arrays | {"labels": arrays["labels"] + 9}, record)
    with pytest.raises(CheckpointError):
        SpectralClassifier.from_state(arrays, {k: v for k, v in record.items() if k != "classes"})


# -- errors ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"n_components": 0}, InputError, "n_components must be at least 1"),
        ({"n_neighbors": 1}, InputError, "n_neighbors must be at least 2"),
        ({"n_neighbors": 2.5}, InputTypeError, "n_neighbors must be a whole number"),
        ({"eta_u": 0}, InputError, "eta_u must be greater than 0"),
        ({"eta_l": -1}, InputError, "eta_l must be 0 or greater"),
        ({"metric": "manhattan"}, InputError, "metric must be one of"),
        ({"alpha": 0}, InputError, "alpha must lie strictly between"),
        ({"held_out": 1.0}, InputError, "held_out must lie strictly between"),
        ({"attribute": 2}, InputError, "attribute must lie in"),
        ({"diffusion_time": -1}, InputError, "diffusion_time must be"),
        ({"threshold": "both"}, InputError, "threshold must be one of"),
        ({"engine": "dask"}, InputError, "engine must be one of"),
        ({"detector": "vim"}, InputError, "detector must be one of"),
        ({"classifier": "svm"}, InputError, "classifier must be one of"),
        ({"classifier": 3}, InputTypeError, "classifier must be 'auto' or"),
    ],
)
def test_a_wrong_parameter_is_one_clear_line(world, change, kind, text):
    with pytest.raises(kind, match=text) as caught:
        SpectralClassifier(**change).fit(world.labelled, world.labels)
    assert "\n" not in str(caught.value)


def test_classes_are_named_from_all_labelled_samples_and_scores_from_those_not_held_out(world, model):
    """The probe for samples like the labelled ones is scikit-learn's on all of them; the held-out ones touch no score."""
    from wildspec.estimators.joint import fit_joint

    fitted = model.model_
    kept = model._rows
    held = np.setdiff1d(np.arange(len(world.labels)), kept)
    assert len(held) == len(model._held_rows) > 0
    order = np.r_[kept, held]
    aligned = fitted.wild.shift.align(unit_rows(world.labelled[order]), np.zeros(len(order)))
    oracle = LogisticRegression(C=10.0, max_iter=300).fit(aligned, world.labels[order])
    np.testing.assert_allclose(fitted.naming.probabilities(aligned), oracle.predict_proba(aligned), atol=1e-6)
    alone = fit_joint(fitted.labelled, fitted.labels, unit_rows(world.wild), 3, fitted.settings)
    rows = unit_rows(np.concatenate([world.id_test, world.shifted, world.unknown]))
    np.testing.assert_array_equal(alone.decide(rows).score, fitted.decide(rows).score)
    assert np.abs(alone.decide(rows).probabilities - fitted.decide(rows).probabilities).max() > 1e-6
