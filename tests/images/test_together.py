"""Copies and groups of labelled images stand on one side of a split; near-copies are told of."""

import warnings
from typing import Any

import numpy as np
import pytest

from quick_wild import quick
from wildspec.data import ArraySource
from wildspec.errors import InputError
from wildspec.images.parts import Parts, split_sets
from wildspec.images.reading import read_sets
from wildspec.images.telling import tell


def pictures(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 16, 16, 3), dtype=np.uint8)


def parts(images: np.ndarray, labels: np.ndarray, groups: Any = None) -> Parts:
    read = read_sets(ArraySource(images, labels), None, 16)
    return split_sets(read, held_out=0.3, alpha=0.1, seed=0, groups=groups)


def places(found: Parts) -> dict[str, list[int]]:
    return {name: [int(n) for n in getattr(found, name).names] for name in ("train", "validation", "calibration")}


def test_copies_are_learned_from_or_held_out_never_both() -> None:
    images = np.repeat(pictures(80), 4, axis=0)  # copies of image i are rows 4 i to 4 i + 3
    found = places(parts(images, np.repeat(np.arange(80) % 2, 4)))
    who = {name: [row // 4 for row in rows] for name, rows in found.items()}
    assert not set(who["train"]) & (set(who["validation"]) | set(who["calibration"]))
    assert not set(who["validation"]) & set(who["calibration"])
    for name in ("validation", "calibration"):
        assert len(set(who[name])) == len(who[name]), "one of each counts"
    assert len(who["train"]) == 4 * len(set(who["train"])), "all copies of a training image are learned from"
    assert sum(len(set(rows)) for rows in who.values()) == 80


@pytest.mark.parametrize("groups", [".*(?=.)", lambda name: int(name) // 10, [i // 10 for i in range(600)]])
def test_groups_of_a_user_are_kept_together(groups: Any) -> None:
    """Names are row numbers; rows 10 g to 10 g + 9 are a group, in which both classes occur."""
    found = parts(pictures(600), np.arange(600) % 2, groups)
    who = {name: {row // 10 for row in rows} for name, rows in places(found).items()}
    assert found.grouped, "so that the threshold does not rest on training images in turns, which groups would share"
    assert not who["train"] & (who["validation"] | who["calibration"])
    assert not who["validation"] & who["calibration"]
    assert len(who["train"] | who["validation"] | who["calibration"]) == 60


def test_without_copies_nothing_changes() -> None:
    images, labels = pictures(90), np.arange(90) % 3
    assert places(parts(images, labels)) == places(parts(images, labels, np.arange(90)))
    assert "copies" not in parts(images, labels).record["labelled"]["split"]["parts"]


def test_near_copies_are_told_of_and_copies_need_not_be() -> None:
    images, labels = np.repeat(pictures(80), 2, axis=0), np.repeat(np.arange(80) % 2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts(images, labels)
        parts(pictures(160), np.arange(160) % 2)
    near = images.copy()
    near[1::2, 0, 0, 0] ^= 1  # another picture by its bytes
    with pytest.warns(UserWarning, match=r"100% of the labelled images.*groups"):
        parts(near, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts(near, labels, np.arange(160) // 2)


def test_mistakes() -> None:
    images, labels = pictures(90), np.arange(90) % 3
    for groups, said in (([1, 2], "each of the 90 labelled images, got 2"), ("[", "no regular expression")):
        with pytest.raises(InputError, match=said):
            parts(images, labels, groups)
    with pytest.raises(InputError, match="copies and groups count once"):
        parts(images, labels, np.zeros(90, int))


def test_a_pattern_that_matches_no_name_is_refused() -> None:
    with pytest.raises(InputError, match=r"film\[0-9\]\+.* none of the 90 "):
        parts(pictures(90), np.arange(90) % 3, "film[0-9]+")


@pytest.mark.parametrize(("groups", "count"), [(None, None), (lambda name: int(name) // 2, 45), ("^[1-5](?=.)", 45)])
def test_groups_are_counted(groups: Any, count: int | None) -> None:
    """The pattern takes 10 to 59 together by their first digit; the other forty are alone."""
    said = list[str]()
    tell(parts(pictures(90), np.arange(90) % 3, groups), said.append)
    expected = [] if count is None else [f"groups: {count}, of 90 labelled images"]
    assert [line for line in said if "groups" in line] == expected


def test_a_fit_takes_groups_and_says_what_was_left_out() -> None:
    model = quick(backbone="small", size=16, method="erm", epochs=0.05, pictures=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit((pictures(240), np.arange(240) % 2), groups=np.arange(240) // 4)
    counts = {name: part["count"] for name, part in model.record_["data"]["labelled"]["split"]["parts"].items()}
    assert sum(counts.values()) == 240
    assert counts["copies"] == 3 * (counts["validation"] + counts["calibration"]), "of each group of four one counts"


@pytest.mark.parametrize("count", [0, 7])
def test_copies_that_were_left_out_are_told_of_where_there_are_some(count: int) -> None:
    found, said = parts(pictures(90), np.arange(90) % 3), list[str]()
    found.record["labelled"]["split"]["parts"]["copies"] = {"count": count}
    tell(found, said.append)
    assert any("copies" in line for line in said) == (count > 0)


def test_a_picture_in_two_classes_is_told_of() -> None:
    images, labels = np.concatenate([pictures(80), pictures(3)]), np.r_[np.arange(80) % 2, [1, 1, 1]]
    with pytest.warns(UserWarning, match=r"2 labelled images .*another class, first 80 \(1\).* 0 \(0\)"):
        parts(images, labels)
