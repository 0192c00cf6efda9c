"""Known classes under a shift, or unknown classes? Parts against slow formulas, the answer in worlds of known truth."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import cohen_kappa_score

from shifted_world import make_world
from wildspec import SpectralClassifier
from wildspec.embeddings.kinship import STRANGERS, Kinship, _nearest, agreements, displacement, kappa, kinship, torn
from wildspec.embeddings.shift import estimate_shift
from wildspec.graph.search import unit_rows


def blobs(seed, known, unknown, *, width=64, size=80, move=None, clean=True):
    """Labelled rows, labels, pool, and new rows: known, moved known, unknown; clouds of deviation 1, about 16 apart."""
    rng = np.random.default_rng(seed)
    centres = 16 * rng.normal(size=(known + unknown, width)) / np.sqrt(2 * width)
    step = np.zeros(width) if move is None else move * np.ones(width) / np.sqrt(width)

    def draw(low, high, moved=0.0):
        classes = np.repeat(np.arange(low, high), size)
        return centres[classes] + rng.normal(size=(len(classes), width)) + moved * step, classes

    labelled, labels = draw(0, known)
    parts = [draw(0, known)[0]] if clean else []
    if move is not None:
        parts.append(draw(0, known, 1.0)[0])
    moved = 0.0 if move is None else 1.0
    parts.append(draw(known, known + unknown, moved)[0])
    new = [draw(0, known)[0], draw(0, known, 1.0)[0], draw(known, known + unknown, moved)[0]]
    return labelled, labels, np.concatenate(parts), new


def digits(seed, known):
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    mine, rest = (rng.permutation(np.flatnonzero(np.isin(y, known) == which)) for which in (True, False))
    a, b, half = int(0.4 * len(mine)), int(0.7 * len(mine)), len(rest) // 2
    pool = np.concatenate([mine[a:b], rest[:half]])
    return X[mine[:a]], y[mine[:a]], X[pool], (X[mine[b:]], y[mine[b:]], X[rest[half:]])


# -- parts -------------------------------------------------------------------------------------------------------------
def test_kappa_is_scikit_learns(rng):
    for classes in (2, 5):
        one, other = rng.integers(0, classes, size=(2, 60))
        other[:30] = one[:30]
        assert kappa(one, other, classes) == pytest.approx(cohen_kappa_score(one, other))
    assert kappa(np.zeros(4, int), np.zeros(4, int), 3) == 0.0  # one name for all says nothing


def test_displacement_of_exchangeable_classes_is_one_and_of_a_step_its_length(rng):
    """One unknown class drawn like the known ones: 1 on average (but for the spread of tau^2). All classes moved by a step:
    |step|^2 / ((1 + 1/C) tau^2)."""
    found = []
    for seed in range(400):
        own = np.random.default_rng(seed)
        centres = own.normal(size=(5, 40))
        rows = np.concatenate([centre + 0.1 * own.normal(size=(30, 40)) for centre in centres])
        labels = np.repeat(np.arange(4), 30)
        found.append(displacement(rows[:120], labels, rows[120:], 4))
    assert np.mean(found) == pytest.approx(1.0, abs=0.06)
    step = np.full(40, 2.0)
    means = np.stack([rows[:120][labels == c].mean(axis=0) for c in range(4)])
    tau = ((means - means.mean(axis=0)) ** 2).sum() / 3
    assert displacement(rows[:120], labels, rows[:120] + step, 4) == pytest.approx(160 / (1.25 * tau), rel=0.02)


def test_displacement_does_not_take_the_noise_of_few_samples_for_distance_between_classes():
    """Three samples of each class, as noisy as classes are apart: the means of classes alone lie a third further apart."""
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        centres = rng.normal(size=(41, 300))
        rows = np.repeat(centres[:40], 3, axis=0) + rng.normal(size=(120, 300))
        strange = centres[40] + rng.normal(size=(50, 300))
        found.append(displacement(rows, np.repeat(np.arange(40), 3), strange, 40))
    assert np.mean(found) == pytest.approx(1.0, abs=0.12)


def test_displacement_of_a_few_samples_of_the_known_classes_is_not_their_noise():
    """Eight samples drawn like the labelled ones: their mean lies off by the noise alone, which is taken off; on average
    nothing is left, and in about half of the draws less than nothing, which counts as 0."""
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        centres = rng.normal(size=(4, 50))
        draw = [np.repeat(centres, count, axis=0) + 2 * rng.normal(size=(4 * count, 50)) for count in (30, 2)]
        found.append(displacement(draw[0], np.repeat(np.arange(4), 30), draw[1], 4))
    assert 0.3 < np.mean(np.array(found) == 0) < 0.85
    assert np.mean(found) < 0.1


def test_agreement_is_the_share_of_known_samples(rng):
    """Well separated classes: both views name every known sample rightly, and unknown ones at random."""
    labelled, labels, _, (same, _, strange) = blobs(3, 5, 3)
    own, theirs = agreements(unit_rows(labelled), labels, unit_rows(np.concatenate([same, strange])), 5)
    assert own == pytest.approx(1.0, abs=0.01)
    assert theirs == pytest.approx(5 / 8, abs=0.08)


def test_the_error_is_that_of_kappa_in_units_of_the_labelled_ones():
    labelled, labels, _, (same, _, strange) = blobs(3, 5, 3)
    rows, group = unit_rows(labelled), unit_rows(np.concatenate([same, strange]))
    own, theirs = agreements(rows, labels, group, 5)
    found = kinship(rows, labels, rows, group, group)
    assert found.kappa == theirs
    assert found.agreement == pytest.approx(theirs / own)
    assert found.error == pytest.approx(((1 - theirs**2) / len(group)) ** 0.5 / own)
    assert found.error > 0.01


def test_nobody_is_given_the_name_of_a_class_that_is_not_there(rng):
    """The mean of no samples is no place: a sample opposite to all classes would be nearest to it."""
    means = np.array([[1.0, 0.2, 0], [1, -0.2, 0.1], [1, 0, -0.3]])
    labels = np.arange(60) % 3 + np.arange(60) % 3 // 2  # 0, 1 and 3
    rows = (means[np.arange(60) % 3] + 0.01 * rng.normal(size=(60, 3))).astype(np.float32)
    asked = np.concatenate([rows, -rows])
    found = _nearest(rows, labels, asked)
    centre = np.stack([rows[labels == c].mean(axis=0) for c in (0, 1, 3)])
    centre -= centre.mean(axis=0)
    cosine = asked @ centre.T / np.linalg.norm(centre, axis=1)
    np.testing.assert_array_equal(found, np.array([0, 1, 3])[cosine.argmax(axis=1)])
    np.testing.assert_array_equal(found[:60], labels)
    assert _nearest(rows[:0], labels[:0], asked).tolist() == [0] * 120


def test_one_class_few_samples_or_one_feature_are_no_evidence(rng):
    rows = rng.normal(size=(100, 8)).astype(np.float32)
    labels = np.repeat([0, 1], 50)
    assert kinship(rows, np.zeros(100, int), rows, rows, rows) == STRANGERS
    assert kinship(rows, labels, rows, rows[:39], rows[:39]) == STRANGERS
    assert kinship(rows[:, :1], labels, rows[:, :1], rows[:, :1], rows[:, :1]) == STRANGERS
    assert kinship(rows, labels, rows, rows, rows) == STRANGERS  # no half of these features tells the classes apart
    assert not STRANGERS.believed


def test_value_is_the_formula():
    assert Kinship(0.5, 0.1, 2.0, 0.4, 0.3).value == pytest.approx(0.5 - 0.1 + 0.03 * np.log(2.0))


def test_torn_counts_edges_between_names(rng):
    """A slow loop; two clouds named by cloud are whole, one cloud named at random is torn as chance says."""
    rows = rng.normal(size=(60, 3)).astype(np.float32)
    names = rng.integers(0, 3, size=60)
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    edges = [names[i] != names[j] for i in range(60) for j in np.argsort(apart[i])[1:11]]
    share = np.bincount(names) / 60
    assert torn(rows, names) == pytest.approx(np.mean(edges) / (1 - (share**2).sum()))
    clouds = np.repeat([[0.0], [50.0]], 30, axis=0) + rng.normal(size=(60, 3))
    assert torn(clouds.astype(np.float32), np.repeat([0, 1], 30)) == 0
    assert torn(rows, np.zeros(60, int)) == 1.0


def test_a_group_that_is_torn_is_no_kin():
    assert Kinship(0.9, 0.1, 1.0, 0.9, 0.5).believed
    assert not Kinship(0.9, 0.1, 1.0, 0.9, 0.9).believed


# -- the answer --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("unknown", [1, 2, 3])
def test_unknown_clouds_are_no_shift_and_are_rejected_for_every_random_state(unknown):
    for state in range(4):
        labelled, labels, pool, (same, _, strange) = blobs(state, 3, unknown)
        model = SpectralClassifier(metric="euclidean", random_state=state).fit(labelled, labels, pool)
        assert model.shifted_share_ == 0
        assert np.mean(model.predict(strange) == -1) > 0.95
        assert np.mean(model.predict(same) != -1) > 0.9
        assert model.unknown_share_ == pytest.approx(unknown / (3 + unknown), abs=0.08)


def test_a_pool_of_unknown_samples_alone_is_no_shift():
    labelled, labels, pool, (_, _, strange) = blobs(5, 3, 2, clean=False)
    model = SpectralClassifier(metric="euclidean", random_state=0).fit(labelled, labels, pool)
    assert model.shifted_share_ == 0
    assert np.mean(model.predict(strange) == -1) > 0.95


@pytest.mark.parametrize("known", [range(6), range(3), (3, 5, 8), range(8)])
def test_unknown_digits_are_no_shift_and_rejection_does_not_depend_on_the_random_state(known):
    labelled, labels, pool, (same, classes, strange) = digits(0, list(known))
    rejected, kept = [], []
    for state in range(5):
        model = SpectralClassifier(random_state=state).fit(labelled, labels, pool)
        assert model.shifted_share_ == 0
        rejected.append(np.mean(model.predict(strange) == -1))
        found = model.predict(same)
        kept.append(np.mean(found != -1))
        assert np.mean(found[found != -1] == classes[found != -1]) > 0.95
    assert min(rejected) > 0.75
    assert max(rejected) - min(rejected) < 0.02
    assert min(kept) > 0.9


def test_moved_classes_are_a_shift_with_unknown_ones_among_them():
    for state in range(3):
        labelled, labels, pool, (same, moved, strange) = blobs(state, 5, 2, move=12.0)
        model = SpectralClassifier(metric="euclidean", random_state=state).fit(labelled, labels, pool)
        assert model.shifted_share_ > 0.4
        assert np.mean(model.predict(moved) != -1) > 0.95
        assert np.mean(model.predict(strange) == -1) > 0.9
        assert np.mean(model.predict(same) != -1) > 0.9


def test_a_shift_without_unknown_samples_rejects_few():
    labelled, labels, pool, (_, moved, _) = blobs(1, 5, 0, move=12.0)
    model = SpectralClassifier(metric="euclidean", random_state=0).fit(labelled, labels, pool)
    assert model.shifted_share_ == pytest.approx(0.5, abs=0.02)
    assert np.mean(model.predict(moved) != -1) > 0.9
    assert model.unknown_share_ < 0.05


def test_labels_decide_whether_a_group_is_a_shift():
    """The same pool: with the true labels the moved group is kin to the classes, with shuffled ones it is not."""
    world = make_world(1)
    rows, pool = unit_rows(world.labelled), unit_rows(world.wild)
    assert estimate_shift(rows, pool, world.labels) is not None
    assert estimate_shift(rows, pool, np.random.default_rng(0).permutation(world.labels)) is None


# -- the promise without a held-out sample -----------------------------------------------------------------------------
def test_calibration_without_held_out_samples_keeps_the_promise_on_average():
    """alpha = 0.1, 30 labelled samples, new samples from the same cloud: at most alpha rejected, over many draws."""
    rates = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        labelled, pool, new = rng.normal(size=(30, 6)), rng.normal(size=(30, 6)), rng.normal(size=(60, 6))
        model = SpectralClassifier(metric="euclidean", alpha=0.1, random_state=0)
        model.fit(labelled, np.arange(30) % 2, pool)
        assert len(model.calibration_.scores) == 30
        rates.append(np.mean(model.predict(new) == -1))
    error = np.std(rates) / np.sqrt(len(rates))
    assert np.mean(rates) <= 0.1 + 2 * error
    assert np.mean(rates) > 0.04  # and it is no idle threshold


def test_the_threshold_is_a_quantile_of_distances_to_the_other_samples(rng):
    rows = rng.normal(size=(40, 5))
    model = SpectralClassifier(metric="euclidean", random_state=0).fit(rows, np.arange(40) % 2, rng.normal(size=(40, 5)))
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    limit = np.sort(apart.min(axis=1))[int(np.ceil(41 * 0.95)) - 1]
    asked = rng.normal(size=(200, 5)) * 1.5
    nearest = np.linalg.norm(asked[:, None] - rows[None], axis=2).min(axis=1)
    np.testing.assert_array_equal(model.predict(asked) == -1, nearest > limit)
