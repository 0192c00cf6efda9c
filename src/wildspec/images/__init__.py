"""Estimators on images: `WildClassifier`. Imported on first use."""

from importlib import import_module
from typing import Any

__all__ = ["WildClassifier"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("wildspec.images.classifier"), name)
    raise AttributeError(f"module 'wildspec.images' has no attribute {name!r}")
