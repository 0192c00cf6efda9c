"""What makes a run the run it is: a checkpoint of another one must not be gone on with in silence."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from wildspec.data import ImageSet, WildMixture
from wildspec.errors import InputError
from wildspec.methods.base import Method, Stage
from wildspec.models import Classifier
from wildspec.training.feed import DeviceData

LATER = (", epoch_steps=0", ", backbone_lr=1.0", ", backbone_part='all'", ", decay=(0.0, 1.0)")
LOOKED_AT = 64
SAME = "resume it with the same settings and data or choose another folder"


def identity(
    model: Classifier, method: Method, stages: Sequence[Stage], seed: int, source: DeviceData
) -> dict[str, Any]:
    """JSON-able facts, taken before the first step: recipe, hyper-parameters, seed, number of images and their labels; the
    network where it can say what it is, what pixels are divided by, the wild mixture, and a look at the images.
    A setting that came later and is at its default is not among them: earlier checkpoints do not have it."""
    labels = source.labels.cpu().contiguous().numpy().tobytes()
    preprocess, wild = source.preprocess, source.data.wild
    mixed = [wild.pi_c, wild.pi_s, *wild.sizes] if isinstance(wild, WildMixture) else []
    return {
        "stages": [_told(stage) for stage in stages], "method": method.name, "seed": seed,
        "hyper-parameters": hyper_parameters(method), "number of images": source.sizes,
        "labels": hashlib.sha256(labels).hexdigest()[:16],
        **({} if model.spec is None else {"network": dict(model.spec)}),
        "preprocessing": [preprocess.size, *preprocess.mean, *preprocess.std], "mixture": mixed,
        "labelled images": _look(source.labelled), "wild images": "" if source.wild is None else _look(source.wild),
    }  # fmt: skip


def _look(images: ImageSet) -> str:
    """A digest of up to `LOOKED_AT` images, evenly spaced from the first to the last; no others are read or moved."""
    where = torch.linspace(0, len(images) - 1, min(LOOKED_AT, len(images)), dtype=torch.float64).round().long()
    return hashlib.sha256(images.gather(where).cpu().contiguous().numpy().tobytes()).hexdigest()[:16]


def _told(stage: Stage) -> str:
    text = repr(stage)
    for later in LATER:
        text = text.replace(later, "")
    return text


def hyper_parameters(method: Method) -> dict[str, Any]:
    """The plain values a method and its parts were built with; what they learn lives in parameters and buffers."""
    return {
        f"{part}.{name}".removeprefix("."): value
        for part, module in method.named_modules() for name, value in vars(module).items()
        if not name.startswith("_") and name != "training" and isinstance(value, (bool, int, float, str))
    }  # fmt: skip


def check_same(folder: Path | None, before: dict[str, Any], now: dict[str, Any]) -> None:
    """`InputError` that names what is not as it was. Facts that a checkpoint of an earlier version lacks are not compared,
    nor are hyper-parameters that only one of the two versions knows."""
    words = {"stages": "another stage", **{name: f"other {name}" for name in ("labels", "labelled images", "wild images")}}
    for name, value in now.items():
        if name != "hyper-parameters" and before.get(name, value) != value:
            raise InputError(f"{folder} was started with {words.get(name, f'another {name}')}; {SAME}")
    told = before.get("hyper-parameters", {})
    for name, value in now["hyper-parameters"].items():
        if told.get(name, value) != value:
            raise InputError(f"{folder} was started with {name} = {told[name]}, now it is {value}; {SAME}")


def finished(facts: dict[str, Any]) -> bool:
    """Is a checkpoint with these facts the end of its run?"""
    return bool(facts["stage_number"] == len(facts["stages"]))


def check_start(folder: Path, before: dict[str, Any] | None, now: dict[str, Any]) -> None:
    """`InputError` unless the end of another run is what the first stage of this one would come to: the same stage but for
    its name, the same seed, labelled images and labels, the same network and preprocessing."""
    wrong = None
    if before is None or not finished(before):
        wrong = "is not finished"
    elif len(before["stages"]) != 1 or _nameless(before["stages"][0]) != _nameless(now["stages"][0]):
        wrong = "is of another stage"
    elif (before["seed"], before["labels"]) != (now["seed"], now["labels"]):
        wrong = "has another seed or other labels"
    else:
        told = [name for name in ("labelled images", "network", "preprocessing") if name in before]
        if any(before[name] != now.get(name) for name in told):
            wrong = "has other labelled images, another network or another preprocessing"
    if wrong:
        raise InputError(f"the run in {folder} {wrong}, so it is no start for this one; finish it, or leave it out")


def _nameless(stage: str) -> str:
    return re.sub(r"\bname='[^']*'", "", stage)


def load_weights(folder: Path | None, model: nn.Module, weights: dict[str, Any]) -> None:
    """Put a checkpoint's weights into the model; `InputError` where it is another network."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:  # torch lists every name and shape, on many lines
        raise InputError(f"{folder} was started with another network; {SAME}") from error
