"""Estimators on rows of embeddings: `SpectralClassifier`, and its rivals (`open_set`). Imported on first use."""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "DAOD": "wildspec.embeddings.open_set.daod",
    "OSLPP": "wildspec.embeddings.open_set.oslpp",
    "OSNN": "wildspec.embeddings.open_set.osnn",
    "OVANet": "wildspec.embeddings.open_set.ovanet",
    "SpectralClassifier": "wildspec.embeddings.classifier",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'wildspec.embeddings' has no attribute {name!r}")
