"""Neighbours of a large pool on a Ray cluster, and tasks in order.

The bank is cut into pieces. One task builds the index of a piece and looks up all rows in it, a piece of them at a time; a
second kind of task keeps, for a piece of rows, the k best of all pieces. With exact search the result is that of one
machine, and no worker holds more than two pieces of the bank.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from wildspec.checks import require
from wildspec.graph.search import Indices, NeighborIndex, Rows

PIECE = 1_000_000  # rows of the bank that one task holds at most
RETRIES = 4
AHEAD = 4  # tasks in flight per processor of the cluster
WHY = "engine='ray'"


def started() -> Any:
    """Ray, connected to the running cluster or to a new local one."""
    ray = require("ray", "ray", WHY)
    if not ray.is_initialized():
        ray.init(ignore_reinit_error=True, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    return ray


def in_order(task: Any, calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Results of ``task(*call)`` in the order of the calls, a bounded number of them in flight."""
    ray = started()
    run = ray.remote(max_retries=RETRIES)(task)
    ahead = max(2, AHEAD * _processors(ray))
    waiting: deque[Any] = deque()
    for call in calls:
        waiting.append(run.remote(*call))
        if len(waiting) >= ahead:
            yield ray.get(waiting.popleft())
    while waiting:
        yield ray.get(waiting.popleft())


def neighbors(bank: Rows, k: int, *, metric: str, method: str, seed: int) -> tuple[Rows, Indices]:
    """The k nearest of every bank row, itself first: distances (m, k), rows (m, k)."""
    ray = started()
    edges = _edges(len(bank), max(_processors(ray), -(-len(bank) // PIECE)))
    stored = [ray.put(np.ascontiguousarray(bank[low:high], dtype=np.float32)) for low, high in edges]
    search = ray.remote(max_retries=RETRIES, num_returns=len(edges))(_search_piece)
    found = [search.remote(at, low, stored, k, metric, method, seed) for at, (low, _) in enumerate(edges)]
    if len(edges) == 1:
        found = [[one] for one in found]
    best = ray.remote(max_retries=RETRIES)(_best_of)
    merged = [best.remote(low, k, *(part[at] for part in found)) for at, (low, _) in enumerate(edges)]
    parts = [ray.get(one) for one in merged]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _search_piece(
    at: int, offset: int, stored: list[Any], k: int, metric: str, method: str, seed: int
) -> Iterator[tuple[Rows, Indices]]:
    """Every piece of rows looked up in piece ``at``, whose first row is row ``offset`` of the bank."""
    ray = started()
    index = NeighborIndex(ray.get(stored[at]), metric=metric, method=method, seed=seed)
    for piece in stored:
        distances, indices = index.search(ray.get(piece), min(k, len(index)))
        yield distances, indices + offset


def _best_of(offset: int, k: int, *found: tuple[Rows, Indices]) -> tuple[Rows, Indices]:
    """The k best of all pieces for the rows from ``offset`` on: itself, then by distance, then by row."""
    distances = np.concatenate([part[0] for part in found], axis=1)
    indices = np.concatenate([part[1] for part in found], axis=1)
    itself = offset + np.arange(len(indices))[:, None]
    missing = ~(indices == itself).any(axis=1, keepdims=True)  # more than k copies of it, or an index that overlooked it
    distances = np.concatenate([distances, np.where(missing, 0, np.inf).astype(distances.dtype)], axis=1)
    indices = np.concatenate([indices, itself], axis=1)
    own = (indices == itself) & np.isfinite(distances)
    order = np.lexsort((indices, np.where(own, -1.0, distances)), axis=1)[:, :k]
    return np.take_along_axis(distances, order, 1), np.take_along_axis(indices, order, 1)


def _processors(ray: Any) -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _edges(count: int, pieces: int) -> list[tuple[int, int]]:
    """First and last + 1 of at most ``pieces`` pieces of about equal length, none empty."""
    cuts = np.linspace(0, count, min(pieces, count) + 1).astype(int)
    return list(pairwise(cuts.tolist()))
