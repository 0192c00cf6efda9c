"""``wildspec.load``: a bundle back to the estimator that wrote it."""

from os import PathLike
from typing import Any

from wildspec.bundle.store import read_bundle
from wildspec.errors import CheckpointError


def load(path: str | PathLike[str], **options: Any) -> Any:
    """The fitted estimator in the bundle at ``path``; ``options`` go to its ``from_bundle`` (device, backbone).

    Only safetensors and JSON are read. A changed byte, a missing or extra file, a newer format or a path that leaves the
    bundle is a CheckpointError.
    """
    stored = read_bundle(path)
    if stored.kind == "images":
        from wildspec.images.classifier import WildClassifier

        return WildClassifier.from_bundle(stored, **options)
    if stored.kind == "embeddings":
        from wildspec.embeddings.classifier import SpectralClassifier

        return SpectralClassifier.from_bundle(stored, **options)
    raise CheckpointError(f"bundle {path} holds a model of kind {stored.kind!r}, which this wildspec does not know")
