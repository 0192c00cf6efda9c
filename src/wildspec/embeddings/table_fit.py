"""Tables of embeddings to a fitted `SpectralClassifier`: rows without a vector are left out, others keep their numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from wildspec.bundle.gallery import Gallery
from wildspec.data.embeddings import EmbeddingTable
from wildspec.data.sampled_rows import sample_rows
from wildspec.embeddings.classifier import SpectralClassifier
from wildspec.embeddings.rows import wild_rows
from wildspec.errors import InputError
from wildspec.graph.search import Rows

MOST_PICTURES = 4000  # kept of the labelled samples


@dataclass(frozen=True, eq=False)
class FromTables:
    """The model; how many labelled and wild rows the tables have, how many of them it was given, and how many hold NaN,
    infinite numbers or no vector. Rows of the labelled table that are marked as wild count as wild. ``pool``: the wild rows
    in parts."""

    model: SpectralClassifier
    labelled: int
    wild: int
    labelled_used: int
    wild_used: int
    labelled_bad: int
    wild_bad: int
    pool: tuple[Rows, ...]

    @property
    def rejected(self) -> int:
        """Wild rows that the model rejects, as it is now: answers may have taught it since the fit. By the scores that it
        keeps of them, or, where it does not keep one of each, asked again."""
        model = self.model
        if len(model.model_.wild_score) == model.n_wild_:
            return int(model.thresholds_.reject_pool(model.model_).sum())
        return sum(int(model.thresholds_.reject(model._decide(part)).sum()) for part in self.pool if len(part))

    def left_out(self) -> str:
        """One line about the rows that could not be used; empty where all could."""
        if not self.labelled_bad + self.wild_bad:
            return ""
        both = ((self.labelled_bad, "labelled"), (self.wild_bad, "wild"))
        said = " and ".join(f"{count:,} {name}" for count, name in both if count)
        one = self.labelled_bad + self.wild_bad == 1
        holds, were = ("row holds", "was") if one else ("rows hold", "were")
        return f"{said} {holds} NaN or infinite numbers, or no vector, and {were} left out"


def fit_tables(
    known: EmbeddingTable, pool: EmbeddingTable | None, max_rows: int | None, seed: int, **params: Any
) -> FromTables:
    """``max_rows``: of a table that is larger a uniform sample is kept. ``params``: of the `SpectralClassifier`."""
    if known.labels is None:
        raise InputError(
            f"{known.path} has no labels; expected a column or array named label, as wildspec embed --labelled writes it"
        )
    if pool is not None:
        _check_fit_together(known, pool)
    most = max(1, len(known), 0 if pool is None else len(pool)) if max_rows is None else max_rows
    rows, places = sample_rows(known, most, seed)
    wild, where = (None, np.empty(0, np.int64)) if pool is None else sample_rows(pool, most, seed + 1)
    model = SpectralClassifier(random_state=seed, **params).fit(rows, known.labels[places], X_wild=wild)
    model._rows = places[model._rows]  # neighbours are named by their row in the file
    # Wild samples by their row in the pool; where some are marked in the labelled table, by their row there, then the pool's
    marked = wild_rows(known.labels[places])
    file_rows = np.r_[places, len(known) + where] if marked.any() else where
    model._wild_rows = file_rows[model._wild_rows]
    if (names := known.names()) is not None:
        model._names = [names[row] for row in model._rows.tolist()]
    model._pictures = _labelled_pictures(model, known)
    marks, used = int(wild_rows(known.labels).sum()), 0 if wild is None else len(wild)
    return FromTables(
        model, len(known) - marks, marks + (0 if pool is None else len(pool)), len(rows) - int(marked.sum()), model.n_wild_,
        _bad(known, len(rows), most), 0 if pool is None else _bad(pool, used, most),
        (rows[marked],) if wild is None else (rows[marked], wild),
    )  # fmt: skip


def _check_fit_together(known: EmbeddingTable, pool: EmbeddingTable) -> None:
    """Of one width, and where both have a column for each number, these in one order: vectors are read by place."""
    if known.width != pool.width:
        widths = f"{known.path} holds vectors of {known.width} numbers, {pool.path} of {pool.width}"
        raise InputError(f"{widths}; use one model for both")
    ours, theirs = known.columns, pool.columns
    if ours is not None and theirs is not None and ours != theirs and set(ours) == set(theirs):
        one, other = next((a, b) for a, b in zip(ours, theirs, strict=True) if a != b)
        raise InputError(
            f"{pool.path} has the columns of {known.path} in another order, {other!r} where it has {one!r}; "
            "write both in one order"
        )


def _labelled_pictures(model: SpectralClassifier, known: EmbeddingTable) -> Gallery:
    """Thumbnails of the samples that are compared with, by their place in the model; at most `MOST_PICTURES`."""
    places = np.arange(len(model._rows))
    if len(places) > MOST_PICTURES:
        places = np.sort(np.random.default_rng(model._seed).choice(places, MOST_PICTURES, replace=False))
    found = known.pictures(model._rows[places])
    return Gallery.of({place: found[row] for place, row in zip(places.tolist(), model._rows[places].tolist(), strict=True)
                       if row in found})  # fmt: skip


def _bad(table: EmbeddingTable, used: int, most: int) -> int:
    """A reservoir that is not full has seen every good row; of a full one nobody counted the others."""
    return len(table) - used if used < most else 0


def shares_in_words(model: Any) -> str:
    """What the wild samples seem to be. The group that lies apart may hold known samples, unknown ones, or both."""
    share = model.shifted_share_
    apart = f"{share:.0%} lie apart from the labelled ones (shifted, unknown, or both)" if share else "no shift is seen"
    low, high = model.unknown_interval_
    return f"{apart}; {model.unknown_share_:.0%} belong to no known class, with a range of {low:.0%} to {high:.0%}"
