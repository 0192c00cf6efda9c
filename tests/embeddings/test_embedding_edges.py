"""Small rules of the embeddings route: class numbers of 64 bits, weights in a score, validation parts, seeds in a file."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

import wildspec
from wildspec import SpectralClassifier
from wildspec.decision.verdicts import with_rejected
from wildspec.errors import InputError


@pytest.mark.parametrize(("classes", "kind"), [
    (np.array([3, 2**63 + 5], np.uint64), object), (np.array([3, 200], np.uint8), np.int64), (np.array([3, -7]), np.int64),
    (np.array([0.5, 2.0]), np.float64), (np.array(["a", "b"]), np.dtype("<U8")), (np.array([True, False]), object),
])  # fmt: skip
def test_a_rejected_sample_does_not_change_the_others(classes: np.ndarray, kind: type) -> None:
    found = with_rejected(classes, np.array([False, True]))
    assert found.dtype == kind
    label = "rejected" if classes.dtype.kind == "U" else -1
    assert found.tolist() == [classes.tolist()[0], label]
    both = with_rejected(classes, np.array([True, False]))
    assert both.tolist() == [label, classes.tolist()[1]]
    none = with_rejected(classes, np.zeros(2, bool))
    assert none.tolist() == classes.tolist()
    if kind is np.int64:
        assert none.dtype == kind, "whatever is rejected"


def test_weights_count_in_the_score_and_wild_samples_do_not(world, model) -> None:
    rows = np.concatenate([world.id_test, world.shifted, world.wild[:10]])
    y = np.concatenate([world.id_labels, world.shifted_labels, np.full(10, -1)])
    weights = np.random.default_rng(0).uniform(0.1, 5, size=len(y))
    known = y >= 0
    predicted = model.predict(rows)
    expected = accuracy_score(y[known], predicted[known], sample_weight=weights[known])
    assert model.score(rows, y, weights) == pytest.approx(expected)
    assert abs(expected - model.score(rows, y)) > 1e-4, "the weights make a difference"


@pytest.mark.parametrize("kind", [bool, np.uint64, "S", object, "beside None"])
def test_the_score_of_classes_of_every_kind(world, kind) -> None:
    """-1 for what is rejected makes objects of some classes, and None beside numbers does so with y."""
    classes = {
        bool: np.array([False, True, True]), np.uint64: np.array([3, 4, 2**63 + 5], np.uint64),
        "S": np.array([b"cat", b"dog", b"eel"]), object: np.arange(3).astype(object), "beside None": np.arange(3),
    }[kind]  # fmt: skip
    model = SpectralClassifier(random_state=0).fit(world.labelled, classes[world.labels], world.wild)
    truth = classes[world.id_labels].tolist()
    right = np.mean([str(one) == (two.decode() if kind == "S" else str(two))
                     for one, two in zip(model.predict(world.id_test).tolist(), truth, strict=True)])  # fmt: skip
    assert 0.8 < right < 1
    if kind == "beside None":
        assert model.score([*world.id_test, *world.wild[:5]], [*truth, *[None] * 5]) == pytest.approx(right)
    else:
        assert model.score(world.id_test, classes[world.id_labels]) == pytest.approx(right)


def test_what_no_score_can_be_made_of(world, model) -> None:
    with pytest.raises(InputError, match=r"y contains NaN \(1 .*-1"):
        model.score(world.id_test[:3], np.array([0, 1, np.nan]))
    with pytest.raises(InputError, match=r"y holds names, '2'.* classes are numbers"):
        model.score(world.id_test[:2], np.array(["2", "1"]))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(world.id_test[:2], np.array([0, 1]), sample_weight=np.ones(3))


def test_a_generator_cannot_be_written_and_the_model_is_the_same_without_it(world, tmp_path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = SpectralClassifier(random_state=np.random.RandomState(5)).fit(world.labelled, world.labels, world.wild)
    fitted.save(tmp_path / "m")
    loaded = wildspec.load(tmp_path / "m")
    assert loaded.random_state is None
    np.testing.assert_array_equal(loaded.ood_score(world.shifted), fitted.ood_score(world.shifted))
    assert loaded.shift_test_ == fitted.shift_test_
