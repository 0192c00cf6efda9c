"""SpectralClassifier: classes under shift, unknown ones rejected, the promise kept."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import wildspec
from shifted_world import likely, make_world
from wildspec import SpectralClassifier
from wildspec.decision.rule import fit_rule
from wildspec.decision.shift import find_shift
from wildspec.evaluation import auroc
from wildspec.graph.search import unit_rows


# -- what it is for ----------------------------------------------------------------------------------------------------
def test_classes_are_recognised_under_shift_where_a_plain_probe_fails(world, model):
    plain = LogisticRegression(C=10).fit(unit_rows(world.labelled), world.labels)
    expected = (plain.predict(unit_rows(world.shifted)) == world.shifted_labels).mean()
    assert (likely(model, world.shifted) == world.shifted_labels).mean() > expected + 0.05
    assert (likely(model, world.id_test) == world.id_labels).mean() > 0.97


def test_unknown_classes_are_told_from_shifted_known_ones(world, model):
    known = np.concatenate([model.ood_score(world.id_test), model.ood_score(world.shifted)])
    unknown = model.ood_score(world.unknown)
    assert auroc(known, unknown) > 0.95
    nearest = wildspec.graph.search.NeighborIndex(world.labelled)  # the distance to labelled samples alone
    far = [nearest.search(rows, 1)[0][:, 0] for rows in (world.id_test, world.shifted, world.unknown)]
    assert auroc(known, unknown) > auroc(np.concatenate(far[:2]), far[2]) + 0.02


def test_decisions_keep_known_and_reject_unknown(world, model):
    kept_id, kept_shifted = (np.mean(model.predict(rows) != -1) for rows in (world.id_test, world.shifted))
    assert kept_id >= 0.9  # 36 held-out samples: the rate of one draw scatters by 0.04
    assert kept_shifted > 0.8
    assert np.mean(model.predict(world.unknown) == -1) > 0.75


def test_what_the_shift_parameter_does(world, model):
    assert model.shift_test_["found"]
    assert model.shift_test_["p_value"] < 0.01
    blind = SpectralClassifier(shift=False, random_state=0).fit(world.labelled, world.labels, world.wild)
    assert not blind.shift_test_["found"]
    assert np.mean(blind.predict(world.shifted) == -1) > np.mean(model.predict(world.shifted) == -1) + 0.2
    forced = SpectralClassifier(shift=True, random_state=0).fit(world.labelled, world.labels, world.wild)
    np.testing.assert_array_equal(forced.ood_score(world.shifted), model.ood_score(world.shifted))


def test_a_rotation_of_all_features_changes_no_decision(world, model, rng):
    """Distances do not change by it, so nothing that rests on them may."""
    turn = np.linalg.qr(rng.normal(size=(world.labelled.shape[1],) * 2))[0]
    turned = SpectralClassifier(random_state=0).fit(world.labelled @ turn, world.labels, world.wild @ turn)
    for rows in (world.id_test, world.shifted, world.unknown):
        assert np.mean(turned.predict(rows @ turn) != model.predict(rows)) <= 0.05
        np.testing.assert_allclose(turned.ood_score(rows @ turn), model.ood_score(rows), atol=0.01)


def test_no_shift_is_found_where_there_is_none():
    """Fisher's test at 1 %: of 40 pools drawn like the labelled samples at most a few."""
    found = 0
    for seed in range(40):
        world = make_world(seed, shift=0.0, per_class=40)
        same = world.wild[world.wild_kind == 0]
        found += find_shift(unit_rows(world.labelled), unit_rows(same), seed=seed).found
    assert found <= 3  # P(more than 3 of 40 at 1 %) < 0.001


def test_copies_of_labelled_rows_do_not_void_the_promise(rng):
    """Half of the rows given four times: fresh samples are rejected at alpha all the same."""
    rates = []
    for seed in range(12):
        world = make_world(seed, per_class=40)
        twice = np.r_[np.arange(len(world.labels)), np.repeat(np.arange(0, len(world.labels), 2), 3)]
        model = SpectralClassifier(alpha=0.1, held_out=0.4, random_state=seed)
        model.fit(world.labelled[twice], world.labels[twice], world.wild)
        rates.append(np.mean(model.predict(world.id_test) == -1))
    assert np.mean(rates) <= 0.1 + 3 * 0.05 / np.sqrt(12)


def test_groups_stand_on_one_side_of_the_calibration_split(world):
    groups = np.arange(len(world.labels)) // 3
    model = SpectralClassifier(random_state=0).fit(world.labelled, world.labels, world.wild, groups=groups)
    held = np.setdiff1d(groups, groups[model._rows])
    assert len(held) == len(model._held_rows) > 0, "one sample of each group that nothing was learned from"


def test_the_shares_of_the_pool_are_estimated(world, model):
    assert model.shifted_share_ == pytest.approx((world.wild_kind > 0).mean(), abs=0.03)
    truth = (world.wild_kind == 2).mean()
    assert model.unknown_share_ == pytest.approx(truth, abs=0.12)
    assert model.unknown_interval_[0] <= truth <= model.unknown_interval_[1]


def test_something_far_from_everything_is_rejected(world, model, rng):
    """Neither near labelled nor near wild samples: the opposite direction of all of them."""
    assert (model.predict(-world.labelled) == -1).all()
    assert (model.predict(-world.wild) == -1).all()


def test_in_distribution_samples_are_rejected_no_more_often_than_promised():
    """Over worlds and calibration draws: the mean false-alarm rate is at most alpha."""
    rates = []
    for seed in range(12):
        world = make_world(seed, per_class=40)
        model = SpectralClassifier(alpha=0.1, held_out=0.4, random_state=seed)
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
    assert model.transform(rows).shape == (7, 32)
    assert np.isfinite(model.ood_score(rows)).all()


def test_two_classes_have_log_odds(world):
    two = world.labels < 2
    model = SpectralClassifier(random_state=0).fit(world.labelled[two], world.labels[two], world.wild)
    probabilities = model.predict_proba(world.shifted)
    np.testing.assert_allclose(model.decision_function(world.shifted), np.log(probabilities[:, 1] / probabilities[:, 0]))


def test_every_row_is_decided_on_its_own(world, model):
    whole = model.ood_score(world.shifted)
    np.testing.assert_allclose([model.ood_score(row[None])[0] for row in world.shifted[:10]], whole[:10], atol=1e-5)
    np.testing.assert_allclose(model.ood_score(world.shifted[::-1])[::-1], whole, atol=1e-5)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_y_minus_one_and_x_wild_are_the_same(world, metric):
    rows = np.concatenate([world.labelled, world.wild * 1.5])  # longer: their lengths must not set the scale
    y = np.concatenate([world.labels, np.full(len(world.wild), -1)])
    apart = SpectralClassifier(metric=metric, random_state=0).fit(world.labelled, world.labels, world.wild * 1.5)
    marked = SpectralClassifier(metric=metric, random_state=0).fit(rows, y)
    np.testing.assert_allclose(marked.ood_score(world.shifted), apart.ood_score(world.shifted), atol=1e-6)


def test_the_same_seed_gives_the_same_model_and_another_one_another(world, model):
    again = SpectralClassifier(random_state=0).fit(world.labelled, world.labels, world.wild)
    np.testing.assert_array_equal(again.ood_score(world.shifted), model.ood_score(world.shifted))
    other = SpectralClassifier(random_state=1).fit(world.labelled, world.labels, world.wild)
    assert (other.ood_score(world.shifted) != model.ood_score(world.shifted)).any()


@pytest.mark.parametrize(
    "change",
    [
        {"n_components": 3}, {"n_neighbors": 25}, {"shift": False}, {"metric": "euclidean"}, {"held_out": 0.5},
        {"max_bank": 100}, {"classifier": GaussianNB()},
    ],
)  # fmt: skip
def test_every_parameter_changes_the_result(world, model, change):
    other = SpectralClassifier(random_state=0, **change).fit(world.labelled, world.labels, world.wild)
    assert np.abs(other.ood_score(world.shifted) - model.ood_score(world.shifted)).max() > 1e-4


@pytest.mark.parametrize(("classes", "expected"), [(3, 32), (20, 40), (70, 128)])
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


def test_classes_are_named_from_all_labelled_samples_and_scores_from_those_not_held_out(world, model):
    """The probe for samples like the labelled ones is scikit-learn's on all of them; the held-out ones touch no score."""
    fitted = model.model_
    kept = model._rows
    held = np.setdiff1d(np.arange(len(world.labels)), kept)
    assert len(held) == len(model._held_rows) > 0
    order = np.r_[kept, held]
    aligned = fitted.shift.align(unit_rows(world.labelled[order]), np.zeros(len(order)))
    oracle = LogisticRegression(C=10.0, max_iter=300).fit(aligned, world.labels[order])
    np.testing.assert_allclose(fitted.naming.probabilities(aligned), oracle.predict_proba(aligned), atol=1e-6)
    alone = fit_rule(fitted.labelled, fitted.labels, unit_rows(world.wild), 3, fitted.settings)
    rows = unit_rows(np.concatenate([world.id_test, world.shifted, world.unknown]))
    np.testing.assert_array_equal(alone.decide(rows).score, fitted.decide(rows).score)
    assert np.abs(alone.decide(rows).probabilities - fitted.decide(rows).probabilities).max() > 1e-6


@pytest.mark.parametrize(("noise", "timid"), [(0.6, True), (1.5, False)])
def test_probabilities_mean_what_they_say(noise, timid, tmp_path):
    """Against what is seen on many fresh samples; without the temperature they are far off, to one side or the other."""
    world = make_world(5, per_class=400, noise=noise, shift=0.0)
    some = np.concatenate([np.flatnonzero(world.labels == c)[:80] for c in range(3)])
    model = SpectralClassifier(random_state=0).fit(world.labelled[some], world.labels[some], world.wild)
    said, right = model.predict_proba(world.id_test), likely(model, world.id_test) == world.id_labels
    plain = model.model_.decide(unit_rows(world.id_test)).probabilities
    off = plain.max(axis=1).mean() - right.mean()
    assert abs(off) > 0.02
    assert (off < 0) == (model.temperature_ < 1) == timid
    assert abs(said.max(axis=1).mean() - right.mean()) < abs(off) / 2
    np.testing.assert_array_equal(said.argmax(axis=1), plain.argmax(axis=1))
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(wildspec.load(tmp_path / "m").predict_proba(world.id_test), said)


@pytest.mark.filterwarnings("ignore:no wild samples")
@pytest.mark.parametrize("offset", [30.0, 1000.0, -300.0])
@pytest.mark.parametrize("pool", [True, False])
def test_a_euclidean_metric_does_not_care_where_the_origin_is(world, offset, pool, tmp_path):
    """Scaled to length 1 about a far origin, rows would differ in their last digits alone and the probe see nothing."""
    wild = world.wild if pool else None
    near = SpectralClassifier(metric="euclidean", random_state=0).fit(world.labelled, world.labels, wild)
    far = SpectralClassifier(metric="euclidean", random_state=0)
    far.fit(world.labelled + offset, world.labels, None if wild is None else wild + offset)
    expected = np.mean(likely(near, world.id_test) == world.id_labels)
    assert np.mean(likely(far, world.id_test + offset) == world.id_labels) >= expected - 0.02
    asked = np.concatenate([world.id_test, world.shifted, world.unknown])
    assert np.mean((near.predict(asked) == -1) == (far.predict(asked + offset) == -1)) > 0.9
    far.save(tmp_path / "m")
    np.testing.assert_array_equal(wildspec.load(tmp_path / "m").ood_score(asked + offset), far.ood_score(asked + offset))
