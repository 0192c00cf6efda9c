"""Estimators on rows of embeddings: `SpectralClassifier`. Imported on first use."""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "SpectralClassifier": "wildspec.embeddings.classifier",
    "SpectralClassifierCV": "wildspec.embeddings.spectral_cv",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'wildspec.embeddings' has no attribute {name!r}")
