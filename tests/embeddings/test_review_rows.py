"""Questions and answers of the estimator: rows as the user knows them, kept in bundles, mistakes in one line."""

import json

import numpy as np
import pytest

import wildspec
from wildspec import SpectralClassifier
from wildspec.data.embeddings import EmbeddingTable
from wildspec.embeddings.table_fit import fit_tables
from wildspec.errors import CheckpointError, InputError, InputTypeError

NAMES = np.array(["cat", "dog", "owl"])


@pytest.fixture
def named(world):
    return SpectralClassifier(random_state=0).fit(world.labelled, NAMES[world.labels], X_wild=world.wild)


def test_few_held_out_samples_calibrate_in_turns_after_answers_too(rng):
    """2,100 labelled samples, 21 held out: alpha = 1 % needs 99."""
    labels = np.arange(2100) % 3
    rows = (rng.normal(size=(2100, 6)) + 6 * np.eye(3, 6)[labels]).astype(np.float32)
    model = SpectralClassifier(held_out=0.01, alpha=0.01, random_state=0).fit(rows, labels, rng.normal(size=(60, 6)))
    before = model.thresholds_.held
    model.answer(dict.fromkeys(model.questions(3).tolist(), "unknown"))
    assert np.isfinite(model.threshold_)
    assert model.thresholds_.held == before
    assert model.thresholds_.in_turns


def test_bounds_on_rows_that_the_rule_looks_at(world):
    few = SpectralClassifier(random_state=0, max_bank=100).fit(world.labelled, NAMES[world.labels], X_wild=world.wild)
    review = few.review()
    seen = few.questions(1000).tolist()
    assert review.about(seen[:1])[0].name == seen[0]
    other = next(row for row in range(len(world.wild)) if row not in seen)
    with pytest.raises(InputError, match=rf"{other} .*100"):
        review.about([other])


def test_undo_makes_a_passed_over_sample_passed_over_again(named):
    review = named.review()
    first = review.ask(3)
    review.skip(first[:1])
    review.answer({first[0]: "cat"})
    assert review.undo() == first[0]
    assert first[0] not in review.ask(1000)


@pytest.mark.parametrize("answer", ["-1", float("nan"), "x" * 1001])
def test_answers_that_no_model_can_hold(named, answer):
    with pytest.raises(InputError, match="answer"):
        named.answer({0: answer})


@pytest.mark.parametrize("answer", ["nan", "inf", 10**20])
def test_numbers_that_no_model_can_hold(world, answer):
    model = SpectralClassifier(random_state=0).fit(world.labelled, world.labels + 0.0, X_wild=world.wild)
    with pytest.raises(InputError, match="answer"):
        model.answer({0: answer})


def test_a_new_class_may_be_a_number_that_the_old_type_cannot_hold(world, tmp_path):
    model = SpectralClassifier(random_state=0).fit(world.labelled, world.labels.astype(np.uint8), X_wild=world.wild)
    strange = np.flatnonzero(world.wild_kind == 2)[:12]
    width = model.transform(world.shifted[:2]).shape
    model.answer(dict.fromkeys(strange.tolist(), 300))
    assert model.classes_.tolist() == [0, 1, 2, 300]
    assert model.transform(world.shifted[:2]).shape == width
    model.save(tmp_path / "M")
    assert wildspec.load(tmp_path / "M").classes_.tolist() == [0, 1, 2, 300]


@pytest.mark.parametrize("given", [["cat"], None, "cat"])
def test_answers_that_name_no_samples(named, given):
    with pytest.raises(InputTypeError, match=r"a dictionary.* got (list|NoneType|str)"):
        named.answer(given)


def test_another_name_for_a_new_class_may_be_longer_than_the_first(world, named):
    strange = np.flatnonzero(world.wild_kind == 2)[:12].tolist()
    named.answer(dict.fromkeys(strange, "elk"))
    named.answer(dict.fromkeys(strange, "a much longer name"))
    assert named.classes_.tolist() == [*NAMES, "a much longer name"]
    assert "a much longer name" in named.predict(world.wild[strange])


def simulated(world, model, rows):
    likely = NAMES[model.predict_proba(world.wild[rows]).argmax(axis=1)]
    return {int(r): "unknown" if world.wild_kind[r] == 2 else str(c) for r, c in zip(rows, likely, strict=True)}


def test_ask_answer_ask_again_and_keep_it_all(world, named, tmp_path):
    rows = named.questions(12)
    assert len(set(rows.tolist())) == 12
    assert named.answer(simulated(world, named, rows)) is named
    assert not set(named.questions(300, rule="boundary").tolist()) & set(rows.tolist())
    assert (named.calibration_.scores > named.threshold_).mean() <= named.alpha
    named.save(tmp_path / "M")
    again = wildspec.load(tmp_path / "M")
    np.testing.assert_array_equal(again.ood_score(world.unknown), named.ood_score(world.unknown))
    np.testing.assert_array_equal(again.questions(5), named.questions(5))
    more = simulated(world, named, named.questions(8))
    np.testing.assert_allclose(again.answer(more).ood_score(world.shifted), named.answer(more).ood_score(world.shifted))
    assert len(named.explain(world.shifted[:2])) == 2
    assert named.transform(world.shifted[:2]).shape == (2, 32)


def test_a_new_class_joins_the_classes_and_the_bundle(world, named, tmp_path):
    strange = np.flatnonzero(world.wild_kind == 2)[:30]
    named.answer(dict.fromkeys(strange.tolist(), "a much longer name"))
    assert named.classes_.tolist() == [*NAMES, "a much longer name"]
    named.save(tmp_path / "M")
    again = wildspec.load(tmp_path / "M")
    assert again.predict_proba(world.shifted).shape[1] == 4
    np.testing.assert_array_equal(again.predict(world.unknown), named.predict(world.unknown))


def test_rows_are_those_of_the_users_tables(world, tmp_path):
    both = np.concatenate([world.labelled, world.wild[:100]])
    y = np.r_[world.labels, np.full(100, -1)]
    marked = SpectralClassifier(random_state=0).fit(both, y, X_wild=world.wild[100:])
    count = len(both)
    assert set(marked.questions(1000, "random").tolist()) == set(range(len(world.labelled), count + len(world.wild) - 100))
    wild = world.wild.copy()
    wild[3] = np.nan  # such a row is left out, the others keep their numbers
    np.savez(tmp_path / "known.npz", X=world.labelled, y=world.labels)
    np.savez(tmp_path / "wild.npz", X=wild)
    tables = EmbeddingTable(tmp_path / "known.npz"), EmbeddingTable(tmp_path / "wild.npz")
    made = fit_tables(*tables, None, 0).model
    assert set(made.questions(1000, "random").tolist()) == set(range(len(wild))) - {3}


def test_mistakes_are_one_line_and_change_nothing(world, named):
    before = named.ood_score(world.shifted)
    for given, word in [({4000: "cat"}, "4000"), ({"x.jpg": "cat"}, "x.jpg"), ({0: "Cat"}, "case"),
                        ({0: "elk", 1: "Elk"}, "case"), ({True: "cat"}, "True")]:  # fmt: skip
        with pytest.raises(InputError, match=word) as caught:
            named.answer(given)
        assert "\n" not in str(caught.value)
    np.testing.assert_array_equal(named.answer({}).ood_score(world.shifted), before)
    with pytest.raises(InputError, match="boundary"):
        named.questions(3, rule="best")
    named.answer({0: "cat"})
    with pytest.raises(InputError, match="partial_fit"):
        named.partial_fit(world.wild)
    with pytest.warns(UserWarning, match="no wild"):
        alone = SpectralClassifier(random_state=0).fit(world.labelled, world.labels)
    with pytest.raises(InputError, match="wild samples"):
        alone.questions(3)


def test_answers_that_do_not_fit_the_bundle_are_refused(world, named, tmp_path):
    from wildspec.bundle import write_bundle
    from wildspec.embeddings.state import to_state

    named.answer({0: "cat", 1: "unknown"})
    arrays, record = to_state(named)
    broken = {
        "rows": ({**arrays, "answers.rows": np.array([0, 10**6])}, record),
        "given": (arrays, record | {"answers": record["answers"] | {"given": ["cat"]}}),
        "head": ({**arrays, "answers.weights": arrays["answers.weights"][:2], "answers.bias": np.zeros(2)}, record),
        "known": (arrays, record | {"answers": record["answers"] | {"known": 9}}),
        "form": (arrays, record | {"answers": record["answers"] | {"spread": -1}}),
        "numbers": ({**arrays, "wild.rows": arrays["wild.rows"][1:]}, record),
    }
    for name, (tensors, model) in broken.items():
        write_bundle(tmp_path / name, "embeddings", json.loads(json.dumps(model)), {"embeddings.safetensors": tensors})
        with pytest.raises(CheckpointError):
            wildspec.load(tmp_path / name)
