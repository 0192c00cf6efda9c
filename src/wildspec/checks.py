"""One-line checks of arguments: return the value when it is right, raise an error that says what to do when not."""

import math
import operator
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import TypeVar

from wildspec.errors import InputError, InputTypeError, MissingDependencyError

T = TypeVar("T")
REJECTED_NAME = "rejected"  # what a sample of no known class is called, wherever classes have names
MOST_SEED = 2**32 - 1  # what numpy and scikit-learn take


def number(name: str, value: float) -> float:
    """A finite real number."""
    if isinstance(value, bool) or (not isinstance(value, (int, float)) and not hasattr(value, "__float__")):
        raise InputTypeError(f"{name} must be a number, got {type(value).__name__} {value!r}")
    try:
        result = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:  # several numbers, or one beyond double precision
        raise InputTypeError(f"{name} must be a number, got {type(value).__name__} {value!r}") from error
    if not math.isfinite(result):
        raise InputError(f"{name} must be finite, got {result}")
    return result


def positive(name: str, value: float) -> float:
    """A finite number > 0."""
    result = number(name, value)
    if result <= 0:
        raise InputError(f"{name} must be greater than 0, got {result:g}")
    return result


def non_negative(name: str, value: float) -> float:
    """A finite number >= 0."""
    result = number(name, value)
    if result < 0:
        raise InputError(f"{name} must be 0 or greater, got {result:g}")
    return result


def fraction(name: str, value: float) -> float:
    """A number in [0, 1]."""
    result = number(name, value)
    if not 0 <= result <= 1:
        raise InputError(f"{name} must lie in [0, 1], got {result:g}")
    return result


def open_fraction(name: str, value: float) -> float:
    """A number strictly between 0 and 1."""
    result = number(name, value)
    if not 0 < result < 1:
        raise InputError(f"{name} must lie strictly between 0 and 1, got {result:g}")
    return result


def integer(name: str, value: int, minimum: int = 0, maximum: int | None = None) -> int:
    """A whole number in [minimum, maximum]."""
    try:
        result = None if isinstance(value, bool) else operator.index(value)
    except TypeError:  # also of an array of several
        result = None
    if result is None:
        raise InputTypeError(f"{name} must be a whole number, got {type(value).__name__} {value!r}")
    if result < minimum:
        raise InputError(f"{name} must be at least {minimum}, got {result}")
    if maximum is not None and result > maximum:
        raise InputError(f"{name} must be at most {maximum}, got {result}")
    return result


def choice(name: str, value: T, options: Iterable[T]) -> T:
    """One of a fixed set of values."""
    allowed = list(options)
    if value not in allowed:
        listed = ", ".join(str(option) for option in allowed)
        raise InputError(f"{name} must be one of {listed}; got {value!r}")
    return value


def class_names(names: Iterable[object]) -> None:
    """No class may be called as what is rejected is: nobody could tell the two apart."""
    if any(name == REJECTED_NAME for name in names):
        raise InputError(f"a class is called {REJECTED_NAME!r}, as are samples of no known class; give it another name")


def require(module: str, extra: str | None, why: str) -> ModuleType:
    """Import an optional package or say which extra installs it; None: no extra does, the package has to be asked for."""
    try:
        return import_module(module)
    except ImportError as error:
        what = module if extra is None else f"'wildspec[{extra}]'"
        raise MissingDependencyError(f"{why} needs the package {module!r}; install it with: pip install {what}") from error
