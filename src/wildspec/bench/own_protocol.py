"""A protocol of one's own: a JSON file with what differs from one of the paper's.

    {"name": "vehicles-in-snow",
     "in_distribution": {"set": "vehicles", "classes": 5},
     "covariate": {"corruption": "snow", "severity": 3},
     "semantic": [{"name": "animals"}],
     "model": "small_resnet"}

Objects are merged key by key, everything else is replaced; semantic sets stand before those of the protocol it is based on.
A set is read from the folder of its name: ``train`` and ``test`` where it has both (``"test": "test"``), else ``all``, which
is then cut as the paper cuts. Nothing of it is compared with numbers of the paper.
"""

import re
from dataclasses import fields
from os import PathLike
from typing import Any

from wildspec.bench.protocols import Protocol, Semantic, entry_of, from_entry, protocol, protocol_names
from wildspec.checks import choice
from wildspec.errors import InputError
from wildspec.files import read_json

FIXED = ("paper", "published_recipe", "base", "kind")  # what belongs to the protocol it is based on
MERGED = ("in_distribution", "covariate")


def own_protocol(path: str | PathLike[str] | None, base: str) -> Protocol:
    """The protocol ``base`` with the changes in a JSON file (None: without any); ``name`` must be new, unknown keys are an
    error."""
    if path is None:
        return protocol(base)
    given = read_json(path)
    allowed = [f.name for f in fields(Protocol) if f.name not in FIXED]
    if not isinstance(given, dict):
        raise InputError(f"{path} must hold one JSON object with keys of {', '.join(allowed)}")
    _known(path, given, allowed)
    name = given.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.-]+", name) or name in protocol_names():
        raise InputError(
            f"{path} needs a name of its own, of letters, digits, '-', '_' and '.', that is none of "
            f"{', '.join(protocol_names())}: records are kept under it; got {name!r}"
        )
    before = entry_of(base)
    made = {**before, "pretrained": False, **given, "title": given.get("title", name), "paper": "not of the paper"}
    for key in MERGED:
        if key in given:
            if not isinstance(given[key], dict):
                raise InputError(f"{path}: {key} must be an object, got {given[key]!r}")
            inherited = dict(before.get(key, {}))
            if key == "in_distribution" and given[key].get("set", inherited["set"]) != inherited["set"]:
                inherited = {part: inherited[part] for part in ("train", "test", "size", "classes")}
            made[key] = {**inherited, **given[key]}
    sets = [_semantic(path, entry, str(before["kind"])) for entry in given.get("semantic", [])]
    mine = {entry["name"] for entry in sets}
    made["semantic"] = sets + [entry for entry in before["semantic"] if entry["name"] not in mine]
    if sets:
        made["default_semantic"] = given.get("default_semantic", sets[0]["name"])
    if "covariate" in given:
        from wildspec.data.corruptions import CORRUPTIONS  # here: the list of protocols is read without torch

        choice("covariate.corruption", made["covariate"].get("corruption"), CORRUPTIONS)
        choice("covariate.severity", made["covariate"].get("severity"), made["covariate"]["severities"])
    return from_entry(made)


def _semantic(path: Any, entry: Any, kind: str) -> dict[str, Any]:
    """One semantic set, with what need not be said filled in."""
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise InputError(f"{path}: every semantic set must be an object with a name, got {entry!r}")
    _known(path, entry, [f.name for f in fields(Semantic)])
    if kind == "domains":
        return dict(entry)
    own = entry.get("test") is not None
    usual = {"set": entry["name"], "train": "train" if own else "all", "scheme": "semantic_with_test" if own else "semantic"}
    return {**usual, **entry}


def _known(path: Any, given: dict[str, Any], allowed: list[str]) -> None:
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        raise InputError(f"{path} has the unknown key {', '.join(unknown)}; known are {', '.join(allowed)}")
