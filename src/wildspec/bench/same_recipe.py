"""Which records ran the same recipe: by what they state, not by what a preset of that name would run today.

A record holds every stage and every hyper-parameter it was trained with, and hashes of its image sets. Records of one label
are one recipe as long as no setting and no image set that both of them state differs; a setting that came later, which an
old record does not state, does not count. A second recipe of the same label is called "LABEL #2".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from wildspec.bench.records import Record
from wildspec.bundle.former_names import current_name

_PLACE = ("protocol", "semantic", "covariate", "severity", "method", "recipe")  # where two recipes may share a label


@dataclass(frozen=True)
class Asked:
    """What was asked for. ``as_it_is``: the preset alone, neither scaled nor changed; ``mirrored``: measured with mirror
    images, the same trained model."""

    preset: str = ""
    as_it_is: bool = False
    all_labels: bool = False
    mirrored: bool = False


def recipe_names(records: Sequence[Record]) -> list[str]:
    """The name of each record's recipe; the recipe that was run first keeps the label as it is."""
    order = sorted(range(len(records)), key=lambda n: (str(records[n]["environment"].get("created", "")), n))
    names = [""] * len(records)
    known: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for n in order:
        record = records[n]
        found, stated = known.setdefault(tuple(record[key] for key in _PLACE), []), settings(record)
        number = next((i for i, other in enumerate(found) if _agree(stated, other)), len(found))
        if number == len(found):
            found.append({})
        found[number] |= stated
        names[n] = f"{record['recipe']} #{number + 1}" if number else record["recipe"]
    return names


def settings(record: Record) -> dict[str, Any]:
    """Everything a record states about its training and measuring, flat: {"pretrain.lr": 0.12, "wild.pi_s": 0.1, ...}."""
    config = record["config"]
    recipe = config.get("recipe") or {}
    found = {f"hparams.{current_name(name)}": value for name, value in (config.get("hparams") or {}).items()}
    stages = [{**stage, "name": current_name(stage.get("name", "stage"))} for stage in config.get("stages") or []]
    for stage in stages:
        found |= _flat(stage, stage["name"])
    if stages:
        found["stages"] = [stage["name"] for stage in stages]
    detector = record.get("detector", "")
    found |= {f"{detector}: {name}": value for name, value in (record.get("detector_config") or {}).items()}
    found |= _flat(config.get("wild") or {}, "wild")  # another mixture is another task
    found |= _flat(record.get("splits") or {}, "images")  # and so are other images
    return found | {
        "model": config.get("model"), "mirror": bool(config.get("mirror")), "all_labels": bool(recipe.get("all_labels")),
        "size": recipe.get("size"), "dropout": config.get("dropout", (recipe.get("changes") or {}).get("dropout", 0.0)),
        "init": PurePath(recipe["init"]).name if recipe.get("init") else None,  # a file: wherever it lay
    }  # fmt: skip


def asked(record: Record) -> Asked:
    recipe = record["config"].get("recipe") or {}
    changed = recipe.get("changes") or any(recipe.get(name) for name in ("model", "size", "init"))
    return Asked(
        str(recipe.get("preset", "")), bool(recipe) and recipe.get("scale", 1) == 1 and not changed,
        bool(recipe.get("all_labels")), bool(record["config"].get("mirror")),
    )  # fmt: skip


def _agree(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return all(first[name] == second[name] for name in first.keys() & second.keys())


def _flat(values: dict[str, Any], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _flat(value, f"{where}.{name}") if isinstance(value, dict) else {f"{where}.{name}": value}
    return found
