"""Networks: `build_model(name, num_classes)`; any other backbone through `wrap_backbone`."""

from wildspec.models.build import MODELS, build_model
from wildspec.models.classifier import Classifier, wrap_backbone
from wildspec.models.mirror import mirrored

__all__ = ["MODELS", "Classifier", "build_model", "mirrored", "wrap_backbone"]
