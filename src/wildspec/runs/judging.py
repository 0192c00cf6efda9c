"""One trained run, several detectors."""

from collections.abc import Sequence
from typing import Any

import torch

from wildspec.detectors.choose import choose_detector
from wildspec.evaluation import Judgement, evaluate_detectors
from wildspec.methods import METHODS
from wildspec.runs.folder import Run
from wildspec.runs.task import Task


def judge(
    run: Run, task: Task, detectors: Sequence[str] = (), *, alpha: float = 0.05, device: torch.device | str | None = None
) -> dict[str, Judgement]:
    """Measure; the method's own detector where none is named.

    The threshold is calibrated on the task's calibration images. Where there is no ID test set they stand in for it, and the
    threshold is the 95 % quantile of their own scores.
    """
    names = detectors or (METHODS[run.method].default_detector,)
    known: Any = task.calibration if task.id_test is None else task.id_test
    return evaluate_detectors(
        run.model, train=task.labelled, id=known, covariate=task.covariate_test, semantic=task.semantic_test,
        wild=None if task.wild is None else task.wild.pool,
        calibration=None if task.id_test is None else task.calibration,
        detectors={text: choose_detector(text, task.labelled.labels) for text in names},
        preprocess=run.preprocess, alpha=alpha, device=device,
    )  # fmt: skip
