"""A WildClassifier that fits in a moment, for tests of everything but its accuracy."""

import sys
import types
from dataclasses import fields
from typing import Any

import pytest

import tiny_model
from wildspec import Files, Training, WildClassifier

QUICK: dict[str, Any] = {"size": tiny_model.SIDE, "epochs": 2, "device": "cpu", "alpha": 0.1}


def quick(**changes: Any) -> WildClassifier:
    """What belongs to `Training` or `Files` is given by its own name."""
    given = {**QUICK, **changes}
    for name, part in (("training", Training), ("files", Files)):
        own = {field.name for field in fields(part)} & set(given)
        given[name] = part(**{key: given.pop(key) for key in own})
    return WildClassifier(**given)


def fake_module(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    """A package that is not installed here, with what the test needs of it."""
    module = types.ModuleType(name)
    for key, value in content.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)
