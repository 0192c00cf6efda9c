"""Rows of a table of embeddings to judge a model on: those that are numbers, and their classes as the model knows them."""

from typing import Any

import numpy as np

from wildspec.data.embeddings import EmbeddingTable
from wildspec.data.source import check_tests_labelled
from wildspec.embeddings.rows import wild_rows
from wildspec.errors import InputError


def finite_rows(table: EmbeddingTable) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names and vectors, without those that hold NaN or infinite numbers, and which rows (a mask) they are."""
    blocks = list(table.blocks())
    names = [name for block, _ in blocks for name in block]
    values = np.concatenate([block for _, block in blocks])
    good = np.isfinite(values).all(axis=1)
    return [name for name, keep in zip(names, good.tolist(), strict=True) if keep], values[good], good


def class_places(table: EmbeddingTable, classes: np.ndarray) -> np.ndarray:
    """Labels of a test set, (n,), as places among the model's classes."""
    if table.labels is None:
        raise InputError(f"{table.path} has no labels; a test set needs a column label")
    check_tests_labelled(table.path, int(wild_rows(table.labels).sum()))
    place = {str(value): number for number, value in enumerate(classes.tolist())}
    strange = next((value for value in table.labels.tolist() if str(value) not in place), None)
    if strange is not None:
        raise InputError(f"{table.path} has the class {strange!r}, which the model does not know; give it as --unknown")
    return np.array([place[str(value)] for value in table.labels.tolist()], dtype=np.int64)


def taught_rows(model: Any, values: np.ndarray) -> np.ndarray:
    """(n,) which vectors are labelled samples of the model, learned from or calibrated on, number for number."""
    prepared = model._prepare(values) if len(values) else values
    seen = {row.tobytes() for rows in (model.model_.labelled, model._held_rows) for row in np.asarray(rows, np.float32)}
    return np.array([row.tobytes() in seen for row in prepared], dtype=bool)
