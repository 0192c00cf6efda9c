"""``partial_fit``: what joins, what is left out, and what a promise rests on afterwards."""

import warnings

import numpy as np
import pytest
import torch

from shifted_world import make_world
from wildspec import SpectralClassifier
from wildspec.errors import InputError

WORLD = make_world(8, per_class=60)


def clouds(rng, count, width=64, classes=3):
    """Classes as Gaussian clouds that touch: what was learned by heart scores lower than what is new."""
    labels = np.arange(count) % classes
    return (rng.normal(size=(count, width)) + 2.5 * np.eye(classes, width)[labels]).astype(np.float32), labels


def test_samples_that_calibrate_are_not_learned_from() -> None:
    """Given all labelled samples once more, as somebody who feeds batches would: false alarms stay at alpha."""
    before, after = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        (rows, labels), (fresh, _) = clouds(rng, 300), clouds(rng, 2000)
        wild = clouds(rng, 100)[0]
        model = SpectralClassifier(held_out=0.7, random_state=seed).fit(rows, labels, wild)
        before.append(np.mean(model.predict(fresh) == -1))
        with pytest.warns(UserWarning, match=r"210 .*held out"):
            model.partial_fit(rows, labels)
        after.append(np.mean(model.predict(fresh) == -1))
    assert np.mean(before) < 0.07
    assert np.mean(after) < 0.07, "held-out samples were learned from"


def test_wild_samples_without_a_graph_are_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SpectralClassifier(random_state=0).fit(WORLD.labelled, WORLD.labels, WORLD.wild[:15])
    with pytest.raises(InputError, match=r"20 wild.*call fit"):
        model.partial_fit(WORLD.wild[15:40])


def test_a_large_pool_keeps_who_is_shifted() -> None:
    """The rule looks at 100 of the pool; five more samples do not turn the others into unshifted ones."""
    wild = np.concatenate([WORLD.shifted, WORLD.wild])
    model = SpectralClassifier(random_state=0, max_bank=100).fit(WORLD.labelled, WORLD.labels, wild)
    share = np.mean(model.model_.wild_shifted > 0.5)
    assert share > 0.2
    model.partial_fit(WORLD.wild[:5])
    assert np.mean(model.model_.wild_shifted > 0.5) == pytest.approx(share, abs=0.1)


def test_new_rows_are_named_after_all_rows_of_fit() -> None:
    """Wild rows first: row 30 of X is a labelled one and must not be the name of a new wild one."""
    rows = np.concatenate([WORLD.wild[:30], WORLD.labelled])
    y = np.r_[np.full(30, -1), WORLD.labels]
    model = SpectralClassifier(random_state=0).fit(rows, y)
    model.partial_fit(WORLD.wild[30:36])
    assert set(model.questions(100)) <= {*range(30), *range(len(rows), len(rows) + 6)}
    assert len(model.questions(100)) == 36


def test_probabilities_are_calibrated_again() -> None:
    few = np.concatenate([np.flatnonzero(WORLD.labels == c)[:12] for c in range(3)])
    rest = np.setdiff1d(np.arange(len(WORLD.labels)), few)
    model = SpectralClassifier(random_state=0).fit(WORLD.labelled[few], WORLD.labels[few], WORLD.wild)
    before = model.temperature_
    model.partial_fit(WORLD.labelled[rest], WORLD.labels[rest])
    assert model.temperature_ != before


def test_as_many_labels_as_rows() -> None:
    model = SpectralClassifier(random_state=0).fit(WORLD.labelled, WORLD.labels, WORLD.wild)
    with pytest.raises(InputError, match=r"4 rows.* 3"):
        model.partial_fit(WORLD.labelled[:4], WORLD.labels[:3])


@pytest.mark.parametrize("kind", ["bytes", "column", "tensor", "objects"])
def test_labels_of_every_kind_that_fit_takes(kind) -> None:
    names = np.array(["cat", "dog", "eel"])[WORLD.labels]
    given = {
        "bytes": names.astype("S"), "column": WORLD.labels[:, None], "tensor": torch.from_numpy(WORLD.labels),
        "objects": np.array([*names.tolist()[:-1], None], dtype=object),
    }[kind]  # fmt: skip
    plain = WORLD.labels if given[0] == WORLD.labels[0] else names
    model = SpectralClassifier(random_state=0).fit(WORLD.labelled[::2], plain[::2], WORLD.wild)
    model.partial_fit(WORLD.labelled[1::2], given[1::2])
    again = SpectralClassifier(random_state=0).fit(WORLD.labelled[::2], plain[::2], WORLD.wild)
    truth = plain[1::2].astype(object)
    truth[[label is None for label in given[1::2]]] = -1
    again.partial_fit(WORLD.labelled[1::2], truth)
    np.testing.assert_array_equal(model.ood_score(WORLD.shifted), again.ood_score(WORLD.shifted))


def test_gaps_among_numbers_are_refused() -> None:
    model = SpectralClassifier(random_state=0).fit(WORLD.labelled, WORLD.labels, WORLD.wild)
    with pytest.raises(InputError, match=r"y contains NaN \(1 .*-1"):
        model.partial_fit(WORLD.labelled[:4], np.array([0, 1, np.nan, -1]))
