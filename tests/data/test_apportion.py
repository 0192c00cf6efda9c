"""Largest remainder is the whole-number split nearest to the exact quotas: checked against all splits there are."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wildspec.data.apportion import apportion
from wildspec.errors import InputError, InputTypeError


def nearest_distance(shares: list[int], total: int) -> Fraction:
    quota = [Fraction(share * total, sum(shares)) for share in shares]
    splits = (split for split in product(range(total + 1), repeat=len(shares)) if sum(split) == total)
    return min(sum(((a - q) ** 2 for a, q in zip(split, quota, strict=True)), Fraction(0)) for split in splits)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=3).filter(any), st.integers(0, 14))
def test_no_split_is_nearer_to_the_quotas(shares: list[int], total: int) -> None:
    parts = apportion([share / sum(shares) for share in shares], total)
    quota = [Fraction(share * total, sum(shares)) for share in shares]
    assert sum(parts) == total
    assert sum(((a - q) ** 2 for a, q in zip(parts, quota, strict=True)), Fraction(0)) == nearest_distance(shares, total)
    assert all(part == 0 for part, share in zip(parts, shares, strict=True) if share == 0)


@pytest.mark.parametrize(
    ("shares", "total", "parts"),
    [
        ((0.4, 0.5, 0.1), 128, (51, 64, 13)),  # the paper's mixture
        ((0.5, 0.5), 3, (2, 1)),  # a tie goes to the earlier share
        ((0.7, 0.3), 10, (7, 3)),  # 0.7 * 10 is 6.999... in floating point
        ((0.6, 0.1, 0.3), 25_000, (15_000, 2_500, 7_500)),
        ((0.0, 1.0), 5, (0, 5)),
    ],
)
def test_known_cases(shares: tuple[float, ...], total: int, parts: tuple[int, ...]) -> None:
    assert apportion(shares, total) == parts


@pytest.mark.parametrize(
    ("shares", "found"),
    [((0, 0), r"\(0, 0\)"), ((), r"\(\)"), ((-1.0, 2.0), r"\(-1, 2\)"), ((1.0, float("nan")), r"\(1, nan\)"),
     ((1.0, float("inf")), r"\(1, inf\)")],
)  # fmt: skip
def test_shares_that_cannot_be_split_by_are_one_line(shares: tuple[float, ...], found: str) -> None:
    with pytest.raises(InputError, match=f"^shares must be 0 or greater, finite, and not all 0, got {found}$"):
        apportion(shares, 5)


def test_the_total_is_a_whole_number_of_0_or_more() -> None:
    assert apportion((0.5, 0.5), 0) == (0, 0)
    with pytest.raises(InputError, match=r"total .*at least 0, got -1"):
        apportion((0.5, 0.5), -1)
    with pytest.raises(InputTypeError, match=r"total .*whole number"):
        apportion((0.5, 0.5), 2.5)  # type: ignore[arg-type]


def test_a_large_total_adds_up() -> None:
    """Quotas of a few billions have fewer digits behind the point than the rounding that tells whole ones from others."""
    for total in (10**9 + 7, 3 * 10**9 + 1, 10**12 + 1):
        parts = apportion((1 / 3, 1 / 3, 1 / 3), total)
        assert sum(parts) == total
        assert max(parts) - min(parts) <= 1
