"""A stage as JSON and back: what a model's record says about how it was trained."""

import json
from dataclasses import asdict, fields
from typing import Any

from wildspec.data.augment import Augmentation
from wildspec.methods.base import Stage


def stage_to_json(stage: Stage) -> dict[str, Any]:
    """Every field, with lists where the stage has tuples, as JSON gives them back."""
    made: dict[str, Any] = json.loads(json.dumps(asdict(stage)))
    return made


def stage_from_json(value: dict[str, Any]) -> Stage:
    """The stage as it was. What a record says besides (the steps that were taken) is passed over; a setting that came later
    has its default."""
    known = {field.name for field in fields(Stage)}
    augmentation: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value["augmentation"].items()}
    mine = {name: given for name, given in value.items() if name in known}
    decay = tuple(value.get("decay", (0.0, 1.0)))
    return Stage(**{**mine, "augmentation": Augmentation(**augmentation), "decay": decay})
