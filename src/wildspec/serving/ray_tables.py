"""Tables of embeddings scored on a Ray cluster: the rows of one machine, in the same order.

A table is cut at row groups; a piece is a task that opens the table itself, so it must lie where every machine can read it.
A worker loads the bundle once. A task whose worker dies is run again by Ray; rows are taken from finished tasks alone, in
the order of the pieces, so none is lost or doubled.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from wildspec.data.embeddings import EmbeddingTable
from wildspec.serving.rows import Row

PIECE = 32_768  # rows of one task, about


def plan(tables: Sequence[EmbeddingTable], size: int = PIECE) -> list[tuple[str, int, int]]:
    """(table, first row, last row + 1) of each piece, in order."""
    return [
        (str(table.path.resolve()), first, last) for table in tables for first, last in pairwise(table.cuts(size))
    ]


def score_tables_on_ray(
    bundle: Path, tables: Sequence[EmbeddingTable], *, neighbours: int = 3, size: int = PIECE
) -> Iterator[list[Row]]:
    """Blocks of rows, in order. A bounded number of pieces is in flight, however many there are."""
    from wildspec.graph.ray_engine import in_order

    where = str(Path(bundle).resolve())
    yield from in_order(score_piece, ((where, *piece, neighbours) for piece in plan(tables, size)))


_LOADED: dict[str, Any] = {}  # a worker loads a bundle once, not once for every piece


def score_piece(bundle: str, table: str, first: int, last: int, neighbours: int) -> list[Row]:
    """What a worker does."""
    from wildspec.loading import load
    from wildspec.serving.bulk import score_vectors

    if bundle not in _LOADED:
        _LOADED.clear()
        _LOADED[bundle] = load(bundle)
    blocks = EmbeddingTable(table).between(first, last)
    return [row for names, values in blocks for row in score_vectors(_LOADED[bundle], names, values, neighbours)]
