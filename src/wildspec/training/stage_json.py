"""A stage as JSON and back: what a model's record says about how it was trained."""

import json
from dataclasses import asdict
from typing import Any

from wildspec.data.augment import Augmentation
from wildspec.methods.base import Stage


def stage_to_json(stage: Stage) -> dict[str, Any]:
    """Every field, with lists where the stage has tuples, as JSON gives them back."""
    made: dict[str, Any] = json.loads(json.dumps(asdict(stage)))
    return made


def stage_from_json(value: dict[str, Any]) -> Stage:
    """The stage as it was; fields that this version does not know are an error of the caller's record."""
    augmentation: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value["augmentation"].items()}
    changed = {"augmentation": Augmentation(**augmentation)}
    return Stage(**{**value, **changed, "decay": tuple(value.get("decay", (0.0, 1.0)))})
