import math

import numpy as np
import pytest

from wildspec.embeddings.evidence import Bank, Ranks, Tail, evidence
from wildspec.embeddings.joint import known_share
from wildspec.graph.search import unit_rows


def slow_evidence(features, probabilities, rows, labels, own):
    """The three definitions in loops."""
    found = []
    for i, feature in enumerate(features):
        pairs = [(float(np.dot(feature, row)), label) for row, label in zip(rows, labels, strict=True)]
        similar = [pair for j, pair in enumerate(pairs) if j != own[i]]
        near = []
        for c in sorted(set(labels)):
            best = sorted((s for s, label in similar if label == c), reverse=True)[:5]
            near.append(sum(best) / len(best))
        near.sort(reverse=True)
        found.append([-max(probabilities[i]), -max(s for s, _ in similar), -(near[0] - near[1])])
    return np.array(found)


def test_evidence_is_its_definition(rng):
    rows, labels = unit_rows(rng.normal(size=(40, 6))), rng.permutation(np.repeat([0, 1, 2, 3], 10))
    features, probabilities = unit_rows(rng.normal(size=(9, 6))), rng.dirichlet(np.ones(4), size=9)
    own = np.array([3, -1, 7, -1, -1, 0, -1, 39, -1])
    bank, place = Bank.of(rows, labels, 4)
    inside = np.where(own >= 0, place[np.maximum(own, 0)], -1)
    found = evidence(features, probabilities, bank, inside)
    np.testing.assert_allclose(found, slow_evidence(features, probabilities, rows, labels.tolist(), own), atol=1e-6)


def test_a_class_with_fewer_than_five_samples_votes_with_what_it_has(rng):
    rows, labels = unit_rows(rng.normal(size=(8, 4))), np.array([0, 0, 0, 0, 0, 0, 1, 1])
    bank, _ = Bank.of(rows, labels, 2)
    features = unit_rows(rng.normal(size=(3, 4)))
    expected = slow_evidence(features, np.ones((3, 2)), rows, labels.tolist(), [-1] * 3)
    np.testing.assert_allclose(evidence(features, np.ones((3, 2)), bank), expected, atol=1e-6)


@pytest.mark.parametrize("size", [2, 3, 5, 6])
def test_a_sample_of_a_small_class_is_not_counted_among_its_own_voters(size, rng):
    """Classes of at most five samples: all of them vote, but for the sample that is asked about."""
    rows, labels = unit_rows(rng.normal(size=(10 + size, 4))), np.r_[np.zeros(10, np.int64), np.ones(size, np.int64)]
    bank, place = Bank.of(rows, labels, 2)
    own = np.arange(10 + size)
    expected = slow_evidence(rows, np.ones((len(rows), 2)), rows, labels.tolist(), own.tolist())
    np.testing.assert_allclose(evidence(rows, np.ones((len(rows), 2)), bank, place), expected, atol=1e-6)


def test_the_only_sample_of_a_class_has_that_class_as_an_absent_one(rng):
    rows = unit_rows(rng.normal(size=(7, 4)))
    with_it, _ = Bank.of(rows, np.array([0, 0, 0, 1, 1, 1, 2]), 3)
    without, _ = Bank.of(rows[:6], np.array([0, 0, 0, 1, 1, 1]), 3)
    for found, expected in zip(with_it.compare(rows[6:], np.array([6])), without.compare(rows[6:]), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_one_class_has_no_margin(rng):
    bank, _ = Bank.of(unit_rows(rng.normal(size=(5, 3))), np.zeros(5, np.int64), 1)
    nearest, margin = bank.compare(unit_rows(rng.normal(size=(4, 3))))
    np.testing.assert_array_equal(margin, 0)
    assert (nearest <= 1).all()


def test_blocks_do_not_matter(rng, monkeypatch):
    bank, _ = Bank.of(unit_rows(rng.normal(size=(20, 3))), np.arange(20) % 2, 2)
    features = unit_rows(rng.normal(size=(30, 3)))
    whole = bank.compare(features, np.arange(30) - 10)
    monkeypatch.setattr("wildspec.embeddings.evidence.BLOCK", 60)
    for a, b in zip(whole, bank.compare(features, np.arange(30) - 10), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_ranks_are_mean_ranks_of_summed_mean_ranks(rng):
    reference = rng.integers(0, 4, size=(15, 3)).astype(float)  # many ties
    asked = rng.integers(-1, 5, size=(6, 3)).astype(float)

    def place(values, value):
        return (sum(v < value for v in values) + sum(v <= value for v in values)) / (2 * len(values))

    def summed(row):
        return sum(place(reference[:, j], row[j]) for j in range(3))

    sums = [summed(row) for row in reference]
    expected = [
        (sum(s < summed(row) for s in sums) + sum(s <= summed(row) for s in sums) + 1) / (2 * len(sums) + 2) for row in asked
    ]
    np.testing.assert_allclose(Ranks.of(reference)(asked), expected)


def test_stranger_evidence_never_ranks_lower(rng):
    ranks = Ranks.of(rng.normal(size=(50, 3)))
    asked = rng.normal(size=(30, 3))
    assert (ranks(asked + 0.3) >= ranks(asked)).all()
    assert (ranks(asked) > 0).all()
    assert (ranks(asked) < 1).all()


def test_tail_is_low_inside_and_high_beyond():
    distances = np.linspace(1.0, 2.0, 101).astype(np.float32)
    tail = Tail.of(distances)
    assert tail.step == pytest.approx(1.99 + 0.49, abs=1e-3)
    assert tail(np.array([tail.step], np.float32))[0] == pytest.approx(0.5, abs=1e-3)
    assert tail(distances).max() < 0.001
    assert tail(np.array([3.0], np.float32))[0] > 0.999
    value = tail(np.array([2.3], np.float32))[0]
    assert value == pytest.approx(1 / (1 + math.exp((tail.step - np.float32(2.3)) / tail.width)), rel=1e-6)


def test_tail_of_distances_that_are_all_about_the_same_is_a_share_of_them():
    """Spread of 0.001 about 2: the step is a twentieth of the median away, not within rounding of what occurs."""
    tail = Tail.of(np.linspace(1.9995, 2.0005, 101).astype(np.float32))
    assert tail.step == pytest.approx(2.0005 + 0.05 * 2, abs=1e-3)
    assert tail.width == pytest.approx(0.05 * 2 / 8, rel=1e-3)


def test_tail_of_duplicates_is_usable():
    tail = Tail.of(np.zeros(10, np.float32))
    assert tail(np.zeros(2, np.float32)).max() < 0.5
    assert tail(np.ones(2, np.float32)).min() > 0.99


def test_two_groups_finds_the_cut_of_least_variance(rng):
    found = np.concatenate([rng.normal(size=(70, 3)), 6 + rng.normal(size=(30, 3))])
    assert known_share(found) == pytest.approx(0.7)
    total = np.sort((found / found.std(axis=0)).sum(axis=1))
    within = [i * total[:i].var() + (100 - i) * total[i:].var() for i in range(1, 100)]
    assert known_share(found) == (int(np.argmin(within)) + 1) / 100
    assert known_share(found[:1]) == 1.0
