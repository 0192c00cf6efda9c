"""From what a model said about its samples to the facts of a page; the same for images and for embeddings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wildspec.decision.class_rates import class_rates
from wildspec.images.pictures import SHOWN, rows_to_show
from wildspec.report.facts import About, Facts, Group, Known, Sample
from wildspec.report.pool import list_pool

LABELLED_ON_MAP = 350
NEAREST = 4
TITLES = {"test": "known, test", "covariate": "known, shifted", "semantic": "unknown"}


@dataclass(frozen=True)
class Labelled:
    """The labelled samples that others are compared with: (m,) places of their classes, (m, d) features; name and thumbnail
    of one; the `NEAREST` of (n, d) features, (n, k) places among them."""

    labels: np.ndarray
    features: np.ndarray
    name: Callable[[int], str]
    picture: Callable[[int], bytes | None]
    nearest: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class ReportedPool:
    """The wild pool. ``rows``: samples of the group to show, with their names, features and thumbnails. ``named``: rows that
    can be listed, with ``all_names`` and ``all_features``. ``answers``: row -> what a person said; ``turned``: rows about
    which that changed the decision."""

    group: Group
    p_values: np.ndarray
    rows: np.ndarray
    names: Sequence[str]
    features: np.ndarray
    pictures: Sequence[bytes | None]
    named: np.ndarray
    all_names: Sequence[str]
    all_features: np.ndarray
    answers: Mapping[int, Any] = field(default_factory=dict)
    turned: Sequence[int] = ()


def put_together(
    about: About, validation: Group, pool: ReportedPool | None, tests: dict[str, Group], labelled: Labelled, seed: int,
    **more: Any,
) -> Facts:  # fmt: skip
    """``more``: the other facts."""
    classes = about.classes
    rows = _some_of_each(labelled.labels, len(classes), seed)

    def known(row: int) -> Known:
        return Known(labelled.name(row), classes[int(labelled.labels[row])], labelled.picture(row))

    on_map = [known(row) for row in rows.tolist()]
    samples = [Sample(one.name, "labelled", one.label, None, None, one.picture) for one in on_map]
    groups, features, near, listed = {"validation": validation}, labelled.features[rows], {}, None
    if pool is not None:
        group, shown = pool.group, pool.rows.tolist()
        limits = group.limits_or(about.threshold)
        groups["wild"], features = group, np.concatenate([features, pool.features])
        for i, places in enumerate(labelled.nearest(pool.features).tolist()):
            row = shown[i]
            kind, likely = "rejected" if group.rejected[row] else "kept", classes[int(group.likely[row])]
            score, p_value = float(group.scores[row]), float(pool.p_values[row])
            picture, limit = pool.pictures[i], float(limits[row])
            samples.append(Sample(pool.names[i], kind, likely, score, p_value, picture, tuple(places), limit))
        near = {row: known(row) for row in sorted({row for sample in samples for row in sample.near})}
        listed = list_pool(
            group, pool.p_values, pool.named, pool.all_names, pool.all_features, (labelled.features, labelled.labels),
            {row: len(rows) + i for i, row in enumerate(shown)}, about.threshold, pool.answers, pool.turned,
        )  # fmt: skip
    test = tests.get("test")
    if test is not None and test.labels is not None:  # what the page says of known samples is about these
        more["rates"] = tuple(class_rates(test.labels, test.rejected, classes))
    return Facts(about, groups | tests, samples, features, near, listed, **more)


def rows_shown(group: Group, threshold: float, seed: int) -> np.ndarray:
    """Samples of a pool to show: those of `rows_to_show`, and those nearest to a threshold of their own."""
    rows = rows_to_show(group.scores, threshold, seed)
    nearest = np.argsort(np.abs(group.scores - group.limits_or(threshold)), kind="stable")[:SHOWN]
    return np.union1d(rows, nearest)


def _some_of_each(labels: np.ndarray, classes: int, seed: int) -> np.ndarray:
    """Rows of labelled samples for the map, of every class alike."""
    order = np.random.default_rng(seed).permutation(len(labels))
    each = max(1, LABELLED_ON_MAP // classes)
    return np.sort(np.concatenate([order[labels[order] == c][:each] for c in range(classes)]))
