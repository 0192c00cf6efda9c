"""``wildspec.load``: a bundle back to the estimator that wrote it."""

from importlib import import_module
from os import PathLike
from typing import Any

from wildspec.bundle.store import read_bundle
from wildspec.errors import CheckpointError

# kind -> (module, class with a ``from_bundle(stored, **options)``)
KINDS = {
    "images": ("wildspec.images.classifier", "WildClassifier"),
    "embeddings": ("wildspec.embeddings", "SpectralClassifier"),
}


def load(path: str | PathLike[str], **options: Any) -> Any:
    """The fitted estimator in the bundle at ``path``; ``options`` go to its ``from_bundle`` (device, backbone).

    Only safetensors and JSON are read. A changed byte, a missing or extra file, a newer format or a path that leaves the
    bundle is a CheckpointError.
    """
    stored = read_bundle(path)
    if stored.kind not in KINDS:
        raise CheckpointError(f"bundle {path} holds a model of kind {stored.kind!r}, which this wildspec does not know")
    module, name = KINDS[stored.kind]
    return getattr(import_module(module), name).from_bundle(stored, **options)
