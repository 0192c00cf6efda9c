"""Networks: `build_model(name, num_classes)`; another backbone through `wrap_backbone`, a classifier that is there already
through `wrap_classifier`."""

from wildspec.models.build import MODELS, build_model
from wildspec.models.classifier import Classifier, wrap_backbone
from wildspec.models.finished import FinishedClassifier, wrap_classifier
from wildspec.models.mirror import mirrored

__all__ = ["MODELS", "Classifier", "FinishedClassifier", "build_model", "mirrored", "wrap_backbone", "wrap_classifier"]
