"""Which network is taken as it is, at which size, and what it is called in a bundle."""

from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from wildspec.errors import InputError
from wildspec.models.backbones import check_backbone, make_network, rebuild
from wildspec.models.encoder import Encoder
from wildspec.models.initial_weights import trained_with
from wildspec.models.registry import BACKBONES, find_backbone
from wildspec.models.scaling import IMAGENET
from wildspec.training import resolve_device

USUAL = "efficientnet_lite0"
SMALL_PICTURES = 160  # pixels, where pictures have fewer than the network was made for: enlarging them more gains nothing
OWN_SIZE = 224  # of a module that does not say
PREFIX = "backbone."


def usual_is_here() -> bool:
    """Whether the weights of the usual backbone can be found."""
    return BACKBONES[USUAL].installed


def brings_weights(name: str) -> bool:
    """Whether a backbone of this name comes trained."""
    kind, _, rest = name.partition(":")
    if kind in ("timm", "torchvision"):
        return rest.endswith(":pretrained")
    return kind == "onnx" or (name in BACKBONES and BACKBONES[name].weights is not None)


def frozen_encoder(
    backbone: str | nn.Module, *, size: int | None = None, init: str | PathLike[str] | None = None,
    device: torch.device | str = "auto", classes: int = 2, side: int = 0,
) -> tuple[Encoder, dict[str, Any], dict[str, Tensor]]:
    """The encoder, its record (`wildspec.models.backbones`) and its weights under ``backbone.``, as a bundle keeps them.

    ``backbone``: a name or a module; "auto": `USUAL`. ``side``: of the pictures, the shorter one, 0 = not known; it decides
    where no ``size`` is given. What is missing is an error before any image is read.
    """  # fmt: skip
    where = resolve_device(device) if isinstance(device, str) else device
    backbone = USUAL if isinstance(backbone, str) and backbone == "auto" else backbone
    check_backbone(backbone, weights=init is None)
    scaling = None if init is None else trained_with(init)
    if isinstance(backbone, nn.Module):
        size = size or OWN_SIZE
    else:
        if init is None and not brings_weights(backbone):
            raise InputError(
                f"backbone {backbone} brings no weights, so there is nothing to freeze: give some (--init, init=), take "
                f"{USUAL}, or train it (--end-to-end, training=Training())"
            )
        known = find_backbone(backbone)
        size, scaling = size or usual_size(backbone, known.size, side), scaling or known.scaling
    network, record = make_network(backbone, classes, size, where, seed=0, method="erm", init=init)
    scaling = scaling or IMAGENET
    encoder = Encoder(network.backbone, size, mean=scaling.mean, std=scaling.std, device=where)
    weights = {f"{PREFIX}{name}": value.detach().cpu() for name, value in network.backbone.state_dict().items()}
    return encoder, record, weights


def usual_size(name: str, made_for: int | None, side: int = 0) -> int:
    """Pixels where nobody chose: what the network was made for; where it takes any size and the pictures have fewer pixels,
    `SMALL_PICTURES`."""
    size = made_for or OWN_SIZE
    any_size = name in BACKBONES and BACKBONES[name].weights is not None
    return min(SMALL_PICTURES, size) if any_size and 0 < side < size else size


def restore_encoder(
    record: dict[str, Any], weights: dict[str, Tensor], mean: tuple[float, ...], std: tuple[float, ...], size: int,
    device: torch.device, backbone: nn.Module | None = None,
) -> Encoder:
    """The encoder in a bundle; a module of one's own must be given again."""  # fmt: skip
    network = rebuild(record, backbone).backbone
    network.load_state_dict({name.removeprefix(PREFIX): value for name, value in weights.items()})
    return Encoder(network, size, mean=(mean[0], mean[1], mean[2]), std=(std[0], std[1], std[2]), device=device)
