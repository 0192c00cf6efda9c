"""What is saved: weights, bank, thresholds, classes, preprocessing; safe to load (safetensors and JSON only).

The names below are imported on first use: what is there, and where a bundle may be written, is known without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wildspec.bundle.store import Stored, read_bundle, write_bundle
    from wildspec.bundle.target import check_target

__all__ = ["Stored", "check_target", "read_bundle", "write_bundle"]
_PUBLIC = {"Stored": "store", "check_target": "target", "read_bundle": "store", "write_bundle": "store"}


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"wildspec.bundle.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'wildspec.bundle' has no attribute {name!r}")
