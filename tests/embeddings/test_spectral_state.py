"""SpectralClassifier over time: grown by new wild samples, kept in a bundle, refused when damaged."""

import json
import warnings

import numpy as np
import pytest

import wildspec
from shifted_world import likely
from wildspec import SpectralClassifier
from wildspec.embeddings.state import from_state, to_state
from wildspec.errors import CheckpointError, InputError


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


@pytest.mark.parametrize("shift", [1, 0, np.True_, np.False_])
def test_a_shift_that_counts_as_true_or_false_is_kept(world, tmp_path, shift):
    model = SpectralClassifier(random_state=0, shift=shift).fit(world.labelled, world.labels, world.wild)
    model.save(tmp_path / "M")
    np.testing.assert_array_equal(wildspec.load(tmp_path / "M").ood_score(world.shifted), model.ood_score(world.shifted))


def test_a_random_state_that_is_a_generator_is_drawn_from_once(world, tmp_path):
    given = np.random.RandomState(3)
    model = SpectralClassifier(random_state=given).fit(world.labelled, world.labels, world.wild)
    model.save(tmp_path / "M")
    for name in ("N", "O"):
        wildspec.load(tmp_path / "M").save(tmp_path / name)
    stored = [json.loads((tmp_path / name / "model.json").read_text())["seed"] for name in "MNO"]
    assert len(set(stored)) == 1


def test_partial_fit_takes_labelled_samples_too(world, model):
    """As if the bank and the probe had had them from the start; a class that fit has not seen is refused."""
    more = clone_of(model).partial_fit(world.id_test, world.id_labels)
    assert len(more.model_.labels) == len(model.model_.labels) + len(world.id_test)
    before, after = (np.mean(likely(m, world.id_test) == world.id_labels) for m in (model, more))
    assert after >= before
    assert more.n_wild_ == model.n_wild_
    with pytest.raises(InputError, match="new class"):
        clone_of(model).partial_fit(world.id_test[:2], np.array([0, 17]))
    same = clone_of(model).partial_fit(world.wild[:5], np.full(5, -1))
    assert same.n_wild_ == model.n_wild_ + 5


def clone_of(model):
    return from_state(SpectralClassifier, *to_state(model))


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


def test_an_approximate_index_is_rebuilt_as_it_was(world):
    model = SpectralClassifier(search="ivf", random_state=0).fit(world.labelled, world.labels, world.wild)
    assert model.model_.graph.neighbors.method == "ivf"
    assert 0.8 < model.recall_ <= 1
    np.testing.assert_array_equal(clone_of(model).ood_score(world.shifted), model.ood_score(world.shifted))


def test_a_damaged_state_is_refused(model):
    arrays, record = to_state(model)
    for name in ("labelled", "bank.rows", "centre", "held.scores"):
        with pytest.raises(CheckpointError):
            from_state(SpectralClassifier, {k: v for k, v in arrays.items() if k != name}, record)
    with pytest.raises(CheckpointError):
        from_state(SpectralClassifier, arrays | {"labels": arrays["labels"] + 9}, record)
    with pytest.raises(CheckpointError):
        from_state(SpectralClassifier, arrays, {k: v for k, v in record.items() if k != "classes"})


@pytest.mark.parametrize(
    "names",
    [
        np.array([False, True]), np.array([3, 300], np.uint16), np.array([2**63, 2**63 + 1], np.uint64),
        np.array([0.5, 1.0], np.float32) * 2, np.array(["\u00e4", "\u65e5\u672c"]),
    ],
    ids=["bool", "uint16", "uint64", "float32", "text"],
)  # fmt: skip
def test_classes_of_every_type_come_back_and_are_never_taken_for_a_rejection(names, tmp_path):
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(40, 6)), np.arange(40) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = SpectralClassifier(alpha=np.float32(0.5), random_state=0).fit(rows, names[y])
    fitted.save(tmp_path / "m")
    loaded = wildspec.load(tmp_path / "m")
    asked = rng.normal(size=(60, 6))
    found = fitted.predict(asked).tolist()
    assert loaded.predict(asked).tolist() == found
    assert loaded.classes_.tolist() == names.tolist()
    rejected = fitted.ood_score(asked) > fitted.threshold_
    expected = np.where(rejected, None, names.astype(object)[fitted.predict_proba(asked).argmax(axis=1)]).tolist()
    missing = "rejected" if names.dtype.kind == "U" else -1
    assert found == [missing if name is None else name for name in expected]
    assert 0 < sum(rejected) < 60
