"""Which network an image model has: chosen for the machine, named, brought along, or taken from timm or torchvision.

A network is described by a record (JSON) from which `rebuild` makes it again, empty; its weights travel beside it.
"""

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from wildspec.checks import choice, integer, require
from wildspec.data.images import ImageSet
from wildspec.data.preprocess import IMAGENET_MEAN, IMAGENET_STD, Preprocess
from wildspec.data.source import ImageSource
from wildspec.errors import DataError, InputError, InputTypeError, MissingDependencyError, WildspecError
from wildspec.models import MODELS, Classifier, build_model, wrap_backbone

ADAPTERS = ("timm", "torchvision")
SMALLEST = 8
_LOOK_AT = 32  # images whose size is looked at
_MEASURE = 2000  # images whose mean and deviation are taken
_LEAST_STD = 0.02  # of pixels in [0, 1]: nearly blank images are not blown up


def choose_size(source: ImageSource, device: torch.device) -> int:
    """Side of the network's input: on a CPU 32 px; on a GPU 32, 64 or 128, whichever the images fill. Never upscaled."""
    sides = []
    for i in np.linspace(0, len(source) - 1, min(_LOOK_AT, len(source))).astype(int).tolist():
        try:
            sides.append(min(source.load(i).shape[:2]))
        except DataError:
            continue
    typical = int(np.median(sides)) if sides else 32
    fits = [side for side in (32, 64, 128) if side <= typical] if device.type == "cuda" else [32]
    return max(SMALLEST, min(typical, max(fits, default=32)))


def choose_name(method: str, size: int, device: torch.device) -> str:
    """What "auto" means. On a CPU: the smallest for the spectral methods, which look at every image four times a step. `pu`
    has one network everywhere: the larger one, on a GPU, found fewer unknown images (docs/results/own-images.md)."""
    if device.type != "cpu" and not (method == "pu" and size <= 64):
        return "wrn40_2" if size <= 64 else "resnet34"
    return "small" if method in ("scl", "nscl", "spectral", "spectral+") else "small_resnet"


def make_network(
    backbone: str | nn.Module, num_classes: int, size: int, device: torch.device, seed: int, method: str = "spectral"
) -> tuple[Classifier, dict[str, Any]]:
    """The network, freshly initialized from ``seed``, and its record. ``backbone``: "auto" (see `choose_name`), a name, or
    a module."""
    if isinstance(backbone, str) and backbone == "auto":
        backbone = choose_name(method, size, device)
    if isinstance(backbone, nn.Module):
        model = _wrap(backbone, num_classes, size)
        kind = type(backbone)
        return model, {"foreign": f"{kind.__module__}.{kind.__qualname__}", "num_classes": num_classes, "size": size}
    if not isinstance(backbone, str):
        raise InputTypeError(f"backbone must be a name or a torch module, got {type(backbone).__name__}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(integer("seed", seed))
        library, _, name = backbone.partition(":")
        if library in ADAPTERS and name:
            record = {"adapter": library, "name": name, "num_classes": num_classes, "size": size}
            return _wrap(_from_library(library, name), num_classes, size), record
        if backbone not in MODELS:
            raise InputError(
                f"backbone must be auto, one of {', '.join(MODELS)}, timm:NAME or torchvision:NAME; got {backbone!r}"
            )
        model = build_model(backbone, num_classes, size=size)
        assert model.spec is not None
        return model, dict(model.spec)


def name_of(record: dict[str, Any]) -> str:
    """What `make_network` was asked for, as far as a name can say it."""
    return f"{record['adapter']}:{record['name']}" if "adapter" in record else str(record.get("name", "auto"))


def rebuild(record: dict[str, Any], backbone: nn.Module | None = None) -> Classifier:
    """The network of a record, without its weights; a foreign backbone must be given again."""
    classes, size = int(record["num_classes"]), int(record["size"])
    if "foreign" in record:
        if backbone is None:
            raise InputError(
                f"this model has a backbone of its own ({record['foreign']}), which a bundle cannot hold; "
                "load it with wildspec.load(path, backbone=MODULE)"
            )
        return _wrap(backbone, classes, size)
    if backbone is not None:
        raise InputError("this model brings its own network; load it without backbone=")
    if "adapter" in record:
        library = choice("adapter", record["adapter"], ADAPTERS)
        return _wrap(_from_library(library, str(record["name"]).split(":")[0]), classes, size)
    return build_model(record["name"], classes, dropout=float(record.get("dropout", 0.0)), size=size)


def preprocess_for(record: dict[str, Any], images: ImageSet, init: str | PathLike[str] | None = None) -> Preprocess:
    """Mean and deviation of the training images; for a network that brings weights those it was trained with, where they
    lie in a bundle or a run of ``wildspec train``, else ImageNet's, also for one that may bring some."""
    size = images.image_size[0]
    theirs = None if init is None else _trained_with(Path(init))
    if theirs is not None:
        return Preprocess(size, theirs.mean, theirs.std)
    if init is not None or "adapter" in record or "foreign" in record:
        return Preprocess(size, IMAGENET_MEAN, IMAGENET_STD)
    some = np.linspace(0, len(images) - 1, min(len(images), _MEASURE)).astype(np.int64)
    pixels = images.gather(some).float() / 255
    mean, std = pixels.mean(dim=(0, 2, 3)), pixels.std(dim=(0, 2, 3)).clamp_min(_LEAST_STD)
    return Preprocess.from_json({"size": size, "mean": mean.tolist(), "std": std.tolist()})


def _trained_with(weights: Path) -> Preprocess | None:
    """What the record beside weights of ours says; None for weights of another origin."""
    record = {"weights.safetensors": "model.json", "model.safetensors": "run.json"}.get(weights.name)
    if record is None:
        return None
    try:
        return Preprocess.from_json(json.loads(weights.with_name(record).read_text(encoding="utf-8"))["preprocess"])
    except (OSError, ValueError, KeyError, TypeError, WildspecError):
        return None


def check_init(path: str | PathLike[str]) -> Path:
    """Initial weights are a file that is there: better known before all images are read than after."""
    file = Path(path)
    if file.is_dir():
        raise DataError(f"initial weights {file} are a folder; of a bundle give {file / 'weights.safetensors'}")
    if not file.is_file():
        raise DataError(f"initial weights {file} do not exist; expected a .safetensors file of the backbone")
    return file


def load_init(model: Classifier, path: str | PathLike[str]) -> None:
    """Start the backbone from a safetensors file: all of its weights must be there; a classifier in the file is left out."""
    file = check_init(path)
    try:
        given = load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"initial weights {file} are not readable safetensors ({error}); pickles are not read") from error
    own = model.backbone.state_dict()
    found = _matching(given, own)
    missing = [name for name in own if name not in found and not name.endswith("num_batches_tracked")]
    if missing:
        raise InputError(
            f"initial weights {file} do not fit the backbone: {len(missing)} of {len(own)} tensors are missing or have "
            f"another shape, first {missing[0]} {tuple(own[missing[0]].shape)}; choose the backbone they were made for"
        )
    model.backbone.load_state_dict(found, strict=False)


def _matching(given: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of the file under the backbone's names, same shape. A prefix ``model.`` (checkpoints of ``wildspec train``,
    the best model of a run) and one ``backbone.`` (weights of a bundle) are taken off."""
    named = {name.removeprefix("model.").removeprefix("backbone."): value for name, value in given.items()}
    return {name: named[name] for name, value in own.items() if name in named and named[name].shape == value.shape}


def _wrap(backbone: nn.Module, num_classes: int, size: int) -> Classifier:
    """`wrap_backbone`; a network made for one size of image says so with an assertion."""
    try:
        return wrap_backbone(backbone, num_classes, size=size)
    except AssertionError as error:
        raise InputError(
            f"the backbone does not take images of {size} x {size} pixels: {_line(error)} Give the size it was made for "
            "(--size, size=)"
        ) from error


def _from_library(library: str, name: str) -> nn.Module:
    """A feature extractor from timm or torchvision; ``NAME:pretrained`` asks the library for its weights."""
    plain, _, option = name.partition(":")
    if option not in ("", "pretrained"):
        raise InputError(f"backbone {library}:{name} must end after the name or in :pretrained")
    package = _open_library(library, f"backbone {library}:{name}")
    unknown: type[Exception] = RuntimeError if library == "timm" else ValueError
    try:
        if library == "timm":
            return package.create_model(plain, pretrained=bool(option), num_classes=0)
        network = package.models.get_model(plain, weights="DEFAULT" if option else None)
    except unknown as error:
        raise InputError(f"{library} has no model {plain!r}: {_line(error)}") from error
    except Exception as error:  # each library has its own ways to say that it cannot download
        if not option:
            raise
        raise DataError(
            f"{library} cannot get the weights of {plain}: {_line(error)}; check the connection, or start from a file with "
            "--init"
        ) from error
    for attribute in ("fc", "classifier", "heads", "head"):
        if isinstance(getattr(network, attribute, None), nn.Module):
            setattr(network, attribute, nn.Identity())
            return network
    raise InputError(f"torchvision:{plain} has no classifier that could be taken off; pass the module itself as backbone")


def _open_library(library: str, why: str) -> Any:
    """timm or torchvision; one that is there but was built for another torch fails in its own way."""
    try:
        return require(library, None, why)
    except (RuntimeError, OSError, AttributeError) as error:
        raise MissingDependencyError(
            f"{why} needs the package '{library}', which is installed but does not work with torch {torch.__version__}: "
            f"{_line(error)}; install the one made for it"
        ) from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
