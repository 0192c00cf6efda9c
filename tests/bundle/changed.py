"""A bundle taken apart, one field of it changed, and put together again with a right manifest: what an attacker can do."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from wildspec.bundle import write_bundle

Place = tuple[Any, ...]
DELETE = "delete"
VALUES: tuple[Any, ...] = (
    DELETE, None, "", "x", "../x", True, -1, 0, 1, 0.5, -1e300, 10**7, 10**30, [], [[]], {}, {"x": 1}, ["a", "a"], [1, 2, 3]
)  # fmt: skip
CHANGES = (
    "delete", "nan", "infinite", "large", "negative", "short", "long", "flat", "deeper", "other type", "empty", "zero",
)  # fmt: skip


@dataclass
class Parts:
    """What a bundle holds."""

    kind: str
    documents: dict[str, Any]
    tensors: dict[str, dict[str, torch.Tensor]]

    @classmethod
    def of(cls, folder: Path) -> "Parts":
        names = json.loads((folder / "manifest.json").read_text())
        documents = {name: json.loads((folder / name).read_text()) for name in names["files"] if name.endswith(".json")}
        files = [name for name in names["files"] if name.endswith(".safetensors")]
        return cls(names["kind"], documents, {name: load_file(folder / name) for name in files})

    def write(self, path: Path) -> Path:
        rest = {name: value for name, value in self.documents.items() if name != "model.json"}
        return write_bundle(path, self.kind, self.documents["model.json"], self.tensors, rest)

    def places(self) -> list[Place]:
        """Every value of every document, tables and lists too; of a long list the first."""
        return [(name, *inner) for name, value in self.documents.items() for inner in _places(value)]

    def arrays(self) -> list[Place]:
        return [(file, name) for file, content in self.tensors.items() for name in content]

    def with_value(self, place: Place, value: Any) -> "Parts":
        changed = copy.deepcopy(self.documents)
        holder: Any = changed
        for step in place[:-1]:
            holder = holder[step]
        if value == DELETE and isinstance(value, str):
            if len(place) == 1:
                holder[place[-1]] = {}
            else:
                del holder[place[-1]]
        else:
            holder[place[-1]] = copy.deepcopy(value)
        return Parts(self.kind, changed, self.tensors)

    def with_array(self, place: Place, change: str) -> "Parts":
        file, name = place
        content = dict(self.tensors[file])
        made = change_tensor(content[name], change)
        if made is None:
            del content[name]
        else:
            content[name] = made
        return Parts(self.kind, self.documents, {**self.tensors, file: content})


def _places(value: Any) -> Iterator[Place]:
    yield ()
    inner = value.items() if isinstance(value, dict) else list(enumerate(value))[:1] if isinstance(value, list) else ()
    for key, item in inner:
        for rest in _places(item):
            yield (key, *rest)


def change_tensor(value: torch.Tensor, change: str) -> torch.Tensor | None:
    """The tensor changed; as it was where the change means nothing for it. None: gone."""
    real, grows = value.is_floating_point(), value.ndim > 0 and len(value) > 0
    if change == "delete":
        return None
    if change in ("nan", "infinite"):
        return torch.full_like(value, float(change.replace("infinite", "inf"))) if real else value
    if change in ("large", "negative"):
        most = {torch.bool: 1, torch.uint8: 200}.get(value.dtype, 10**7)
        return torch.full_like(value, -most if change == "negative" and most == 10**7 else most)
    if change == "short":
        return value[:-1].clone() if grows else value
    if change == "long":
        return torch.cat([value, value[:1]]) if grows else value
    made = {
        "flat": lambda: value.flatten(), "deeper": lambda: value[None], "empty": lambda: value.flatten()[:0],
        "other type": lambda: value.to(torch.int32 if real else torch.float64), "zero": lambda: torch.zeros_like(value),
    }  # fmt: skip
    return made[change]()
