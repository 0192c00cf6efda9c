"""Records of preset "paper", labelled by what that preset says today.

The preset is meant to be the published recipe. Where it was corrected, records made before show what they differ in, and a
record made with the corrected value as a change is one of the preset.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from wildspec.bench.protocols import protocol
from wildspec.bench.records import Record
from wildspec.bench.same_recipe import settings
from wildspec.methods import METHODS, build_method, preset_hparams
from wildspec.methods.hparams import HPARAMS
from wildspec.training.recipe import Recipe

CLASSES = 10


def as_today(records: Sequence[Record]) -> list[Record]:
    """The records with other labels where they need them; nothing else in them changes."""
    return [_labelled(record) for record in records]


def _labelled(record: Record) -> Record:
    given = record["config"].get("recipe") or {}
    if given.get("preset") != "paper" or given.get("scale", 1) != 1 or record["method"] not in METHODS:
        return record
    stated, usual = settings(record), _preset(record)
    if stated.get("stages") != usual["stages"]:
        return record
    parts = ("hparams", *usual["stages"])  # what is named "part.setting" is of the training
    trained = {name: value for name, value in stated.items() if name.partition(".")[0] in parts and name in usual}
    changes = {name.removeprefix("hparams."): value for name, value in trained.items() if value != usual[name]}
    if stated["dropout"] != Recipe("paper").dropout:
        changes["dropout"] = stated["dropout"]
    recipe = replace(Recipe(**given), changes=changes)
    label = recipe.label + (", mirrored" if record["recipe"].endswith(", mirrored") else "")
    return {**record, "recipe": label, "config": {**record["config"], "recipe": recipe.to_json()}}


def _preset(record: Record) -> dict[str, Any]:
    """What the preset alone would run today in the record's place."""
    method, points = record["method"], protocol(record["protocol"]).hparams(record["method"], record["semantic"])
    chosen = {**preset_hparams(method, "paper"), **(points[0] if len(points) == 1 else {})}
    stages = Recipe("paper").stages(build_method(method, CLASSES, **chosen))
    config = {
        "hparams": {entry.name: entry.default for entry in HPARAMS[method]} | chosen,
        "stages": json.loads(json.dumps([asdict(stage) for stage in stages])),
    }
    return settings({"config": config})
