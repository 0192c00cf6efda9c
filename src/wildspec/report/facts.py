"""What a report is made of: a model, the groups of samples it was asked about, and some samples to show."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wildspec.bundle.gallery import Gallery, data_uri
from wildspec.data.source import ImageSource
from wildspec.errors import InputError
from wildspec.estimators.verdicts import REJECTED_NAME, Verdicts, join
from wildspec.estimators.wild_fit import rows_to_show
from wildspec.evaluation import Evaluation, evaluate_scores

LABELLED_ON_MAP = 350
TO_REVIEW = 24
NEAREST = 4


@dataclass(frozen=True)
class Group:
    """Samples of one kind. ``labels``: true classes, where they are known and known to the model."""

    key: str
    title: str
    scores: np.ndarray
    rejected: np.ndarray
    likely: np.ndarray
    labels: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.scores)


@dataclass(frozen=True)
class Sample:
    """One sample to show. ``near``: rows of the labelled bank."""

    name: str
    kind: str  # labelled, kept or rejected
    likely: str
    score: float | None
    p_value: float | None
    picture: bytes | None
    near: tuple[int, ...] = ()


@dataclass
class Facts:
    """Everything the page says."""

    name: str
    model: Any
    groups: dict[str, Group]
    samples: list[Sample]
    features: np.ndarray  # (samples, d)
    review: list[int]  # samples most surely rejected
    borderline: list[int]  # samples next to the threshold
    evaluation: Evaluation | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def threshold(self) -> float:
        return float(self.model.threshold_)

    @property
    def known(self) -> Group:
        """Clean samples of known classes that nothing was learned from."""
        return self.groups.get("test", self.groups["validation"])

    def picture_of(self, row: int) -> str | None:
        """Thumbnail of a labelled bank row."""
        found = self.model.fitted_.pictures["labelled"].get(row)
        return None if found is None else data_uri(found)


def gather(
    model: Any,
    name: str,
    *,
    wild: ImageSource | None = None,
    test: Any = None,
    covariate: Any = None,
    semantic: Any = None,
    seed: int = 0,
) -> Facts:
    """Facts from a bundle alone, or with images: ``wild`` instead of the fit's pool; ``test``, ``covariate`` labelled and
    ``semantic`` unlabelled image sets in memory."""
    fitted = model.fitted_
    groups = {"validation": _stored_group(fitted.evidence, "validation", "known, held out")}
    if wild is not None:
        shown, group = _judged_wild(model, wild, seed)
        groups["wild"] = group
    elif "wild.score" in fitted.evidence:
        groups["wild"] = _stored_group(fitted.evidence, "wild", "wild")
        shown = _stored_wild(model)
    else:
        shown = ([], np.empty((0, fitted.model.feature_dim), np.float32))
    for key, title, images in (
        ("test", "known, test", test), ("covariate", "known, shifted", covariate), ("semantic", "unknown", semantic),
    ):  # fmt: skip
        if images is not None:
            groups[key] = _judged_group(model, key, title, images)
    labelled, labelled_features = _labelled_samples(fitted, seed)
    samples, features = labelled + shown[0], np.concatenate([labelled_features, shown[1]])
    review, borderline = _to_look_at(samples, float(model.threshold_))
    return Facts(name, model, groups, samples, features, review, borderline, _evaluation(groups, float(model.threshold_)))


def _evaluation(groups: dict[str, Group], threshold: float) -> Evaluation | None:
    """The paper's and the full-spectrum metrics, where test samples were given."""
    if not {"test", "covariate", "semantic"} & set(groups):
        return None
    known, covariate, unknown = groups.get("test", groups["validation"]), groups.get("covariate"), groups.get("semantic")
    return evaluate_scores(
        id_scores=known.scores,
        id_pred=known.likely,
        id_labels=known.labels,
        covariate_scores=None if covariate is None else covariate.scores,
        covariate_pred=None if covariate is None else covariate.likely,
        covariate_labels=None if covariate is None else covariate.labels,
        semantic_scores=None if unknown is None else unknown.scores,
        threshold=threshold,
    )


def _stored_group(evidence: dict[str, torch.Tensor], key: str, title: str) -> Group:
    labels = evidence.get(f"{key}.label")
    return Group(
        key, title, evidence[f"{key}.score"].numpy(), evidence[f"{key}.rejected"].numpy(),
        evidence[f"{key}.likely"].numpy(), None if labels is None else labels.numpy(),
    )  # fmt: skip


def _judged_group(model: Any, key: str, title: str, images: Any) -> Group:
    if len(images) == 0:
        raise InputError(f"the {title} set is empty; give at least one image")
    verdicts = _judge(model, images)
    labels = images.labels.cpu().numpy() if key != "semantic" else None
    return Group(key, title, verdicts.score, verdicts.rejected, verdicts.likely, labels)


def _judged_wild(model: Any, source: ImageSource, seed: int) -> tuple[tuple[list[Sample], np.ndarray], Group]:
    """All images of a source scored; those worth showing kept with features and pictures."""
    from wildspec.data import load_images

    images = load_images(source, model.fitted_.preprocess.size, max_unreadable=0.5)
    verdicts = _judge(model, images)
    rows = rows_to_show(verdicts.score, float(model.threshold_), seed)
    group = Group("wild", "wild", verdicts.score, verdicts.rejected, verdicts.likely)
    names = [images.names[row] for row in rows.tolist()]
    features = verdicts.features[rows]
    pictures = Gallery.make(source, images.kept, rows.tolist())
    return (_samples(model, rows, names, group, verdicts.p_value, features, pictures), features), group


def _stored_wild(model: Any) -> tuple[list[Sample], np.ndarray]:
    fitted = model.fitted_
    evidence = fitted.evidence
    rows, features = evidence["wild.rows"].numpy(), evidence["wild.features"].numpy()
    group, p_values = _stored_group(evidence, "wild", "wild"), evidence["wild.p_value"].numpy()
    return _samples(model, rows, fitted.wild_names, group, p_values, features, fitted.pictures["wild"]), features


def _samples(
    model: Any, rows: np.ndarray, names: Sequence[str], group: Group, p_values: np.ndarray, features: np.ndarray,
    pictures: Gallery,
) -> list[Sample]:
    """Samples ``rows`` of a group; ``names`` and ``features`` are theirs alone."""
    fitted = model.fitted_
    near, _ = fitted.bank.nearest(torch.from_numpy(features), NEAREST)
    return [
        Sample(
            name, "rejected" if group.rejected[row] else "kept", fitted.classes[int(group.likely[row])],
            float(group.scores[row]), float(p_values[row]), pictures.get(row), tuple(near[i].tolist()),
        )
        for i, (row, name) in enumerate(zip(rows.tolist(), names, strict=True))
    ]


def _judge(model: Any, images: Any) -> Verdicts:
    blocks = [model.decide(images.gather(torch.arange(i, min(i + 512, len(images))))) for i in range(0, len(images), 512)]
    return join(blocks)


def _labelled_samples(fitted: Any, seed: int) -> tuple[list[Sample], np.ndarray]:
    """Some labelled training samples for the map, of every class alike."""
    labels = fitted.bank.labels
    order = np.random.default_rng(seed).permutation(len(labels))
    each = max(1, LABELLED_ON_MAP // len(fitted.classes))
    rows = np.sort(np.concatenate([order[labels[order] == c][:each] for c in range(len(fitted.classes))]))
    pictures = fitted.pictures["labelled"]
    samples = [
        Sample(fitted.bank.names[row], "labelled", fitted.classes[int(labels[row])], None, None, pictures.get(row))
        for row in rows.tolist()
    ]
    return samples, fitted.bank.features[torch.from_numpy(rows)].cpu().numpy()


def _to_look_at(samples: list[Sample], threshold: float) -> tuple[list[int], list[int]]:
    """Samples most surely rejected, the highest score first; and those next to the threshold, the nearest first."""
    wild = [i for i, sample in enumerate(samples) if sample.score is not None]
    rejected = [i for i in wild if samples[i].kind == "rejected"]
    review = sorted(rejected, key=lambda i: -float(samples[i].score or 0))[:TO_REVIEW]
    taken = set(review)
    near = sorted((i for i in wild if i not in taken), key=lambda i: abs(float(samples[i].score or 0) - threshold))
    return review, near[:TO_REVIEW]


def decision_name(sample: Sample) -> str:
    return REJECTED_NAME if sample.kind == "rejected" else sample.likely


def model_name(path: Path) -> str:
    """The folder's own name, for the title; no path of the machine in the page."""
    return path.resolve().name
