"""Further samples for a fitted `SpectralClassifier`: what ``partial_fit`` does."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.decision.answers import AnsweredRule
from wildspec.decision.rule import Rule, more_labelled, more_wild
from wildspec.decision.shift import FEWEST
from wildspec.decision.thresholds import learn_temperature
from wildspec.embeddings.review import pool_id, rows_id
from wildspec.embeddings.rows import copies, known_labels
from wildspec.errors import InputError
from wildspec.graph.search import Rows

COPIES = (
    "{count} of the labelled samples are copies of ones that fit held out for calibration: they are left out, since a "
    "threshold from samples that were learned from would be too low"
)
Held = tuple[Rows, NDArray[np.int64]] | None  # held-out rows and their classes; None: not in bundles of earlier versions


def add_samples(estimator: Any, X: Any, y: Any) -> None:
    """Wild samples (y = -1 or None) join the graph, labelled ones bank and probes; shift and held-out samples stay."""
    if isinstance(estimator.model_, AnsweredRule):
        raise InputError("partial_fit cannot go on after answers, which rest on the pool as it was; fit, then answer")
    rule: Rule = estimator._rule
    rows = estimator._asked(X)
    wild, given = (np.ones(len(rows), bool), None) if y is None else known_labels(y)
    if len(wild) != len(rows):
        raise InputError(f"X has {len(rows)} rows and y {len(wild)} entries; give one for each, -1 for wild samples")
    if wild.any() and rule.graph is None:
        raise InputError(
            f"this model was fitted with fewer than {FEWEST} wild samples and keeps none of them; call fit with all"
        )
    labels = estimator._held_labels
    held: Held = (estimator._held_rows, labels) if (labels >= 0).all() else None
    if given is not None and len(given):
        numbers = _numbers(estimator.classes_, given)
        new = _not_held_out(rows[~wild], estimator._held_rows)
        rule = more_labelled(rule, rows[~wild][new], numbers[new], held)
        estimator._rows = np.r_[estimator._rows, np.full(len(new), -1)]
    if wild.any():
        rule = more_wild(rule, rows[wild], held)
        estimator.n_wild_ += int(wild.sum())
        estimator._pool = rows_id(rows[wild], before=pool_id(estimator))
        estimator._wild_rows = np.r_[estimator._wild_rows, estimator._rows_seen + np.flatnonzero(wild)]
    estimator._rows_seen += len(rows)
    apart = estimator.thresholds_.apart
    estimator._take(rule, estimator._thresholds(rule, apart=apart))
    if held is not None:
        estimator.temperature_ = learn_temperature(rule, *held, apart=apart)


def _numbers(classes: NDArray[Any], given: NDArray[Any]) -> NDArray[np.int64]:
    """(n,) class numbers of labels that ``fit`` has seen."""
    numbers = np.searchsorted(classes, given).clip(0, len(classes) - 1)
    if not (classes[numbers] == given).all():
        raise InputError("partial_fit takes classes that fit has seen; call fit to add a new class")
    return numbers.astype(np.int64)


def _not_held_out(rows: Rows, held: Rows) -> NDArray[np.int64]:
    """Places of the rows that are no copies of held-out ones, which calibrate and must not be learned from."""
    both = copies(np.concatenate([held, rows]))
    new = np.flatnonzero(~np.isin(both[len(held) :], both[: len(held)]))
    if len(new) < len(rows):
        warnings.warn(COPIES.format(count=len(rows) - len(new)), UserWarning, stacklevel=4)
    return new
