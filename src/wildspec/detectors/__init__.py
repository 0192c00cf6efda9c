"""Detectors: one score per file, high = OOD, behind one contract (``base.Detector``)."""

from wildspec.decision.attribution import Attribution, attribute
from wildspec.detectors.base import (
    REGISTRY,
    Detector,
    build_detector,
    detector_names,
    names_for,
    register,
    restore_detector,
)
from wildspec.detectors.energy import Energy, energy_score
from wildspec.detectors.gen import GEN, gen_score
from wildspec.detectors.knn import KNN, knn_score
from wildspec.detectors.layers import MahalanobisEnsemble, PooledLayers
from wildspec.detectors.mahalanobis import Mahalanobis
from wildspec.detectors.maxlogit import MaxLogit, maxlogit_score
from wildspec.detectors.msp import MSP, msp_score
from wildspec.detectors.nnguide import NNGuide
from wildspec.detectors.odin import ODIN, odin_score
from wildspec.detectors.one_against_rest import OneAgainstRest
from wildspec.detectors.rmds import RMDS
from wildspec.detectors.shaping import ASH, DICE, SCALE, ReAct
from wildspec.detectors.she import SHE
from wildspec.detectors.unknown_logit import UnknownLogit, unknown_score
from wildspec.detectors.vim import ViM
from wildspec.detectors.wild_knn import WildKNN

__all__ = [
    "ASH", "DICE", "GEN", "KNN", "MSP", "ODIN", "REGISTRY", "RMDS", "SCALE", "SHE", "Attribution", "Detector", "Energy",
    "Mahalanobis", "MahalanobisEnsemble", "MaxLogit", "NNGuide", "OneAgainstRest", "PooledLayers", "ReAct", "UnknownLogit",
    "ViM", "WildKNN", "attribute", "build_detector", "detector_names", "energy_score", "gen_score", "knn_score",
    "maxlogit_score", "msp_score", "names_for", "odin_score", "register", "restore_detector", "unknown_score",
]  # fmt: skip
