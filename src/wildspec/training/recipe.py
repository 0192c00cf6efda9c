"""What a run changes in a method's own recipe: the preset, a scale of its length, and single fields, each one named.

A preset is the method's: ``method.stages("fast")`` (`wildspec.methods`). A recipe is applied to those stages, or to stages
that were suited to the data and the time before (`wildspec.training.suit`).

    Recipe("fast", scale=0.5, changes={"pretrain.lr": 0.2, "eta_l": 1.0, "pretrain.augmentation.grey": 0.1, "dropout": 0.3})

A change is ``STAGE.FIELD`` (a field of `Stage`), ``STAGE.augmentation.FIELD``, ``dropout``, or a hyper-parameter of the
method. The label is what tables show; recipes that differ never share a row, whatever they are called.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from wildspec.checks import choice, positive
from wildspec.errors import InputError
from wildspec.files import short_hash
from wildspec.methods.base import Method, Stage
from wildspec.methods.recipes import DROPOUT, PRESETS

MODEL_CHANGES = ("dropout",)
FIXED = ("name", "labelled_views", "wild_views")  # of a stage: what its method is written for


@dataclass(frozen=True)
class Recipe:
    """``preset`` of the method's stages, ``scale``: factor on the epochs of every stage, ``changes`` as above."""

    preset: str = "fast"
    scale: float = 1.0
    changes: dict[str, Any] = field(default_factory=dict)
    model: str | None = None  # instead of the protocol's network
    init: str | None = None  # safetensors file with backbone weights to start from
    size: int | None = None  # images of another size than the protocol's
    all_labels: bool = False  # labels for the whole ID training set, less the validation part: not the protocol
    name: str | None = None  # short name for tables, instead of the list of changes

    def __post_init__(self) -> None:
        choice("preset", self.preset, PRESETS)
        positive("scale", self.scale)

    @property
    def label(self) -> str:
        if self.name:
            return self.name
        parts = [self.preset if self.scale == 1 else f"{self.preset} x{self.scale:g}"]
        parts += [self.model] if self.model else []
        parts += [f"{self.size} px"] if self.size else []
        parts += ["all labels"] if self.all_labels else []
        parts += [f"init={PurePath(self.init).name}"] if self.init else []
        parts += [f"{key}={_short(value)}" for key, value in sorted(self.changes.items())]
        return ", ".join(parts)

    def with_changes(self, **changes: Any) -> "Recipe":
        return dataclasses.replace(self, changes={**self.changes, **changes})

    @property
    def dropout(self) -> float:
        """Of the network, where it has any: the preset's unless it was changed."""
        return float(self.changes.get("dropout", DROPOUT[self.preset]))

    def first_stage(self, method: type[Method]) -> "Recipe | None":
        """The recipe under which the method that this one begins as (``begins_as``) is trained; None: it begins as none."""
        if method.begins_as is None:
            return None
        kept = {key: value for key, value in self.changes.items() if key in MODEL_CHANGES}
        kept |= {
            f"train.{key.removeprefix('pretrain.')}": value
            for key, value in self.changes.items() if key.startswith("pretrain.")
        }  # fmt: skip
        return dataclasses.replace(self, changes=kept, name=None)

    def hparams(self) -> dict[str, Any]:
        """The changes that are hyper-parameters of the method."""
        return {key: value for key, value in self.changes.items() if "." not in key and key not in MODEL_CHANGES}

    def stages(self, method: Method) -> tuple[Stage, ...]:
        """The method's stages of the preset, scaled and changed."""
        return self.applied(method.stages(self.preset))

    def applied(self, stages: Sequence[Stage]) -> tuple[Stage, ...]:
        """Stages, scaled and changed; a change that names no stage or field is an error."""
        made = {
            stage.name: stage.scaled(epochs=stage.epochs * self.scale, warmup=stage.warmup * self.scale) for stage in stages
        }
        for where, fields in _nested(self.changes).items():
            if where not in made:
                raise InputError(f"--set {where}.{next(iter(fields))}: the stages are {', '.join(made)}, not {where!r}")
            made[where] = _changed(made[where], fields, where)
        return tuple(made.values())

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def slug(self) -> str:
        """Short name for a folder: readable, and different for different recipes; their names in tables do not count."""
        bare = dataclasses.replace(self, name=None)
        if bare == Recipe(self.preset):
            return self.preset
        facts = {key: value for key, value in bare.to_json().items() if key != "all_labels" or value}
        return f"{self.preset}-{short_hash(facts, 8)}"


def parse_changes(given: list[str]) -> dict[str, Any]:
    """["pretrain.lr=0.2", "pretrain.schedule=cosine"] -> a dict; values are JSON where they can be, else text."""
    changes: dict[str, Any] = {}
    for item in given:
        key, equals, text = item.partition("=")
        if not equals or not key or not text:
            raise InputError(f"--set takes NAME=VALUE, e.g. pretrain.lr=0.2 or eta_l=0.5; got {item!r}")
        try:
            changes[key] = json.loads(text)
        except json.JSONDecodeError:
            changes[key] = text
    return changes


def _nested(changes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """{"a.b": 1, "a.c.d": 2, "e": 3} -> {"a": {"b": 1, "c": {"d": 2}}}; names without a dot are not of a stage."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        *path, last = key.split(".")
        place: dict[str, Any] = found
        for name in path:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                break
        if not isinstance(place, dict) or last in place:
            raise InputError(f"--set {key}: it is set as a whole and in part; leave one of the two out")
        if path:
            place[last] = value
    return found


def _changed(thing: Any, fields: dict[str, Any], path: str) -> Any:
    """A copy of a dataclass with all changes of it made at once, so that only the outcome must be valid."""
    known = [entry.name for entry in dataclasses.fields(thing) if entry.name not in FIXED]
    values = {}
    for name, value in fields.items():
        if name not in known:
            raise InputError(f"--set {path}.{name}: there is no such field; choose from {', '.join(known)}")
        old = getattr(thing, name)
        if dataclasses.is_dataclass(old) != isinstance(value, dict):
            example = f"{path}.{name}" + (f".{dataclasses.fields(old)[0].name}" if dataclasses.is_dataclass(old) else "")
            raise InputError(f"--set {path}.{name}: set it as {example}=VALUE")
        if isinstance(value, dict):
            value = _changed(old, value, f"{path}.{name}")
        values[name] = tuple(value) if isinstance(value, list) else value
    return dataclasses.replace(thing, **values)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
