"""What a report is made of: what the model is, the groups of samples it was asked about, and some samples to show."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from wildspec.decision.class_rates import ClassRate
from wildspec.evaluation import Calibration, Evaluation
from wildspec.evaluation.own_decision import Answers, evaluate_answers
from wildspec.images.own_tests import new_rows

TO_REVIEW = 24
COPY = 1e-5  # of the largest feature


def moment(created: str) -> str:
    """A time of provenance as people write it: "2026-11-15T12:52:11+00:00" -> "2026-11-15 12:52 UTC"."""
    try:
        then = datetime.fromisoformat(created)
    except ValueError:
        return created
    return f"{then:%Y-%m-%d %H:%M}" + (" UTC" if then.utcoffset() == timedelta(0) else f"{then:%z}")


@dataclass(frozen=True)
class Group:
    """Samples of one kind. ``labels``: true classes, where they are known and known to the model; ``confidence``: (n,)
    probability of the likely class; ``limits``: (n,) threshold of each sample, where it is not the same for all."""

    key: str  # validation, test, wild, covariate or semantic
    title: str
    scores: np.ndarray
    rejected: np.ndarray
    likely: np.ndarray
    labels: np.ndarray | None = None
    confidence: np.ndarray | None = None
    limits: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.scores)

    def limits_or(self, threshold: float) -> np.ndarray:
        """(n,) threshold of each sample."""
        return np.full(len(self), threshold) if self.limits is None else self.limits

    def own_limits(self, threshold: float) -> bool:
        """Are there samples whose threshold is another than the model's?"""
        return not np.allclose(self.limits_or(threshold), threshold, rtol=1e-6, atol=0)

    def margins(self, threshold: float) -> np.ndarray:
        """(n,) score less threshold: above 0 where a sample is rejected, by the decision that was taken."""
        above = self.scores - self.limits_or(threshold)
        return np.where(self.rejected, np.maximum(above, 1e-9), np.minimum(above, 0.0))


@dataclass(frozen=True)
class Sample:
    """One sample to show. ``near``: rows of the labelled bank; ``limit``: the threshold that decided about it."""

    name: str
    kind: str  # labelled, kept or rejected
    likely: str
    score: float | None
    p_value: float | None
    picture: bytes | None
    near: tuple[int, ...] = ()
    limit: float | None = None


@dataclass(frozen=True)
class Known:
    """A labelled training sample that others are near to."""

    name: str
    label: str
    picture: bytes | None


@dataclass(frozen=True)
class About:
    """What the model is. ``rows``: name and value, for the last section; ``made``: command, date and version of the fit."""

    name: str
    what: str  # images or embeddings
    classes: tuple[str, ...]
    threshold: float
    calibration: Calibration | None
    alpha: float
    rows: list[tuple[str, str]]
    made: dict[str, str]


def fresh_rows(taught: np.ndarray, title: str, about: About) -> np.ndarray:
    """Rows of a test set that the model has not learned from; the others are told of and counted in ``about``. The page says
    that nothing was learned from those its numbers are about."""
    rows, said = new_rows(taught, title, about.what)
    if said:
        about.rows.append(("Left out", said))
    return rows


FIRM = 100  # known samples: shares of fewer are uncertain by more than a few points, and ten bins of them say nothing


@dataclass(frozen=True)
class Facts:
    """Everything the page says. ``features``: (samples, d). ``fresh``: nothing at all, the threshold included, was learned
    from the known samples that numbers are about; except that ``taught`` of those held out taught the network which the fit
    started from (--init). ``rates``: how often each class is rejected: of the test samples, else of those held out.
    ``unknown``: interval of the estimated share of unknown samples in the wild pool, where the fit made such an estimate."""

    about: About
    groups: dict[str, Group]
    samples: list[Sample]
    features: np.ndarray
    near: dict[int, Known]
    listed: Any = None  # `wildspec.report.pool.Listed`, where there is a wild pool
    rates: tuple[ClassRate, ...] = ()
    fresh: bool = True
    taught: int = 0
    unknown: tuple[float, float] | None = None

    @property
    def threshold(self) -> float:
        return self.about.threshold

    @property
    def known(self) -> Group:
        """Clean samples of known classes."""
        return self.groups.get("test", self.groups["validation"])

    @property
    def review(self) -> list[int]:
        """Samples most surely rejected, the highest score first; of copies one."""
        rejected = [i for i, sample in enumerate(self.samples) if sample.kind == "rejected"]
        return self._distinct(sorted(rejected, key=lambda i: -_score(self.samples[i])), [])

    @property
    def borderline(self) -> list[int]:
        """Samples next to their threshold, the nearest first, without those above and their copies."""
        wild = [i for i, sample in enumerate(self.samples) if sample.score is not None]
        return self._distinct(sorted(wild, key=lambda i: abs(self.margin(self.samples[i]))), self.review)

    def margin(self, sample: Sample) -> float:
        """Score less threshold, the sample's own."""
        return _score(sample) - (self.threshold if sample.limit is None else sample.limit)

    @property
    def own_limits(self) -> bool:
        """Are there samples whose threshold is another than the model's?"""
        return any(group.own_limits(self.threshold) for group in self.groups.values())

    def _distinct(self, order: list[int], taken: list[int]) -> list[int]:
        """The first of them that are like none before, nor like ``taken``: a picture sent twice need be looked at once."""
        chosen: list[int] = []
        for i in order:
            if len(chosen) < TO_REVIEW and not any(self._copies(i, j) for j in taken + chosen):
                chosen.append(i)
        return chosen

    def _copies(self, i: int, j: int) -> bool:
        """The features of copies differ in the last digits at most, by their place in a batch."""
        one, other = self.features[i], self.features[j]
        return i == j or bool(np.abs(one - other).max() <= COPY * np.abs(one).max())

    @property
    def evaluation(self) -> Evaluation | None:
        """The paper's and the full-spectrum metrics, where test samples were given."""
        if not {"test", "covariate", "semantic"} & set(self.groups) or self.known.labels is None:
            return None
        known, shifted, unknown = (
            None if group is None else Answers(group.scores, group.rejected, group.likely, group.labels)
            for group in (self.known, self.groups.get("covariate"), self.groups.get("semantic"))
        )
        assert known is not None
        return evaluate_answers(known, shifted, unknown, self.threshold)


def model_name(path: Path) -> str:
    """The folder's own name, for the title; no path of the machine in the page."""
    return path.resolve().name


def _score(sample: Sample) -> float:
    return 0.0 if sample.score is None else sample.score
