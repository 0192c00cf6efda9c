"""OSLPP: its parts against dense matrices and hand counts, the whole against a slow dense form."""

import numpy as np
import pytest
from scipy import linalg

from shifted_world import make_world
from wildspec.embeddings import OSLPP
from wildspec.embeddings.open_set.oslpp import confident, graph_sums, principal_directions, subspace
from wildspec.errors import InputError

LABELS = np.array([0, 0, 1, 1, 1, -1, -2, -2])


def dense_graph(labels):
    """W: 1 where two labels are equal and not -1."""
    return ((labels[:, None] == labels[None]) & (labels != -1)[:, None]).astype(float)


def test_the_graph_by_hand_and_its_sums():
    weights = dense_graph(LABELS)
    np.testing.assert_array_equal(weights.sum(axis=1), [2, 2, 3, 3, 3, 0, 2, 2])
    rows = np.random.default_rng(0).normal(size=(8, 5))
    degree, joined = graph_sums(rows, LABELS)
    np.testing.assert_allclose(degree, rows.T @ np.diag(weights.sum(axis=1)) @ rows)
    np.testing.assert_allclose(joined, rows.T @ weights @ rows)


def test_selected_samples_by_round():
    confidence = np.random.default_rng(0).permutation(10) / 10
    counts = [confident(np.zeros(10, dtype=int), confidence, 1, t, 10).sum() for t in range(1, 11)]
    assert counts == [1, 2, 3, 4, 5, 6, 7, 8, 9, 9]


def test_equal_confidences_are_never_above_one_another():
    assert not confident(np.zeros(4, dtype=int), np.full(4, 0.5), 1, 9, 10).any()


def test_the_eigenproblem_is_solved_and_scaled():
    rng = np.random.default_rng(1)
    rows, labels = rng.normal(size=(60, 6)), rng.integers(-2, 3, size=60)
    degree, joined = graph_sums(rows, labels)
    right = degree - joined + np.eye(6)
    found = subspace(rows, labels, 4)
    values = np.diag(found.T @ degree @ found)
    np.testing.assert_allclose(degree @ found, right @ found * values, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.T @ right @ found, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(values, np.sort(linalg.eigvals(np.linalg.solve(right, degree)).real)[::-1][:4])


def test_classes_whose_points_coincide_have_no_laplacian():
    rows = np.repeat(np.random.default_rng(2).normal(size=(2, 4)), 5, axis=0)
    degree, joined = graph_sums(rows, np.repeat([0, 1], 5))
    np.testing.assert_allclose(degree, joined)


@pytest.mark.parametrize("shape", [(40, 7), (5, 7)])
def test_principal_directions_are_those_of_the_covariance(shape):
    rows = np.random.default_rng(3).normal(size=shape)
    found = principal_directions(rows, 3)
    vectors = np.linalg.eigh(np.cov(rows.T))[1]
    np.testing.assert_allclose(np.abs(found.T @ vectors[:, ::-1][:, :3]), np.eye(3), atol=1e-6)


def slow(source, labels, target, *, n_reject, n_pca, n_components, rounds=10, center=False):
    """The steps one by one, with N x N matrices and all distances. Labels of the target, -1 = unknown."""

    def unit(rows):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    n, m, classes = len(source), len(target), labels.max() + 1
    rows = unit(np.concatenate([source, target]).astype(float))
    mean = rows.mean(axis=0)
    directions = np.linalg.svd(rows - mean, full_matrices=False)[2][:n_pca].T
    rows = unit((rows - mean if center else rows) @ directions)
    wild, selected, rejected = np.full(m, -1), set(), set()
    for t in range(1, rounds + 1):
        weights = dense_graph(np.concatenate([labels, wild]))
        laplacian = np.diag(weights.sum(axis=1)) - weights
        left, right = rows.T @ np.diag(weights.sum(axis=1)) @ rows, rows.T @ laplacian @ rows + np.eye(rows.shape[1])
        projected = rows @ linalg.eigh(left, right)[1][:, -n_components:]
        projected = unit(projected - projected.mean(axis=0))
        means = unit(np.stack([projected[:n][labels == c].mean(axis=0) for c in range(classes)]))
        distance = np.linalg.norm(projected[n:, None] - means, axis=2)
        q = np.exp(-distance) / np.exp(-distance).sum(axis=1, keepdims=True)
        told, sure = q.argmax(axis=1), q.max(axis=1)
        selected = set()
        for c in range(classes):
            own = [i for i in range(m) if told[i] == c]
            if own:
                place = int(np.floor(len(own) * max(0, 1 - t / (rounds - 1)) + 1e-9))
                selected |= {i for i in own if sure[i] > sorted(sure[own])[place]}
        selected -= rejected
        if t == 2:
            rejected |= set(np.argsort(sure)[:n_reject].tolist())
        if t >= 2:
            near, far = (projected[n:][sorted(part)] for part in (selected, rejected))
            for i in range(m):
                row = projected[n + i]
                if np.linalg.norm(far - row, axis=1).min() < np.linalg.norm(near - row, axis=1).min():
                    rejected.add(i)
        selected -= rejected
        wild = np.array([-2 if i in rejected else told[i] if i in selected else -1 for i in range(m)])
    return np.where(wild >= 0, wild, -1), len(rejected)


@pytest.mark.parametrize("center", [False, True])
def test_the_slow_dense_form_says_the_same(center):
    world = make_world(5, per_class=30)
    settings = {"n_reject": 40, "n_pca": 12, "n_components": 6, "center": center}
    model = OSLPP(**settings).fit(world.labelled, world.labels, world.wild)
    told, rejected = slow(world.labelled, world.labels, world.wild, **settings)
    np.testing.assert_array_equal(model.transduction_, told)
    assert model.n_rejected_ == rejected
    assert {-1, 0, 1, 2} == set(told)


def test_new_samples_and_the_pool_itself():
    world = make_world(5, per_class=30)
    model = OSLPP(40, n_pca=12, n_components=6).fit(world.labelled, world.labels, world.wild)
    again = model.predict(world.wild)
    named = model.transduction_ != -1
    np.testing.assert_array_equal(again[named], model.transduction_[named])
    assert (again == -1).sum() >= model.n_rejected_, "rejected samples stay rejected; uncertain ones go to the nearer set"
    assert (again == -1).sum() <= (~named).sum()
    np.testing.assert_array_equal(model.predict(world.unknown) == -1, model.ood_score(world.unknown) > 0)
    proba = model.predict_proba(world.shifted)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict_known(world.shifted))


def test_turning_all_rows_changes_no_label():
    world = make_world(6, per_class=30)
    turn = linalg.qr(np.random.default_rng(0).normal(size=(24, 24)))[0]
    one, other = (
        OSLPP(n_pca=12, n_components=6).fit(world.labelled @ by, world.labels, world.wild @ by) for by in (np.eye(24), turn)
    )
    np.testing.assert_array_equal(one.transduction_, other.transduction_)


def test_how_many_are_rejected_at_first_is_a_share_or_a_number():
    world = make_world(5, per_class=30)
    settings = {"n_pca": 12, "n_components": 6}
    share, number = (
        OSLPP(value, **settings).fit(world.labelled, world.labels, world.wild) for value in (0.25, len(world.wild) // 4)
    )
    np.testing.assert_array_equal(share.transduction_, number.transduction_)
    nobody = OSLPP(0, **settings).fit(world.labelled, world.labels, world.wild)
    assert nobody.n_rejected_ == 0
    assert (nobody.predict(world.wild) != -1).all()
    with pytest.raises(InputError, match="n_reject"):
        OSLPP(1.5).fit(world.labelled, world.labels, world.wild)


def test_one_known_class_is_refused():
    """q(c|x) of one class is 1 for every sample: nothing is more confident than another, and all would be rejected."""
    rows = np.random.default_rng(5).normal(size=(40, 4))
    with pytest.raises(InputError, match=r"OSLPP.* classes.*got 1.*OSNN"):
        OSLPP().fit(rows[:20], np.zeros(20, dtype=int), rows[20:])
