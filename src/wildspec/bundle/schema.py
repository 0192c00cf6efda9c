"""A small language for the form of JSON and of tensors: types, ranges, shapes. The first misfit ends it, in one line.

    FORM = fields({"size": whole(1, 4096), "std": list_of(number(above=0), 3, 3)}, {"note": text()})
    FORM(value, "model.json")                   # Misfit: model.json: size must be a whole number from 1 to 4096, got 'x'
    sizes = shapes(tensors, "bank", {"labels": ("of C", "n"), "features": ("float", "n d")}, {"n": 96, "C": 3})
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from wildspec.errors import CheckpointError

Check = Callable[[Any, str], None]
LARGEST = sys.float_info.max  # a whole number beyond it is none that can be reckoned with
KINDS = {
    "float": (torch.float16, torch.bfloat16, torch.float32, torch.float64),
    "int": (torch.int64,),
    "byte": (torch.uint8,),
    "bool": (torch.bool,),
}
RANGES = {  # kinds with limits, and what they are of; "of C": whole numbers from 0 to C - 1, C a letter of a shape
    "positive": ("float", 0.0, math.inf), "share": ("float", 0.0, 1.0), "count": ("int", 0.0, math.inf),
    "place": ("int", -1.0, math.inf),
}  # fmt: skip


class Misfit(CheckpointError):
    """What was found is not of the form that was written."""

    def __init__(self, where: str, expected: str, got: Any) -> None:
        shown = repr(got)
        super().__init__(f"{where} must be {expected}, got {shown if len(shown) <= 60 else shown[:57] + '...'}")


def whole(low: int = 0, high: int = 1 << 62) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise Misfit(where, f"a whole number from {low}" + (f" to {high}" if high < 1 << 62 else ""), value)

    return check


def number(low: float = -math.inf, high: float = math.inf, *, above: float = -math.inf, below: float = math.inf) -> Check:
    """A finite number in [low, high] and in (above, below)."""

    def check(value: Any, where: str) -> None:
        real = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not real or not abs(value) <= LARGEST or not (low <= value <= high and above < value < below):
            bounds = [f">= {low:g}" * (low > -math.inf), f"<= {high:g}" * (high < math.inf),
                      f"> {above:g}" * (above > -math.inf), f"< {below:g}" * (below < math.inf)]  # fmt: skip
            raise Misfit(where, " ".join(["a finite number", *filter(None, bounds)]), value)

    return check


def text(most: int = 100_000) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or len(value) > most:
            raise Misfit(where, "text", value)

    return check


def flag() -> Check:
    return one_of(True, False)


def one_of(*allowed: Any) -> Check:
    def check(value: Any, where: str) -> None:
        if not any(type(value) is type(one) and value == one for one in allowed):
            raise Misfit(where, " or ".join(map(repr, allowed)), value)

    return check


def either(*checks: Check) -> Check:
    """What fits one of them."""

    def check(value: Any, where: str) -> None:
        for number, one in enumerate(checks):
            try:
                return one(value, where)
            except Misfit:
                if number == len(checks) - 1:
                    raise
        return None

    return check


def maybe(check: Check) -> Check:
    """None, or what fits."""
    return either(one_of(None), check)


def list_of(check: Check, least: int = 0, most: int = 1 << 62, *, distinct: bool = False) -> Check:
    def check_list(value: Any, where: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            count = str(least) if least == most else f"{least} or more" if most >= 1 << 62 else f"{least} to {most}"
            raise Misfit(where, f"a list of {count}", value)
        for i, item in enumerate(value):
            check(item, f"{where}[{i}]")
        if distinct and len(set(value)) < len(value):
            raise Misfit(where, "a list without repeats", value)

    return check_list


def table(check: Check) -> Check:
    """Any names, each with what fits."""

    def check_table(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise Misfit(where, "a table of names and values", value)
        for name, item in value.items():
            check(item, f"{where}.{name}")

    return check_table


def fields(needed: Mapping[str, Check], more: Mapping[str, Check] | None = None) -> Check:
    """A table that has ``needed``, and may have ``more``; names that are in neither are left to later versions."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise Misfit(where, "a table of names and values", value)
        for name, one in needed.items():
            if name not in value:
                raise CheckpointError(f"{where} has no {name}")
            one(value[name], f"{where}.{name}")
        for name, one in (more or {}).items():
            if name in value:
                one(value[name], f"{where}.{name}")

    return check


def anything(value: Any, where: str) -> None:
    """No form at all."""


def shapes(
    tensors: Mapping[str, Tensor], where: str, forms: Mapping[str, tuple[str, str]], sizes: Mapping[str, int] | None = None,
    optional: Sequence[str] = (),
) -> dict[str, int]:
    """Check kinds, ranges and shapes, and that floats are finite. A shape is letters, one an axis: the same letter, the same
    length; a figure stands for itself. ``sizes``: of letters that are known; returned with those that were found."""
    known = dict(sizes or {})
    finite(tensors, where)
    for name, (kind, letters) in forms.items():
        if name not in tensors:
            if name in optional:
                continue
            raise CheckpointError(f"{where} has no {name}")
        found, axes = tensors[name], letters.split()
        below = kind.removeprefix("of ") if kind.startswith("of ") else None
        plain, low, high = ("int", 0, known[below] - 1) if below else RANGES.get(kind, (kind, -math.inf, math.inf))
        if found.dtype not in KINDS[plain]:
            raise Misfit(f"{where}: {name}", f"of type {plain}", str(found.dtype))
        wanted = [int(axis) if axis.isdecimal() else known.get(axis) for axis in axes]
        if found.ndim != len(axes) or any(w not in (None, length) for w, length in zip(wanted, found.shape, strict=True)):
            shown = ", ".join(axis if w is None else str(w) for axis, w in zip(axes, wanted, strict=True))
            raise Misfit(f"{where}: {name}", f"of shape ({shown})", tuple(found.shape))
        known |= {axis: length for axis, length in zip(axes, found.shape, strict=True) if not axis.isdecimal()}
        if found.numel() and kind not in KINDS:
            least, most = found.min().item(), found.max().item()
            if least < low or most > high or (kind == "positive" and least == 0):
                expected = "greater than 0" if kind == "positive" else f"from {low:g} to {high:g}"
                raise Misfit(f"{where}: {name}", expected, f"{least:g} to {most:g}")
    return known


def finite(tensors: Mapping[str, Tensor], where: str) -> None:
    """No NaN and no infinity in any of them, and no kind of float that cannot be asked."""
    for name, value in tensors.items():
        if value.is_floating_point() and value.dtype not in KINDS["float"]:
            raise Misfit(f"{where}: {name}", "of type float", str(value.dtype))
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise CheckpointError(f"{where}: {name} holds NaN or infinite numbers")
