"""What a record really ran, and how that differs from what its recipe would run today.

A preset is a name; what it stands for may change from one version to the next. Records keep the stages themselves, so a
recipe can be told from one of the same name, and an earlier one can be run again with today's preset and a few ``--set``.
"""

import inspect
import json
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import PurePath
from typing import Any

from wildspec.bench.protocols import protocol, protocol_names
from wildspec.bench.records import Record
from wildspec.errors import WildspecError
from wildspec.files import short_hash
from wildspec.training.recipe import Recipe


@dataclass(frozen=True)
class Edition:
    """A record's recipe against the one of that name today. ``changes``: what to ``--set`` besides, to run it again."""

    earlier: bool = False
    changes: dict[str, Any] = field(default_factory=dict)
    lost: str = ""  # why today's preset cannot be made into it
    alone: Recipe | None = None  # the same without the changes that were asked for, where today's preset has them all


def recipe_hash(record: Record) -> str:
    """What was really run, whatever it was called: hyper-parameters, network, stages, start, images, labels, measuring."""
    config = record["config"]
    recipe = config.get("recipe") or {}
    start = PurePath(recipe["init"]).name if recipe.get("init") else None
    return short_hash(numbers({
        "model": config.get("model"), "hparams": config.get("hparams"),
        "stages": [_set(stage) for stage in config.get("stages") or []],
        "size": recipe.get("size"), "init": start, "all_labels": bool(recipe.get("all_labels")),
        "dropout": recipe.get("changes", {}).get("dropout"), "mirror": bool(config.get("mirror")),
    }))  # fmt: skip


def edition(record: Record) -> Edition:
    """A record without stages, or of a method that is not installed, cannot be told from today's and counts as such."""
    from wildspec.methods import METHODS

    config = record["config"]
    name, then = record["method"], config.get("stages")
    if not config.get("recipe") or not then or name not in METHODS:
        return Edition()
    usual = {p.name: p.default for p in inspect.signature(METHODS[name].__init__).parameters.values()}
    try:
        recipe = _recipe(config["recipe"])
        fixed = _of_protocol(record, recipe)
        changes = _hparams(config.get("hparams") or {}, {**fixed, **recipe.hparams()}, usual)
        now = _stages(name, recipe, {**fixed, **recipe.hparams(), **changes})  # which stages there are may depend on them
        plain = replace(recipe, changes={})
        alone = plain if recipe.changes and not changes and _same(then, name, plain, fixed, config, usual) else None
    except WildspecError as error:
        return Edition(True, lost=str(error))
    names = [stage["name"] for stage in now]
    if names != [stage["name"] for stage in then]:
        return Edition(True, lost=f"its stages were {', '.join(stage['name'] for stage in then)}, not {', '.join(names)}")
    for before, after in zip(then, now, strict=True):
        changes |= _different(_set(before), _set(after), after, before["name"])
    return Edition(bool(changes), changes, alone=alone)


def _recipe(given: dict[str, Any]) -> Recipe:
    known = [entry.name for entry in fields(Recipe)]
    return Recipe(**{key: value for key, value in given.items() if key in known})


def _stages(method: str, recipe: Recipe, hparams: dict[str, Any]) -> list[dict[str, Any]]:
    from wildspec.methods import build_method

    return [_plain(asdict(stage)) for stage in recipe.stages(build_method(method, 2, **hparams))]


def _same(
    then: list[dict[str, Any]], method: str, recipe: Recipe, fixed: dict[str, Any], config: Record, usual: dict[str, Any]
) -> bool:
    """Does a recipe today run these stages with these hyper-parameters?"""
    if _hparams(config.get("hparams") or {}, fixed, usual) or (config["recipe"].get("changes") or {}).get("dropout"):
        return False
    return [_set(stage) for stage in then] == [_set(stage) for stage in _stages(method, recipe, fixed)]


def _of_protocol(record: Record, recipe: Recipe) -> dict[str, Any]:
    """Hyper-parameters that the protocol fixes today; a sweep's are in the recipe, one's own protocol is not at hand."""
    if record["protocol"] not in protocol_names():
        own = set(recipe.changes)
        return {key: value for key, value in (record["config"].get("hparams") or {}).items() if key not in own}
    chosen = protocol(record["protocol"])
    known = record["semantic"] in [entry.name for entry in chosen.semantic]
    return chosen.hparams(record["method"], record["semantic"])[0] if known and not chosen.grid else {}


def _hparams(then: dict[str, Any], now: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """Hyper-parameters that were others; one that was not given had the method's default."""
    every = dict.fromkeys([*then, *now])
    old, new = ({key: values.get(key, usual.get(key)) for key in every} for values in (then, now))
    return {key: old[key] for key in every if old[key] != new[key]}


def _different(then: dict[str, Any], now: dict[str, Any], whole: dict[str, Any], where: str) -> dict[str, Any]:
    """STAGE.FIELD -> its value then, for the fields that differ; both without what is at its default."""
    from wildspec.data.augment import Augmentation
    from wildspec.methods import Stage

    usual = _defaults(Augmentation if where.endswith(".augmentation") else Stage)
    found: dict[str, Any] = {}
    for key in dict.fromkeys([*whole, *then]):
        if key == "augmentation":
            found |= _different(then.get(key, {}), now.get(key, {}), whole[key], f"{where}.augmentation")
        elif then.get(key, usual.get(key)) != now.get(key, usual.get(key)):
            found[f"{where}.{key}"] = then.get(key, usual.get(key))
    return found


def _set(stage: dict[str, Any]) -> dict[str, Any]:
    """What a stage sets, without what is at its default: settings that came later do not part old records from new ones."""
    from wildspec.data.augment import Augmentation
    from wildspec.methods import Stage

    views = _changed(stage.get("augmentation") or {}, Augmentation)
    return {**_changed({key: value for key, value in stage.items() if key != "augmentation"}, Stage), "augmentation": views}


def _changed(values: dict[str, Any], kind: type) -> dict[str, Any]:
    usual = _defaults(kind)
    return {name: value for name, value in values.items() if name not in usual or value != usual[name]}


def _defaults(kind: type) -> dict[str, Any]:
    return _plain({entry.name: entry.default for entry in fields(kind) if entry.default is not MISSING})


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """As JSON has it: tuples are lists."""
    return json.loads(json.dumps(values))  # type: ignore[no-any-return]


def numbers(value: Any) -> Any:
    """5.0 is 5, as in Python, though not in JSON."""
    if isinstance(value, dict):
        return {key: numbers(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [numbers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
