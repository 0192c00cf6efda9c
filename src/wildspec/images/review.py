"""What an image model on a frozen network gives to a review of its wild pool, and takes from it.

A bundle keeps the pool as rows of the rule, with the names of its images, and the rows of those held out: no image is
decoded or sent through the network again (`wildspec.decision.review`).
"""

import hashlib
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from wildspec.decision.review import Learned, Review
from wildspec.errors import InputError
from wildspec.images.choosing import choose_way
from wildspec.images.decided import as_evidence, rule_metrics
from wildspec.images.fitted import Fitted
from wildspec.images.frozen_decision import FrozenDecision

INSTEAD = "fit it with --frozen (training=None), or run wildspec embed and then embed-fit"


def check_can_ask(estimator: Any) -> None:
    """Better known before a fit than after: a `WildClassifier` that will train its network cannot take answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fit says it
        way = choose_way(estimator.training, estimator.backbone, estimator.init)
    if way != "frozen":
        raise InputError(f"answers need a frozen backbone, this fit would train one end to end; {INSTEAD}")


def make_review(fitted: Fitted) -> Review:
    """Samples are named as the files of the pool are; where two have one name, with their number behind it."""
    if not isinstance(fitted.decision, FrozenDecision):
        raise InputError(f"review needs a model on a frozen backbone, this one was trained end to end; {INSTEAD}")
    if fitted.aside is None:
        raise InputError("this bundle was written before review could ask about images; fit it again (features are kept)")
    decision, names = fitted.decision, fitted.aside.pool
    if len(set(names)) < len(names):
        names = [f"{name}#{number}" for number, name in enumerate(names)]
    learned = Learned(decision.rule, decision.thresholds, list(fitted.classes))
    graph = learned.rule.graph
    digest = hashlib.sha256("\n".join(names).encode())
    digest.update(b"" if graph is None else np.ascontiguousarray(graph.rows).tobytes())
    aside, title = fitted.aside, digest.hexdigest()[:12]
    return Review(learned, aside.calibration, np.array(names, dtype=object), title, aside.labels)


def take_review(fitted: Fitted, review: Review) -> Fitted:
    """The model as the review's last refit has learned; metrics and evidence are made anew. The temperature stays: there
    are no samples that neither the rule nor the answers have taught but those to be measured on."""
    assert fitted.aside is not None
    assert isinstance(fitted.decision, FrozenDecision)
    learned, classes = review.learned, tuple(str(name) for name in review.learned.classes)
    decision = replace(fitted.decision, rule=learned.model, thresholds=learned.thresholds)
    judged = decision.judge(fitted.aside.validation)
    evidence = fitted.evidence | as_evidence("validation", judged)
    evidence |= as_evidence("wild", decision.judge_pool(evidence["wild.shifted"].numpy()))
    metrics = rule_metrics(decision, evidence, judged, classes)
    if learned.given:
        metrics["wild"]["answers"] = len(learned.given)
    return replace(
        fitted, decision=decision, classes=classes, evidence=evidence, record={**fitted.record, "metrics": metrics}
    )
