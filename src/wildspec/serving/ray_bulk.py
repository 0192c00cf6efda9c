"""Bulk scoring on a Ray cluster: the same rows as on one machine, in the same order.

The inputs are cut into blocks; a block is a task that opens its own files, so they must lie where every machine can read
them. A worker loads the bundle once. A task whose worker dies is run again by Ray; rows are taken from finished tasks alone,
in the order of the blocks, so none is lost or doubled.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wildspec.checks import integer
from wildspec.data.folder import FilesSource
from wildspec.data.source import ImageSource, SubsetSource
from wildspec.serving import bulk
from wildspec.serving.inputs import open_inputs, open_items
from wildspec.serving.rows import Row

BLOCK = 2 * bulk.BLOCK  # a whole number of the blocks of one machine: the same images go through the network together
AHEAD = 4  # blocks in flight per processor of the cluster
RETRIES = 4


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
    """Blocks of rows, in order. At most a bounded number of blocks is in flight, however many there are."""
    from wildspec.graph.ray_engine import started

    ray = started()
    task = ray.remote(max_retries=RETRIES)(score_block)
    ahead = max(2, AHEAD * int(ray.cluster_resources().get("CPU", 1)))
    path = str(bundle.resolve())
    waiting: deque[Any] = deque()
    for one in plan(given, block):
        waiting.append(task.remote(path, one, neighbours, device))
        if len(waiting) >= ahead:
            yield ray.get(waiting.popleft())
    while waiting:
        yield ray.get(waiting.popleft())


_LOADED: dict[tuple[str, str], Any] = {}  # a worker loads a bundle once, not once for every block


def score_block(bundle: str, block: Block, neighbours: int, device: str) -> list[Row]:
    """What a worker does."""
    from wildspec.loading import load

    if (bundle, device) not in _LOADED:
        _LOADED.clear()
        _LOADED[bundle, device] = load(bundle, device=device)
    model = _LOADED[bundle, device]
    return [row for rows in bulk.score_sources(model, [block.source()], neighbours=neighbours) for row in rows]
