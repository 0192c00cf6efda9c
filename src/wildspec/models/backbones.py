"""The network of an image model: chosen for the machine, named, or brought along; with a head for the classes.

A network is described by a record (JSON) from which `rebuild` makes it again, empty; its weights travel beside it.
"""

from os import PathLike
from typing import Any

import torch
from torch import nn

from wildspec.checks import MOST_SEED, choice, integer
from wildspec.errors import InputError, InputTypeError, one_line
from wildspec.models.build import MODELS, WITH_DROPOUT, build_model
from wildspec.models.classifier import Classifier, wrap_backbone
from wildspec.models.finished import FinishedClassifier
from wildspec.models.initial_weights import load_init
from wildspec.models.libraries import LIBRARIES, library_model
from wildspec.models.onnx_backbone import LARGEST, OnnxBackbone
from wildspec.models.outputs import ExtraOutputs, add_outputs
from wildspec.models.registry import find_backbone
from wildspec.models.scaling import IMAGENET, Scaling

SPECTRAL = ("scl", "nscl", "spectral", "spectral+")  # methods whose loss is on the features themselves


def choose_name(method: str, size: int, device: torch.device) -> str:
    """What "auto" means. On a CPU: the smallest for the spectral methods, which look at every image four times a step. `pu`
    has one network everywhere: the larger one, on a GPU, found fewer unknown images (docs/results/own-images.md)."""
    if device.type != "cpu" and not (method == "pu" and size <= 64):
        return "wrn40_2" if size <= 64 else "resnet34"
    return "small" if method in SPECTRAL else "small_resnet"


def check_backbone(backbone: str | nn.Module, method: str | None = None, *, weights: bool = True) -> None:
    """An error, before any image is read, where `make_network` could not make it, or ``method`` not train it. ``weights``:
    it is to bring its own."""
    if isinstance(backbone, Classifier | FinishedClassifier):
        raise InputError("backbone is a whole classifier, but its outputs are no features; give it without its last layer")
    if isinstance(backbone, nn.Module) or backbone == "auto":
        return
    if not isinstance(backbone, str):
        raise InputTypeError(f"backbone must be a name or a torch module, got {type(backbone).__name__}")
    found = find_backbone(backbone)
    if backbone.startswith("onnx:") and method in SPECTRAL:
        raise InputError(
            f"method {method} trains the features, which are fixed in the graph {found.origin}; take method erm or pu"
        )
    if weights and found.weights is not None:
        found.weights.check()


def make_network(
    backbone: str | nn.Module, num_classes: int, size: int, device: torch.device, seed: int, method: str = "spectral",
    init: str | PathLike[str] | None = None,
) -> tuple[Classifier, dict[str, Any]]:  # fmt: skip
    """The network and its record. ``backbone``: "auto" (see `choose_name`), a name (`find_backbone`), or a module. Its
    weights: from the file ``init``, else those it brings, else made from ``seed``, as the head's always are."""
    if isinstance(backbone, str) and backbone == "auto":
        backbone = choose_name(method, size, device)
    check_backbone(backbone, weights=init is None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(integer("seed", seed, 0, MOST_SEED))
        if isinstance(backbone, nn.Module):
            kind = type(backbone)
            model = _wrap(backbone, num_classes, size)
            record = {"foreign": f"{kind.__module__}.{kind.__qualname__}", "num_classes": num_classes, "size": size}
        else:
            model, record = _named(backbone, num_classes, size, init is None)
    if init is not None:
        load_init(model.backbone, init)
    return model, record


def _named(name: str, num_classes: int, size: int, with_weights: bool) -> tuple[Classifier, dict[str, Any]]:
    if name in MODELS:
        model = build_model(name, num_classes, size=size)
        assert model.spec is not None
        known = find_backbone(name)
        if with_weights and known.weights is not None:
            model.backbone.load_state_dict(known.build(size).state_dict())
        return model, dict(model.spec)
    network = find_backbone(name).make(size, with_weights)
    kind, _, rest = name.partition(":")
    if isinstance(network, OnnxBackbone):
        record: dict[str, Any] = {"onnx": rest, "bytes": len(network.graph)}
    else:
        record = {"adapter": kind, "name": rest}
    model = _wrap(network, num_classes, size)
    return model, {**record, "features": model.feature_dim, "num_classes": num_classes, "size": size}


def name_of(record: dict[str, Any]) -> str:
    """What `make_network` was asked for, as far as a name can say it."""
    if "onnx" in record:
        return f"onnx:{record['onnx']}"
    return f"{record['adapter']}:{record['name']}" if "adapter" in record else str(record.get("name", "auto"))


def scaling_of(record: dict[str, Any]) -> Scaling | None:
    """How the network of a record sees pixels; None: as it is trained to, it brings no weights."""
    if "foreign" in record:
        return IMAGENET  # it does not say; weights that are brought along were mostly made so
    return find_backbone(name_of(record)).scaling


def rebuild(record: dict[str, Any], backbone: nn.Module | None = None) -> Classifier:
    """The network of a record, without its weights; a foreign backbone must be given again."""
    model = _bare(record, backbone)
    if record.get("outputs") is not None:
        add_outputs(model, ExtraOutputs.from_json(record["outputs"]))
    return model


def _bare(record: dict[str, Any], backbone: nn.Module | None) -> Classifier:
    """The network as it was before a method added to it."""
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
        library = choice("adapter", record["adapter"], LIBRARIES)
        return _wrap(library_model(library, str(record["name"])).build(with_weights=False), classes, size)
    if "onnx" in record:
        return Classifier(OnnxBackbone(integer("bytes", record["bytes"], 1, LARGEST)), int(record["features"]), classes)
    name = record["name"]
    dropout = float(record.get("dropout", 0.0)) if name in WITH_DROPOUT else 0.0  # earlier records state some all the same
    return build_model(name, classes, dropout=dropout, size=size)


def _wrap(backbone: nn.Module, num_classes: int, size: int) -> Classifier:
    """`wrap_backbone`; a network made for one size of image says so with an assertion."""
    try:
        return wrap_backbone(backbone, num_classes, size=size)
    except AssertionError as error:
        raise InputError(
            f"the backbone does not take images of {size} x {size} pixels: {one_line(error)} Give the size it "
            "was made for (--size, size=)"
        ) from error
