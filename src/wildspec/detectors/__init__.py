"""Detectors: one score per file, high = OOD, behind one contract (``base.Detector``)."""

from wildspec.detectors.base import REGISTRY, Detector, build_detector, register
from wildspec.detectors.knn import KNN, knn_score

__all__ = ["KNN", "REGISTRY", "Detector", "build_detector", "knn_score", "register"]
