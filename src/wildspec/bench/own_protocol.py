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
from wildspec.checks import choice, fraction, integer, open_fraction
from wildspec.errors import InputError, InputTypeError
from wildspec.files import read_json

FIXED = ("paper", "published_recipe", "base", "kind")  # what belongs to the protocol it is based on
UNUSED = {  # what the experiments of a kind do not have
    "corruption": ("domains", "known", "unknown", "id_holdout"),
    "domains": ("covariate", "labelled", "unlabelled_scheme", "pi_c", "pi_s"),
}
MERGED = {  # objects, with all their keys
    "in_distribution": ["set", "train", "test", "size", "classes", "known", "wnids"],
    "covariate": ["corruption", "severity", "severities"],
}
COUNTS = {"neighbours": 1, "split_seed": 0, "known": 2, "unknown": 1}  # the least of each
SHARES = {"labelled": open_fraction, "id_holdout": open_fraction, "pi_c": fraction, "pi_s": fraction}


def own_protocol(path: str | PathLike[str] | None, base: str) -> Protocol:
    """The protocol ``base`` with the changes in a JSON file (None: without any); ``name`` must be new, unknown keys, and
    those without a use, are an error."""
    if path is None:
        return protocol(base)
    given = read_json(path)
    allowed = [f.name for f in fields(Protocol) if f.name not in FIXED]
    if not isinstance(given, dict):
        raise InputError(f"{path} must hold one JSON object with keys of {', '.join(allowed)}")
    _known(path, given, allowed)
    name = given.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", name) or name in protocol_names():
        raise InputError(
            f"{path} needs a name of its own, of letters, digits, '-', '_' and '.', that is none of "
            f"{', '.join(protocol_names())}: records are kept under it; got {name!r}"
        )
    before = entry_of(base)
    if idle := [key for key in given if key in UNUSED[before["kind"]]]:
        raise InputError(f"{path} has the key {', '.join(idle)}, which protocols based on {base} do not use; leave it out")
    made = {**before, "pretrained": False, **given, "title": given.get("title", name), "paper": "not of the paper"}
    for key, parts in MERGED.items():
        if key in given:
            if not isinstance(given[key], dict):
                raise InputError(f"{path}: {key} must be an object, got {given[key]!r}")
            _known(f"{path}: {key}", given[key], parts)
            inherited = dict(before[key])
            if key == "in_distribution" and given[key].get("set", inherited["set"]) != inherited["set"]:
                inherited = {part: inherited[part] for part in ("train", "test", "size", "classes")}
            made[key] = {**inherited, **given[key]}
    listed = given.get("semantic", [])
    if not isinstance(listed, list):
        raise InputError(f"{path}: semantic must be a list of objects, got {listed!r}")
    sets = [_semantic(path, entry, made) for entry in listed]
    mine = {entry["name"] for entry in sets}
    made["semantic"] = sets + [entry for entry in before["semantic"] if entry["name"] not in mine and _fits(entry, made)]
    if not made["semantic"]:
        raise InputError(f"{path} needs a semantic set of its own: none of {base} can be taken from its data")
    if sets:
        made["default_semantic"] = given.get("default_semantic", sets[0]["name"])
    try:
        _check_values(made)
    except (InputError, InputTypeError) as error:
        raise InputError(f"{path}: {error}") from error
    return from_entry(made)


def _check_values(made: dict[str, Any]) -> None:
    """What would otherwise be told, or not told, when the data have been read."""
    own = made["in_distribution"]
    integer("in_distribution.size", own["size"], 4)
    classes = integer("in_distribution.classes", own["classes"], 2)
    if "known" in own:
        _numbers("in_distribution.known", own["known"], 0, classes - 1)
    for key, least in COUNTS.items():
        if made.get(key) is not None:
            integer(key, made[key], least)
    for key, check in SHARES.items():
        if key in made:
            check(key, made[key])
    if made["kind"] == "corruption":
        from wildspec.data.corruptions import CORRUPTIONS  # here: the list of protocols is read without torch

        covariate = made["covariate"]
        choice("covariate.corruption", covariate["corruption"], CORRUPTIONS)
        _numbers("covariate.severities", covariate["severities"], 1, 5)
        choice("covariate.severity", covariate["severity"], covariate["severities"])
    if made.get("default_semantic") is not None:
        choice("default_semantic", made["default_semantic"], [entry["name"] for entry in made["semantic"]])


def _numbers(name: str, values: Any, least: int, most: int) -> None:
    """A list, not empty, of different whole numbers."""
    whole = isinstance(values, list) and all(type(value) is int and least <= value <= most for value in values)
    if not whole or not values or len(set(values)) < len(values):
        raise InputError(f"{name} must be a list of whole numbers from {least} to {most}, got {values!r}; give each once")


def _semantic(path: Any, entry: Any, made: dict[str, Any]) -> dict[str, Any]:
    """One semantic set, with what need not be said filled in."""
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise InputError(f"{path}: every semantic set must be an object with a name, got {entry!r}")
    name = entry["name"]
    if not re.fullmatch(r"[\w>+-][\w.>+ -]*", name):
        raise InputError(f"{path}: a semantic set's name must be of letters, digits, '-', '>', '_' and '.', got {name!r}")
    _known(path, entry, [f.name for f in fields(Semantic)])
    for key in ("set", "train", "test", "source", "target"):
        if entry.get(key) is not None and not isinstance(entry[key], str):
            raise InputError(f"{path}: {key} of the semantic set {name!r} must be text, got {entry[key]!r}")
    if made["kind"] == "domains":
        if not _fits(entry, made):
            raise InputError(f"{path}: the semantic set {name!r} needs a source and a target out of domains, got {entry}")
        return dict(entry)
    own = entry.get("test") is not None
    usual = {"set": name, "train": "train" if own else "all", "scheme": "semantic_with_test" if own else "semantic"}
    return {**usual, **entry}


def _fits(entry: dict[str, Any], made: dict[str, Any]) -> bool:
    """Has the protocol what a semantic set is taken from: its domains, or classes that are not known?"""
    if made["kind"] == "domains":
        return entry.get("source") in made["domains"] and entry.get("target") in made["domains"]
    own = made["in_distribution"]
    return not entry.get("unknown_classes") or len(own.get("known", range(own["classes"]))) < own["classes"]


def _known(path: Any, given: dict[str, Any], allowed: list[str]) -> None:
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        raise InputError(f"{path} has the unknown key {', '.join(unknown)}; known are {', '.join(allowed)}")
