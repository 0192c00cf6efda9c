"""A WildClassifier that fits in a moment, for tests of everything but its accuracy."""

import sys
import types
from typing import Any

import pytest

import tiny_model
from wildspec import WildClassifier

QUICK: dict[str, Any] = {"size": tiny_model.SIDE, "epochs": 2, "device": "cpu", "alpha": 0.1}


def quick(**changes: Any) -> WildClassifier:
    return WildClassifier(**{**QUICK, **changes})


def fake_module(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    """A package that is not installed here, with what the test needs of it."""
    module = types.ModuleType(name)
    for key, value in content.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)
