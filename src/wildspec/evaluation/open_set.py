"""Metrics of open-set domain adaptation, at a system's own decision. All in [0, 1].

a_c = share of the samples of known class c that are given class c (rejected = wrong), K known classes.

    OS* = mean over c of a_c                  UNK = share of unknown samples that are rejected
    OS  = (K OS* + UNK) / (K + 1)             HOS = 2 OS* UNK / (OS* + UNK), 0 where both are 0

UNK is computed in two ways by those who publish it: over all unknown samples together (micro: OSBP, DAOD, OSLPP, ANNA) or as
the mean over the unknown classes (macro: ROS, and the published STA rows). OS and HOS here take the micro one; ``hos_macro``
the other. A mean HOS over several tasks is the mean of their HOS, not the HOS of the mean OS* and UNK.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.errors import InputError
from wildspec.evaluation.report import harmonic_mean


@dataclass(frozen=True)
class OpenSet:
    """``os_star``, ``unk`` (micro), ``os``, ``hos``; ``unk_macro``, ``hos_macro``; ``accuracies``: a_c by class."""

    os_star: float
    unk: float
    os: float
    hos: float
    unk_macro: float
    hos_macro: float
    accuracies: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def open_set_metrics(predicted: Any, truth: Any, known: Any) -> OpenSet:
    """``predicted`` (n,): a known class, or anything else = rejected. ``truth`` (n,): the class; one that is not among the
    ``known`` is unknown, and its label only counts for the macro UNK (all -1 where there are none: then both agree)."""
    told, true, classes = np.asarray(predicted), np.asarray(truth), np.unique(np.asarray(known))
    if told.shape != true.shape or told.ndim != 1:
        raise InputError(f"predicted and truth must have shape (n,), one entry a sample; got {told.shape} and {true.shape}")
    if not len(classes):
        raise InputError("known must name at least one class")
    inside = np.isin(true, classes)
    absent = [str(c) for c in classes if not np.any(true == c)]
    if absent:
        raise InputError(f"truth has no sample of the known class {', '.join(absent)}; leave it out of known")
    if inside.all():
        raise InputError("truth has no sample of an unknown class; UNK and HOS need some")
    accuracies = {str(c): float(np.mean(told[true == c] == c)) for c in classes}
    rejected: NDArray[np.bool_] = ~np.isin(told, classes)
    unk = float(rejected[~inside].mean())
    macro = float(np.mean([rejected[true == c].mean() for c in np.unique(true[~inside])]))
    star, count = float(np.mean(list(accuracies.values()))), len(classes)
    return OpenSet(
        os_star=star, unk=unk, os=(count * star + unk) / (count + 1), hos=harmonic_mean(star, unk),
        unk_macro=macro, hos_macro=harmonic_mean(star, macro), accuracies=accuracies,
    )  # fmt: skip
