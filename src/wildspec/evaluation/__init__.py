"""Metrics, threshold calibration, and `evaluate`: what a model and a detector are worth, in one feature pass."""

from wildspec.decision.calibration import Calibration, calibrate
from wildspec.decision.decision import Decision
from wildspec.decision.joint import JointCalibration, calibrate_jointly, calibrate_ratio
from wildspec.decision.shares import Mixture, estimate_mixture
from wildspec.evaluation.deciding import decide
from wildspec.evaluation.evaluate import Judgement, evaluate, evaluate_detectors, evaluate_outputs
from wildspec.evaluation.features import Outputs, collect, score_all
from wildspec.evaluation.metrics import aupr_in, aupr_out, auroc, fpr95_id, fpr95_ood, separation, threshold_at
from wildspec.evaluation.open_set import OpenSet, open_set_metrics
from wildspec.evaluation.report import Evaluation, evaluate_scores

__all__ = [
    "Calibration", "Decision", "Evaluation", "JointCalibration", "Judgement", "Mixture", "OpenSet", "Outputs",
    "aupr_in", "aupr_out", "auroc", "calibrate", "calibrate_jointly", "calibrate_ratio", "collect", "decide",
    "estimate_mixture", "evaluate", "evaluate_detectors", "evaluate_outputs", "evaluate_scores", "fpr95_id", "fpr95_ood",
    "open_set_metrics", "score_all", "separation", "threshold_at",
]  # fmt: skip
