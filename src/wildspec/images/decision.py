"""Which detector an image model decides by, and with which threshold: "auto" asks what there is to learn from."""

import numpy as np
from torch import Tensor

from wildspec.decision.shares import FEWEST
from wildspec.detectors import Detector, WildKNN, build_detector
from wildspec.detectors.choose import choose_detector
from wildspec.evaluation import Decision, Outputs, calibrate_ratio, decide
from wildspec.evaluation.deciding import fit
from wildspec.images.frozen_decision import Judged


def learn_decision(
    train: Outputs, wild: Outputs | None, held_out: Outputs, *, detector: str | Detector = "auto", alpha: float = 0.05,
    trained: str | None = None, per_class: bool = False,
) -> Decision[Detector]:  # fmt: skip
    """Fit the detector on the labelled training samples (and the wild ones), calibrate it on held-out labelled ones.

    ``detector="auto"``: with a wild pool the joint decision (`WildKNN`, `JointCalibration`), without one plain KNN with the
    conformal threshold. ``trained``: a score that the network was trained to give wild samples (`wildspec.methods.pu`); it
    then is what "auto" takes, with the conformal threshold: the pool had its say in training. Any detector that is named
    keeps the conformal threshold, unless it uses wild samples itself. ``per_class``: alpha is promised for each class.
    """
    labels = held_out.labels if per_class else None
    if detector == "auto" and trained is not None and wild is not None and len(wild) >= FEWEST:
        score = build_detector(trained)
        fit(score, train, wild, model=train.model)
        return Decision(score, calibrate_ratio(held_out.score(score), wild.score(score), alpha, labels))
    assert train.labels is not None
    chosen = usual_detector(detector, train.labels, 0 if wild is None else len(wild))
    return decide(chosen, train, wild, held_out, alpha, per_class=per_class)


def usual_detector(detector: str | Detector, labels: Tensor, wild: int) -> Detector:
    """What was asked for; "auto" with ``wild`` images, if they are enough to see a shape in, is `WildKNN`, else KNN."""
    if detector != "auto":
        return choose_detector(detector, labels)
    return WildKNN(rule="linear") if wild >= FEWEST else choose_detector("knn", labels)


def judge(decision: Decision[Detector], seen: Outputs) -> Judged:
    """Decisions about samples that went through the network; classes and probabilities are those of its head."""
    score = seen.score(decision.detector).double().cpu().numpy()
    threshold = np.full(len(score), decision.threshold)
    p_value, probabilities = decision.calibration.p_value(score), seen.logits.softmax(1).cpu().numpy()
    return Judged(seen.predictions.cpu().numpy(), probabilities, score, threshold, p_value, np.zeros(len(score)))
