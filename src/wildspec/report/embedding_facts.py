"""The facts about an embeddings model: from its bundle alone, or with embeddings to judge it on."""

from typing import Any

import numpy as np

from wildspec.data.embeddings import EmbeddingTable
from wildspec.decision.review import Learned
from wildspec.embeddings.explain import sample_name
from wildspec.embeddings.review import rows_id
from wildspec.embeddings.table_fit import shares_in_words
from wildspec.embeddings.table_rows import class_places, finite_rows, taught_rows
from wildspec.errors import InputError
from wildspec.report.assemble import NEAREST, TITLES, Labelled, ReportedPool, put_together, rows_shown
from wildspec.report.facts import About, Facts, Group, fresh_rows

NOTHING_REJECTED = 1e3  # above every score, in units of deviations


def gather(
    model: Any, name: str, *, wild: EmbeddingTable | None = None, test: EmbeddingTable | None = None,
    covariate: EmbeddingTable | None = None, semantic: EmbeddingTable | None = None, seed: int = 0,
) -> Facts:  # fmt: skip
    """Facts about a fitted `SpectralClassifier`. Without ``test`` the known samples are those the threshold was calibrated
    on: a bundle keeps no others."""
    about, prepared = _about(model, name), model.model_.labelled
    labelled = Labelled(
        model.model_.labels, prepared, lambda row: sample_name(model, row),
        lambda row: None if model._pictures is None else model._pictures.get(row),
        lambda rows: model.model_.index.search(rows, min(NEAREST, len(prepared)))[1],
    )  # fmt: skip
    tests = {}
    for key, table in (("test", test), ("covariate", covariate), ("semantic", semantic)):
        if table is not None:
            _, values, good = finite_rows(table)
            labels = None if key == "semantic" else class_places(table, model.classes_)[good]
            if labels is not None and len(values):
                new = fresh_rows(taught_rows(model, values), TITLES[key], about)
                values, labels = values[new], labels[new]
            tests[key] = _group(model, key, TITLES[key], values, labels)[0]
    pool = None if wild is None else _pool(model, wild, about.threshold, seed)
    rates = tuple(model.class_rates_ or ())
    return put_together(about, _calibration(model), pool, tests, labelled, seed, rates=rates, fresh="test" in tests)


def _pool(model: Any, wild: EmbeddingTable, threshold: float, seed: int) -> ReportedPool:
    names, values, good = finite_rows(wild)
    group, p_values = _group(model, "wild", "wild", values)
    rows, prepared = rows_shown(group, threshold, seed), model._prepare(values)
    places = np.flatnonzero(good)[rows]
    pictures = wild.pictures(places)
    return ReportedPool(
        group, p_values, rows, [names[row] for row in rows.tolist()], prepared[rows], [pictures.get(int(p)) for p in places],
        np.arange(len(values)), names, prepared, *_answers(model, wild, good),
    )  # fmt: skip


def _answers(model: Any, wild: EmbeddingTable, good: np.ndarray) -> tuple[dict[int, Any], list[int]]:
    """Rows that a person answered, and rows about which the answers changed the decision, where the table is the pool that
    the model was fitted with; rows are counted without those that hold no numbers."""
    given = Learned(model.model_, model.thresholds_, model.classes_.tolist()).given
    if not given or model._wild_rows.max(initial=-1) >= len(wild) or rows_id(wild.read()[model._wild_rows]) != model._pool:
        return {}, []
    place = np.cumsum(good) - 1
    turned = place[model._wild_rows[model.review().turned()]].tolist()
    return {int(place[model._wild_rows[sample]]): said for sample, said in given.items()}, turned


def _calibration(model: Any) -> Group:
    """The samples that the threshold rests on: held out, so that nothing was learned from them."""
    held = model._decide_rows(model._held_rows)
    rejected, likely = model.thresholds_.reject(held), held.probabilities.argmax(axis=1)
    return Group("validation", "known, held out", held.score, rejected, likely, limits=_limits(model, held))


def _about(model: Any, name: str) -> About:
    classes = tuple(str(value) for value in model.classes_.tolist())
    promise = "too few labelled samples to promise anything: nothing is rejected"
    inside = model.model_
    compared, held = len(inside.labels), len(model._held_rows)
    counts = np.bincount(model.model_.labels, minlength=len(classes))
    rows = [
        ("Classes", ", ".join(f"{label} ({count:,})" for label, count in zip(classes, counts.tolist(), strict=True))),
        ("Labelled samples", f"{compared:,} to compare with, {held:,} held out for calibration"),
        ("Wild samples", f"{model.n_wild_:,}" + (f"; estimated: {shares_in_words(model)}" if model.n_wild_ else "")),
        ("Embeddings", f"{model.n_features_in_} numbers each, compared by {model.metric}"),
        ("Method", f"spectral filter of the neighbour graph, {model.n_neighbors} neighbours; distance, margin and "
                   "energy; no training"),
        ("Threshold", promise if model.calibration_ is None else model.thresholds_.describe()),
    ]  # fmt: skip
    if model.thresholds_.promise is not None:
        rows.append(("Shifted samples", model.thresholds_.promise.describe()))
    from wildspec._version import __version__

    made = {"created": "", "command": "", "version": __version__}
    return About(name, "embeddings", classes, _threshold(model), model.calibration_, float(model.alpha), rows, made)


def _threshold(model: Any) -> float:
    """A finite stand-in where nothing is rejected."""
    return float(model.threshold_) if np.isfinite(model.threshold_) else NOTHING_REJECTED


def _group(
    model: Any, key: str, title: str, values: np.ndarray, labels: np.ndarray | None = None
) -> tuple[Group, np.ndarray]:
    if len(values) == 0:
        raise InputError(f"the {title} set is empty; give at least one vector")
    decided = model._decide_rows(model._prepare(values))
    rejected = model.thresholds_.reject(decided)
    likely = decided.probabilities.argmax(axis=1)
    sure = decided.probabilities.max(axis=1)
    group = Group(key, title, decided.score, rejected, likely, labels, sure, _limits(model, decided))
    return group, model.thresholds_.p_value(decided.score)


def _limits(model: Any, decided: Any) -> np.ndarray | None:
    """(n,) threshold of each sample; None where nothing is rejected."""
    limits = np.asarray(model.thresholds_.at(decided))
    return limits if np.isfinite(limits).all() else None
