"""Splits: disjoint, complete, of the paper's sizes, with hashes anyone can recompute."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wildspec.data import Split, fraction_split, half_split, holdout, wild_split
from wildspec.errors import InputError


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 300), st.integers(0, 99), st.sampled_from(["in_distribution", "semantic", "semantic_with_test"]))
def test_parts_are_disjoint_and_complete(n: int, seed: int, scheme: str) -> None:
    split = wild_split(n, seed, scheme)
    everyone = [i for part in split.members.values() for i in part.tolist()]
    assert sorted(everyone) == list(range(n))


@pytest.mark.parametrize(
    ("split", "sizes"),
    [
        (half_split(50_000, 0), {"labelled": 25_000, "unlabelled": 25_000}),
        (wild_split(25_000, 0, "in_distribution"), {"train": 15_000, "id_validation": 2_500, "wild_validation": 7_500}),
        (wild_split(10_000, 0), {"train": 4_900, "validation": 2_100, "test": 3_000}),
        (wild_split(73_257, 0, "semantic_with_test"), {"train": 51_280, "validation": 21_977}),
    ],
)
def test_sizes_are_the_papers(split: Split, sizes: dict[str, int]) -> None:
    assert {name: len(part) for name, part in split.members.items()} == sizes
    assert split.to_json()["parts"].keys() == sizes.keys()


def test_same_seed_same_split_other_seed_another() -> None:
    one, again, other = half_split(1000, 5), half_split(1000, 5), half_split(1000, 6)
    assert one.to_json() == again.to_json()
    assert one.hash("labelled") != other.hash("labelled")
    overlap = len(set(one["labelled"].tolist()) & set(other["labelled"].tolist()))
    assert 200 < overlap < 300  # 250 expected of independent halves, standard deviation 8


def test_stratified_halves_hold_half_of_each_class(rng: np.random.Generator) -> None:
    labels = rng.integers(0, 7, 501)
    split = half_split(501, 0, labels=labels)
    total = np.bincount(labels)
    for part in split.members.values():
        assert (np.abs(np.bincount(labels[part], minlength=7) - total / 2) <= 0.5).all()


def test_holdout_keeps_every_class_on_both_sides() -> None:
    labels = np.array([0] * 100 + [1] * 3 + [2] * 2 + [3] * 1 + [-1] * 40)
    split = holdout(labels, 0.1, seed=4)
    train, held = labels[split["train"]], labels[split["holdout"]]
    assert {c: int((held == c).sum()) for c in (-1, 0, 1, 2, 3)} == {-1: 4, 0: 10, 1: 1, 2: 1, 3: 0}
    assert set(train.tolist()) == {-1, 0, 1, 2, 3}
    assert sorted([*split["train"].tolist(), *split["holdout"].tolist()]) == list(range(len(labels)))


def test_hash_is_sha256_of_the_sorted_members() -> None:
    split = Split({"a": np.array([2, 0, 10]), "b": np.array([1, 3, 4, 5, 6, 7, 8, 9])}, 11, seed=0)
    assert split.hash("a") == hashlib.sha256(b"0\n2\n10\n").hexdigest()
    named = Split(split.members, 11, 0, ids=[f"id{i}" for i in range(11)])
    assert named.hash("a") == hashlib.sha256(b"0 id0\n2 id2\n10 id10\n").hexdigest()
    assert split.to_json()["parts"]["a"] == {"count": 3, "sha256": split.hash("a")}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: half_split(0, 0), "n must be at least 1"),
        (lambda: half_split(4, 0, labels=np.zeros(3, int)), r"one entry per image \(4\)"),
        (lambda: fraction_split(9, {"a": 0.5, "b": 0.4}, 0), "add up to 1, got 0.9"),
        (lambda: holdout(np.zeros(9, int), 1.0, 0), "strictly between 0 and 1"),
        (lambda: wild_split(9, 0, "other"), "scheme must be one of in_distribution, "),
        (lambda: half_split(9, 0)["test"], "split must be one of labelled, unlabelled"),
        (lambda: Split({"a": np.array([0, 1]), "b": np.array([1])}, 3, 0), "exactly once"),
        (lambda: Split({"a": np.array([0])}, 1, 0, ids=[]), "ids must have one entry"),
    ],
)
def test_bad_input_is_named(make: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()  # type: ignore[operator]
