"""wildspec: classify what you know, under any conditions; reject what you do not.

The public names below are imported on first use, so ``import wildspec`` costs nothing and never loads torch.
"""

from importlib import import_module
from typing import Any

from wildspec._version import __version__

_PUBLIC = {
    "AugmentationGraph": "wildspec.graph",
    "spectral_embedding": "wildspec.graph",
    "Files": "wildspec.images.options",
    "SpectralClassifier": "wildspec.embeddings.classifier",
    "Training": "wildspec.images.options",
    "WildClassifier": "wildspec.images.classifier",
    "WildspecError": "wildspec.errors",
    "domain_class_graph": "wildspec.theory",
    "load": "wildspec.loading",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'wildspec' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
