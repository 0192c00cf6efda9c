"""The networks by name."""

from collections.abc import Callable

from torch import nn

from wildspec.checks import choice, fraction, integer
from wildspec.errors import InputError
from wildspec.models.classifier import Classifier
from wildspec.models.efficientnet_lite import EfficientNetLite
from wildspec.models.resnet import BasicBlock, Bottleneck, ResNet
from wildspec.models.small import SmallNet, SmallResNet
from wildspec.models.wide_resnet import WideResNet

# name -> backbone(dropout, image size), without weights; what is known of each: wildspec.models.registry
NETWORKS: dict[str, Callable[[float, int], nn.Module]] = {
    "small": lambda dropout, size: SmallNet(),
    "small_resnet": lambda dropout, size: SmallResNet(),
    "wrn16_2": lambda dropout, size: WideResNet(16, 2, dropout),
    "wrn40_2": lambda dropout, size: WideResNet(40, 2, dropout),
    "resnet34": lambda dropout, size: ResNet(BasicBlock, (3, 4, 6, 3), small=size < 64),
    "resnet50": lambda dropout, size: ResNet(Bottleneck, (3, 4, 6, 3), small=size < 64),
    "efficientnet_lite0": lambda dropout, size: EfficientNetLite(0),
    "efficientnet_lite1": lambda dropout, size: EfficientNetLite(1),
    "efficientnet_lite2": lambda dropout, size: EfficientNetLite(2),
}
MODELS = tuple(NETWORKS)
WITH_DROPOUT = ("wrn16_2", "wrn40_2")  # in the others it would do nothing


def check_dropout(name: str, dropout: float) -> None:
    """An error where a network of that name would not do what it is told."""
    if fraction("dropout", dropout) > 0 and name not in WITH_DROPOUT:
        raise InputError(f"{name} has no dropout to set to {dropout:g}; leave it out, or take {' or '.join(WITH_DROPOUT)}")


def build_model(name: str, num_classes: int, *, dropout: float = 0.0, size: int = 32) -> Classifier:
    """A network with a linear head. ``dropout``: of the Wide ResNets, the others have none; ``size`` picks the stem of the
    ResNets.

    wrn40_2 with 10 classes has 2,243,546 parameters and 128 features (the paper's network for CIFAR-10).
    """
    choice("model", name, MODELS)
    integer("num_classes", num_classes, 2)
    check_dropout(name, dropout)
    backbone = NETWORKS[name](dropout, size)
    model = Classifier(backbone, int(backbone.feature_dim), num_classes)  # type: ignore[arg-type]
    model.spec = {"name": name, "num_classes": num_classes, "dropout": dropout, "size": size}
    return model
