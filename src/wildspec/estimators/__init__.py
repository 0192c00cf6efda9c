"""Estimators: `SpectralClassifier` for embeddings, `WildClassifier` for images. Imported on first use."""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "SpectralClassifier": "wildspec.estimators.spectral_classifier",
    "SpectralClassifierCV": "wildspec.estimators.spectral_cv",
    "WildClassifier": "wildspec.estimators.wild_classifier",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'wildspec.estimators' has no attribute {name!r}")
