"""Each check returns the value when it is right and names the argument, the rule and the value when it is not."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wildspec import checks
from wildspec.errors import InputError, InputTypeError, MissingDependencyError

NUMBERS: list[tuple[Callable[[str, Any], float], Callable[[float], bool]]] = [
    (checks.number, lambda v: True),
    (checks.positive, lambda v: v > 0),
    (checks.non_negative, lambda v: v >= 0),
    (checks.fraction, lambda v: 0 <= v <= 1),
    (checks.open_fraction, lambda v: 0 < v < 1),
]
IDS = [check.__name__ for check, _ in NUMBERS]


@pytest.mark.parametrize(("check", "allowed"), NUMBERS, ids=IDS)
@given(value=st.floats(-3, 3) | st.sampled_from([0.0, -0.0, 1.0, 0, 1, -1, 5e-324]))
def test_numbers_follow_their_rule(check: Callable[..., float], allowed: Callable[..., bool], value: float) -> None:
    if allowed(value):
        result = check("alpha", value)
        assert type(result) is float
        assert result == value
    else:
        with pytest.raises(InputError, match="alpha"):
            check("alpha", value)


@pytest.mark.parametrize(("check", "_allowed"), NUMBERS, ids=IDS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan")])
def test_numbers_are_finite(check: Callable[..., float], _allowed: Any, value: float) -> None:
    with pytest.raises(InputError, match="alpha must be finite"):
        check("alpha", value)


@pytest.mark.parametrize("value", ["1", None, True, [1.0], 1j])
def test_numbers_are_not_words_or_flags(value: Any) -> None:
    with pytest.raises(InputTypeError, match="alpha must be a number, got"):
        checks.number("alpha", value)


@pytest.mark.parametrize("value", [np.float64(0.25), np.float16(0.25), np.array(0.25)])
def test_numpy_scalars_are_numbers(value: Any) -> None:
    assert checks.fraction("alpha", value) == 0.25


def test_integer_bounds() -> None:
    assert checks.integer("k", np.int32(3), 1, 3) == 3
    assert type(checks.integer("k", np.int64(3))) is int
    with pytest.raises(InputError, match="k must be at least 1, got 0"):
        checks.integer("k", 0, 1)
    with pytest.raises(InputError, match="k must be at most 3, got 4"):
        checks.integer("k", 4, 1, 3)


@pytest.mark.parametrize("value", [1.0, "1", None, True])
def test_integer_refuses_everything_else(value: Any) -> None:
    with pytest.raises(InputTypeError, match="k must be a whole number"):
        checks.integer("k", value)


def test_choice_lists_the_options() -> None:
    assert checks.choice("solver", "eigh", ("eigh", "lanczos")) == "eigh"
    with pytest.raises(InputError, match=r"solver must be .*eigh, lanczos; got 'qr'"):
        checks.choice("solver", "qr", ("eigh", "lanczos"))
    assert checks.choice("n", 2, iter([1, 2])) == 2, "an iterator is enough"


def test_require_names_the_extra() -> None:
    assert checks.require("json", "docs", "reading").loads("1") == 1
    with pytest.raises(MissingDependencyError, match=r"serving needs .*'wildspec\[serve\]'"):
        checks.require("no_such_package_here", "serve", "serving")


@pytest.mark.parametrize("value", [np.array([0.1, 0.2]), np.array([3]), pytest.param(10**400, id="1e400")])
def test_arrays_and_numbers_beyond_double_precision_are_no_numbers(value: Any) -> None:
    with pytest.raises(InputTypeError, match="alpha must be a number, got"):
        checks.number("alpha", value)


@pytest.mark.parametrize("value", [np.array([1, 2]), np.array([3]), np.True_])
def test_arrays_and_flags_are_no_whole_numbers(value: Any) -> None:
    with pytest.raises(InputTypeError, match=r"^k .*whole number"):
        checks.integer("k", value)
