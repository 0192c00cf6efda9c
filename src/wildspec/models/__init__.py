"""Networks: `build_model(name, num_classes)`; another backbone through `wrap_backbone`, a classifier that is there already
through `wrap_classifier`. What is known of a backbone: `find_backbone(name)`; features of a frozen one: `Encoder`."""

from wildspec.models.build import MODELS, build_model
from wildspec.models.classifier import Classifier, wrap_backbone
from wildspec.models.encoder import Encoder
from wildspec.models.finished import FinishedClassifier, wrap_classifier
from wildspec.models.mirror import mirrored
from wildspec.models.registry import BACKBONES, Backbone, find_backbone

__all__ = [
    "BACKBONES", "MODELS", "Backbone", "Classifier", "Encoder", "FinishedClassifier", "build_model", "find_backbone",
    "mirrored", "wrap_backbone", "wrap_classifier",
]  # fmt: skip
