"""Short names of recipes: what tables for people show instead of a list of settings, with one legend for all of them.

A recipe whose label is short is called by it: ``fast``, ``paper, all labels``. Any other is called by its preset and a
letter, ``fast-A``, in the order in which recipes were first run, so that new records leave old names alone. Models measured
with mirror images are the same recipe, ", mirrored". A recipe whose settings the preset has taken over is called as the
preset. Where the preset meant something else when a recipe was run (``wildspec.bench.editions``), the legend says so,
and a name that would be taken for today's is "(earlier)". Recipes that would share a name are numbered; what was asked for
in the same words and still was something else is told apart by its hash in brackets.
"""

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from string import ascii_lowercase
from typing import Any

from wildspec.bench.editions import Edition, edition, numbers, recipe_hash
from wildspec.bench.records import Record

LONGEST = 32  # characters of a label that is its own name
MIRRORED = ", mirrored"
EARLIER = " (earlier)"


@dataclass(frozen=True)
class Named:
    """A recipe as tables know it. ``full``: its label, as programs read it; ``arguments``: of ``wildspec bench``."""

    short: str
    full: str
    arguments: str = ""
    preset: str = ""
    as_it_is: bool = False  # the preset alone: neither scaled nor changed
    all_labels: bool = False
    earlier: bool = False
    lost: str = ""  # why the arguments do not give it any more
    mirrored: bool = False

    @property
    def recipe(self) -> str:
        """The short name without what belongs to measuring."""
        return self.short.removesuffix(MIRRORED)


class Names:
    """Short names for a collection of records, each of which gets the name of its recipe."""

    def __init__(self, records: Iterable[Record]) -> None:
        known = list(records)
        self._editions: dict[str, Edition] = {}
        first: dict[str, tuple[str, str]] = {}  # key -> when it was first run, and the key
        labels: dict[str, tuple[str, str]] = {}
        for record in known:
            key, created = self._key(record), str(record["environment"].get("created", ""))
            first[key] = min(first.get(key, (created, key)), (created, key))
            label, given = _asked(record, self._editions[key])
            labels[key] = label, str(given.get("preset", "recipe"))
        self._short: dict[str, str] = {}
        letters = 0
        for key in sorted(first, key=first.__getitem__):
            label, preset = labels[key]
            name = label + (EARLIER if self._editions[key].earlier else "")
            if len(label) > LONGEST:
                name, letters = f"{preset}-{letter(letters).upper()}", letters + 1
            taken = sum(other.partition(" #")[0] == name for other in self._short.values())
            self._short[key] = f"{name} #{taken + 1}" if taken else name
        self._shared = [
            _shared((self._short[self._key(record)], record) for record in known),
            _shared((self._full(record), record) for record in known),
        ]

    def of(self, record: Record) -> Named:
        """The name of a record's recipe."""
        key, code = self._key(record), f" [{recipe_hash(record)[:6]}]"
        found = self._editions[key]
        _, given = _asked(record, found)
        mirror = MIRRORED if _mirrored(record) else ""
        short, full = (
            name + (code if _place(record, name) in places else "")
            for name, places in zip((self._short[key], self._full(record)), self._shared, strict=True)
        )
        changed = given.get("changes") or any(given.get(name) for name in ("model", "size", "init"))
        return Named(
            short + mirror, full, arguments(given, found.changes), str(given.get("preset", "")),
            bool(given) and given.get("scale", 1) == 1 and not changed, bool(given.get("all_labels")),
            found.earlier, found.lost, _mirrored(record),
        )  # fmt: skip

    def _full(self, record: Record) -> str:
        found = self._editions[self._key(record)]
        label, _ = _asked(record, found)
        return label + (MIRRORED if _mirrored(record) else "") + (EARLIER if found.earlier else "")

    def _key(self, record: Record) -> str:
        """What was asked for and what today's preset lacks of it; neither the method counts nor how it was measured."""
        found = edition(record)
        label, given = _asked(record, found)
        key = json.dumps([label, arguments(given, found.changes), found.earlier, found.lost])
        self._editions[key] = found
        return key


def arguments(given: dict[str, Any], besides: dict[str, Any]) -> str:
    """A recipe as ``wildspec bench`` takes it; ``besides``: what must be set, too, now that its preset is another."""
    if not given.get("preset"):
        return ""
    words = ["--preset", str(given["preset"])]
    words += ["--scale", f"{given['scale']:g}"] if given.get("scale", 1) != 1 else []
    for key, value in {**dict(sorted((given.get("changes") or {}).items())), **besides}.items():
        words += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(numbers(value), separators=(',', ':'))}"]
    for name in ("model", "size", "init"):
        words += [f"--{name}", PurePath(str(given[name])).name] if given.get(name) else []  # a file: wherever it lay
    return shlex.join([*words, *(["--all-labels"] if given.get("all_labels") else [])])


def legend(used: Sequence[tuple[str, Named]]) -> list[tuple[str, str, str]]:
    """(recipe, arguments, methods) of every recipe among pairs of method and name; by preset, then by name. Arguments are
    those that give it today, whatever the preset was when it was run."""
    found: dict[str, tuple[Named, list[str]]] = {}
    for method, named in used:
        entry = found.setdefault(named.recipe, (named, []))
        entry[1].extend([method] if method not in entry[1] else [])
    lines = []
    for name, (named, methods) in sorted(found.items(), key=lambda pair: (pair[1][0].preset, pair[0])):
        text = f"`{named.arguments}`" if named.arguments else named.full.removesuffix(MIRRORED)
        today = f"today it cannot be set: {named.lost}" if named.lost else f"today: {text}"
        text = f"an earlier `{named.preset}`; {today}" if named.earlier else text
        lines.append((name, text, ", ".join(methods)))
    return lines


def letter(number: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    more, last = divmod(number, len(ascii_lowercase))
    return (letter(more - 1) if more else "") + ascii_lowercase[last]


def _asked(record: Record, found: Edition) -> tuple[str, dict[str, Any]]:
    """Label and recipe, as they would be typed today, without what belongs to measuring."""
    if found.alone is not None:
        return found.alone.label, found.alone.to_json()
    label = str(record["recipe"])
    return label.removesuffix(MIRRORED) if _mirrored(record) else label, record["config"].get("recipe") or {}


def _mirrored(record: Record) -> bool:
    return bool(record["config"].get("mirror"))


def _place(record: Record, short: str) -> tuple[Any, ...]:
    """Where two rows of one short name would stand one below the other."""
    where = ("protocol", "semantic", "covariate", "severity", "method")
    return (*(record[key] for key in where), short, _mirrored(record))


def _shared(pairs: Iterable[tuple[str, Record]]) -> set[tuple[Any, ...]]:
    """Places that recipes of several hashes would share."""
    found: dict[tuple[Any, ...], set[str]] = {}
    for short, record in pairs:
        found.setdefault(_place(record, short), set()).add(recipe_hash(record))
    return {place for place, codes in found.items() if len(codes) > 1}
