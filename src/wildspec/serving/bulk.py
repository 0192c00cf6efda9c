"""Scoring any number of images: decoded on several threads, judged block by block, in order, in bounded memory."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from wildspec.checks import integer
from wildspec.data.decode import fit
from wildspec.data.embeddings import EmbeddingTable
from wildspec.data.source import ImageSource
from wildspec.decision.verdicts import REJECTED_NAME, Explanation, LabelledBank, Verdicts
from wildspec.errors import DataError, one_line
from wildspec.serving.rows import Row, error_row

BLOCK = 256
VECTORS = 4096  # of a block of embeddings: small beside images, and the search likes many at once
Decoded = np.ndarray | str  # pixels (S, S, 3), or why there are none


def score_sources(
    model: Any, sources: Iterable[ImageSource], *, neighbours: int = 3, block: int = BLOCK, threads: int | None = None
) -> Iterator[list[Row]]:
    """Blocks of rows for all images of all sources, in order; an unreadable image is a row with an ``error``.

    ``model``: a fitted `WildClassifier`. While one block is judged, the next is being decoded.
    """
    fitted = model.fitted_
    size = fitted.preprocess.size
    integer("neighbours", neighbours)
    workers = integer("threads", threads, 1) if threads is not None else min(16, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers, thread_name_prefix="wildspec-decode") as pool:

        def start(source: ImageSource, numbers: range) -> tuple[list[str], list["Future[Decoded]"]]:
            return [source.name(i) for i in numbers], [pool.submit(_decode, source, i, size) for i in numbers]

        waiting: tuple[list[str], list[Future[Decoded]]] | None = None
        for source in sources:
            for first in range(0, len(source), integer("block", block, 1)):
                coming = start(source, range(first, min(first + block, len(source))))
                if waiting is not None:
                    yield _judge(model, *waiting, neighbours)
                waiting = coming
        if waiting is not None:
            yield _judge(model, *waiting, neighbours)


def score_tables(
    model: Any, tables: Iterable[EmbeddingTable], *, neighbours: int = 3, block: int = VECTORS
) -> Iterator[list[Row]]:
    """The same for embeddings and a fitted `SpectralClassifier`; a vector with NaN or infinite numbers is a row with an
    ``error``."""
    for table in tables:
        for names, values in table.blocks(block):
            yield score_vectors(model, names, values, neighbours)


def score_vectors(model: Any, names: list[str], values: np.ndarray, neighbours: int) -> list[Row]:
    """Rows for vectors (n, d) and their names."""
    good = np.flatnonzero(np.isfinite(values).all(axis=1))
    rows = {i: error_row(name, "holds NaN or infinite numbers, or no vector") for i, name in enumerate(names)}
    if len(good):
        explained = model.explain(values[good], neighbours=max(1, neighbours))
        for i, e in zip(good.tolist(), explained, strict=True):
            rows[i] = explained_row(names[i], e, neighbours)
    return [rows[i] for i in range(len(names))]


def explained_row(name: str, e: Explanation, neighbours: int) -> Row:
    """One row from an explanation."""
    return {
        "image": name, "decision": e.decision, "likely": e.likely, "probability": e.probability, "ood_score": e.ood_score,
        "p_value": e.p_value, "neighbours": [n.name for n in e.neighbours[:neighbours]], "error": None,
    }  # fmt: skip


def rows_of(names: list[str], verdicts: Verdicts, classes: tuple[str, ...], bank: LabelledBank | None) -> list[Row]:
    """One row per verdict."""
    probability = verdicts.probability
    return [
        {
            "image": name,
            "decision": REJECTED_NAME if verdicts.rejected[i] else classes[int(verdicts.likely[i])],
            "likely": classes[int(verdicts.likely[i])],
            "probability": float(probability[i]),
            "ood_score": float(verdicts.score[i]),
            "p_value": float(verdicts.p_value[i]),
            "neighbours": [] if bank is None else [bank.names[row] for row in verdicts.neighbours[i].tolist()],
            "error": None,
        }
        for i, name in enumerate(names)
    ]


def _decode(source: ImageSource, number: int, size: int) -> Decoded:
    try:
        return fit(source.reduced(number, size), size)
    except DataError as error:
        return one_line(error)
    except MemoryError:  # of one image: the others may fit
        return "not enough memory to decode it"


def _judge(model: Any, names: list[str], futures: list["Future[Decoded]"], neighbours: int) -> list[Row]:
    decoded = [future.result() for future in futures]
    good = [i for i, item in enumerate(decoded) if not isinstance(item, str)]
    rows: dict[int, Row] = {i: error_row(names[i], item) for i, item in enumerate(decoded) if isinstance(item, str)}
    if good:
        stacked = np.stack([item for item in decoded if not isinstance(item, str)])
        pixels = torch.from_numpy(np.ascontiguousarray(stacked.transpose(0, 3, 1, 2)))
        verdicts = model.decide(pixels, neighbours)
        judged = rows_of([names[i] for i in good], verdicts, model.fitted_.classes, model.fitted_.bank)
        rows |= dict(zip(good, judged, strict=True))
    return [rows[i] for i in range(len(names))]
