"""Bulk scoring on a Ray cluster, images or tables of embeddings: the same rows as on one machine, in the same order.

The inputs are cut into pieces; a piece is a task that opens its own files, so they must lie where every machine can read
them. A worker loads the bundle once. A task whose worker dies is run again by Ray; rows are taken from finished tasks alone,
in the order of the pieces, so none is lost or doubled.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from wildspec.checks import integer
from wildspec.data.embeddings import EmbeddingTable
from wildspec.data.folder import FilesSource
from wildspec.data.source import ImageSource, SubsetSource
from wildspec.graph.ray_engine import in_order
from wildspec.serving import bulk
from wildspec.serving.inputs import open_inputs, open_items
from wildspec.serving.rows import Row

BLOCK = 2 * bulk.BLOCK  # a whole number of the blocks of one machine: the same images go through the network together
PIECE = 32_768  # rows of a table in one task, about


@dataclass(frozen=True)
class Block:
    """Images ``first`` to ``last`` of the inputs; ``files``: their paths as given, where they are files of their own;
    ``folder``: where relative ones begin, since a worker is started elsewhere."""

    item: str
    first: int
    last: int
    files: tuple[str, ...] = ()
    folder: str = ""

    def source(self) -> ImageSource:
        """The block's images, opened where it is called."""
        if self.files:
            return _GivenFiles(self.files, self.folder)
        (whole,) = open_inputs([self.item])
        return SubsetSource(whole, range(self.first, self.last), labelled=False)


class _GivenFiles(FilesSource):
    """Files below a folder, called as they were given."""

    def __init__(self, files: Sequence[str], folder: str) -> None:
        super().__init__(Path(folder, file) for file in files)
        self._given = files

    def name(self, i: int) -> str:
        return self._given[i]


def plan(given: Sequence[str], block: int = BLOCK) -> list[Block]:
    """The inputs in blocks, in order."""
    integer("block", block, 1)
    blocks = []
    for item, source in open_items(given):
        where = "" if item is None else str(Path(item).resolve()) if Path(item).exists() else item
        for first in range(0, len(source), block):
            last = min(first + block, len(source))
            files = tuple(map(str, source.paths[first:last])) if isinstance(source, FilesSource) else ()
            blocks.append(Block(where, first, last, files, os.getcwd() if files else ""))
    return blocks


def score_on_ray(
    bundle: Path, given: Sequence[str], *, neighbours: int = 3, block: int = BLOCK, device: str = "auto"
) -> Iterator[list[Row]]:
    """Blocks of rows of images, in order. At most a bounded number of blocks is in flight, however many there are."""
    path = str(bundle.resolve())
    yield from in_order(score_block, ((path, one, neighbours, device) for one in plan(given, block)))


def score_tables_on_ray(
    bundle: Path, tables: Sequence[EmbeddingTable], *, neighbours: int = 3, size: int = PIECE
) -> Iterator[list[Row]]:
    """The same for tables of embeddings, which are cut at row groups."""
    path = str(bundle.resolve())
    pieces = ((str(table.path.resolve()), *ends) for table in tables for ends in pairwise(table.cuts(size)))
    yield from in_order(score_piece, ((path, *piece, neighbours) for piece in pieces))


def score_block(bundle: str, block: Block, neighbours: int, device: str) -> list[Row]:
    """What a worker does with images."""
    blocks = bulk.score_sources(_loaded(bundle, device), [block.source()], neighbours=neighbours)
    return [row for rows in blocks for row in rows]


def score_piece(bundle: str, table: str, first: int, last: int, neighbours: int) -> list[Row]:
    """What a worker does with rows ``first`` to ``last`` of a table."""
    model, blocks = _loaded(bundle, "auto"), EmbeddingTable(table).between(first, last)
    return [row for names, values in blocks for row in bulk.score_vectors(model, names, values, neighbours)]


@lru_cache(maxsize=1)
def _loaded(bundle: str, device: str) -> Any:
    """A worker loads a bundle once, not once for every piece."""
    from wildspec.loading import load

    return load(bundle, device=device)
