"""The likeliest mistakes with SpectralClassifier: each is one line that says what to do next."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from wildspec import SpectralClassifier
from wildspec.errors import WildspecError

ROWS = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
Y = np.arange(40) % 2


def spoiled(value):
    rows = ROWS.copy()
    rows[3, 2] = value
    return rows


FITS = {
    "no classes": ((ROWS, None), "requires y to be passed.*-1 for wild"),
    "classes one-hot": ((ROWS, np.eye(2)[Y]), r"y should be a 1d array.*argmax\(axis=1\)"),
    "gaps among numbers": ((ROWS, np.where(Y == 0, np.nan, 1.0)), "y contains NaN.*mark wild samples with -1"),
    "names beside numbers": ((ROWS, np.array(["a", 1], object)[Y]), "y mixes names and numbers"),
    "numbers beside names": ((ROWS, np.array([1, "a"], object)[Y]), "y mixes names and numbers"),
    "dates": ((ROWS, np.array(["2020-01-01", "2021-01-01"], "datetime64[D]")[Y]), "type: datetime64.*numbers or names"),
    "a table of groups": ((ROWS, Y, ROWS, Y[:, None]), r"groups must be one entry.*shape \(40, 1\)"),
    "too few groups": ((ROWS, Y, ROWS, Y[:-1]), "group for each of the 40 rows of X, got 39"),
    "too few classes": ((ROWS, Y[:-1]), "40 rows and y 39 entries"),
    "real numbers": ((ROWS, Y + 0.5), "label type.*whole numbers or names"),
    "one column": ((ROWS[:, 0], Y), r"2D array.*rows of embeddings \(n, d\)"),
    "images": ((np.zeros((40, 3, 8, 8), np.uint8), Y), "dim 4.*through a network first"),
    "text": (([["a", "b"]] * 40, Y), "convert string.*through an embedding model first"),
    "a column of vectors": ((pd.Series(list(ROWS)), Y), r"np\.stack"),
    "vectors of several lengths": (([[1.0, 2.0], [1.0]] * 20, Y), "of one length"),
    "a wild pool that is a column of vectors": ((ROWS, Y, pd.Series(list(ROWS))), r"X_wild.*np\.stack"),
    "NaN": ((spoiled(np.nan), Y), "X contains NaN.*remove these rows"),
    "infinite": ((spoiled(np.inf), Y), "X contains infinity.*remove these rows"),
    "one sample": ((ROWS[:1], Y[:1]), r"1 sample\(s\).*give more rows"),
    "a wild pool of one column": ((ROWS, Y, ROWS[0]), r"2D array.*rows of embeddings \(n, d\)"),
    "the labels as wild pool": ((ROWS, Y, Y), r"X_wild.*2D array.*rows of embeddings \(n, d\)"),
    "NaN in the wild pool": ((ROWS, Y, spoiled(np.nan)), "X_wild contains NaN.*remove these rows"),
    "a wild pool of another width": ((ROWS, Y, ROWS[:, :4]), "X_wild has 4 features, X has 6; use one embedding model"),
}


def refused(says, call):
    with pytest.raises(WildspecError, match=says) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("mistake", FITS)
def test_what_is_given_to_fit(mistake):
    given, says = FITS[mistake]
    refused(says, lambda: SpectralClassifier(random_state=0).fit(*given))


@pytest.mark.filterwarnings("ignore:no wild samples")
@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (ROWS[0], r"2D array.*one sample is x\[None\]"),
        (ROWS[:, :4], "expecting 6 features.*embedding model it was fitted with"),
        (spoiled(np.nan), "contains NaN.*remove these rows"), (ROWS[:0], r"0 sample\(s\).*give more rows"),
        (torch.zeros(2, 3, 8, 8), "dim 4.*through a network first"),
    ],
)  # fmt: skip
def test_what_is_asked(rows, says):
    model = SpectralClassifier(random_state=0).fit(ROWS, Y)
    refused(says, lambda: model.predict(rows))
    refused(says, lambda: model.explain(rows))
    refused(says, lambda: model.transform(rows))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"classifier": LogisticRegression}, r"classifier must be an object, LogisticRegression\(\), not the class"),
        ({"random_state": "seed"}, "random_state must be None, a whole number or a numpy RandomState"),
        ({"random_state": np.random.default_rng(0)}, "random_state must be None, a whole number or a numpy RandomState"),
        ({"random_state": -1}, "random_state must be.*got -1.*0 or more"),
        ({"alpha": 5}, "alpha must lie strictly between 0 and 1, got 5"),
        ({"n_neighbors": 10.0}, "n_neighbors must be a whole number, got float"),
    ],
)
def test_settings(settings, says):
    refused(says, lambda: SpectralClassifier(**settings).fit(ROWS, Y, ROWS))


@pytest.mark.filterwarnings("ignore:no wild samples")
@pytest.mark.parametrize("kind", [np.int8, np.int16, np.uint8, np.uint16, np.uint32, np.uint64, np.float32])
def test_rejection_is_minus_one_for_every_type_of_class_number(kind):
    model = SpectralClassifier(alpha=0.5, random_state=0).fit(ROWS, Y.astype(kind))
    asked = np.random.default_rng(1).normal(size=(60, 6))
    found = model.predict(asked)
    assert found.dtype.kind == ("f" if kind is np.float32 else "i")
    np.testing.assert_array_equal(found == -1, model.ood_score(asked) > model.threshold_)
    assert set(found.tolist()) == {-1, 0, 1}


@pytest.mark.parametrize(("times", "told"), [(3, True), (1, False)])
def test_a_pool_that_is_mostly_copies_is_told(times, told):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SpectralClassifier(random_state=0).fit(ROWS, Y, np.repeat(ROWS + 1, times, axis=0))
    assert any("copies" in str(warning.message) and "wild" in str(warning.message) for warning in caught) is told
