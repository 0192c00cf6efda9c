"""The work that grows with the data, on a Ray cluster: neighbours of the wild pool, and decisions about new samples.

Neighbours: every worker holds a shard of the bank and searches all queries in it; the k best of all shards are kept. With
exact search the result is that of one machine, and no machine needs the whole bank.

Decisions: the model goes to the object store once; blocks of rows are independent tasks. A task whose worker dies is run
again by Ray; its result replaces nothing and is counted once, so rows are neither lost nor doubled.
"""

from typing import Any
from uuid import uuid4

import numpy as np

from wildspec.checks import require
from wildspec.estimators.joint import Decided, JointModel
from wildspec.graph.search import Indices, NeighborIndex, Rows

BLOCK = 8192
WHY = "engine='ray'"


def started() -> Any:
    """Ray, connected to the running cluster or to a new local one."""
    ray = require("ray", "ray", WHY)
    if not ray.is_initialized():
        ray.init(ignore_reinit_error=True, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    return ray


def shards(count: int, ray: Any) -> list[np.ndarray]:
    """Rows in as many pieces as there are CPUs."""
    workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
    return [part for part in np.array_split(np.arange(count), workers) if len(part)]


def neighbors(bank: Rows, k: int, *, metric: str, method: str, seed: int) -> tuple[Rows, Indices]:
    """The k nearest of every bank row, itself first: distances (m, k), rows (m, k)."""
    ray = started()
    whole = ray.put(np.ascontiguousarray(bank, dtype=np.float32))
    search = ray.remote(_search_shard)
    pieces = shards(len(bank), ray)
    blocks = [(start, min(start + BLOCK, len(bank))) for start in range(0, len(bank), BLOCK)]
    found = ray.get([search.remote(whole, part, blocks, k, metric, method, seed) for part in pieces])
    distances = np.concatenate([part[0] for part in found], axis=1)
    indices = np.concatenate([part[1] for part in found], axis=1)
    own = indices == np.arange(len(bank))[:, None]
    order = np.lexsort((indices, np.where(own, -1.0, distances)), axis=1)[:, :k]  # itself, then by distance, then by row
    return np.take_along_axis(distances, order, 1), np.take_along_axis(indices, order, 1)


def decide(model: JointModel, rows: Rows) -> Decided:
    """``model.decide(rows)``, block by block on the cluster; the order of the rows is kept."""
    ray = started()
    if not len(rows):
        return model.decide(rows)
    stored = ray.put(_Portable.of(model))
    task = ray.remote(max_retries=4)(_decide_block)
    parts = ray.get([task.remote(stored, rows[start : start + BLOCK]) for start in range(0, len(rows), BLOCK)])
    return Decided(*(np.concatenate([getattr(part, name) for part in parts]) for name in Decided.__dataclass_fields__))


class _Portable:
    """A model between processes: as arrays and JSON, because a search index cannot be copied byte by byte."""

    def __init__(self, arrays: dict[str, np.ndarray], record: dict[str, Any]) -> None:
        self.arrays, self.record = arrays, record
        self.key = uuid4().hex

    @classmethod
    def of(cls, model: JointModel) -> "_Portable":
        from wildspec.estimators.spectral_state import model_state

        return cls(*model_state(model))

    def model(self) -> JointModel:
        from wildspec.estimators.spectral_state import restore_model

        return restore_model(self.arrays, self.record)


_LAST: tuple[str, JointModel] | None = None  # a worker restores a model once, not once for every block


def _decide_block(stored: _Portable, rows: Rows) -> Decided:
    global _LAST
    if _LAST is None or _LAST[0] != stored.key:
        _LAST = (stored.key, stored.model())
    return _LAST[1].decide(rows)


def _search_shard(
    bank: Rows, part: Indices, blocks: list[tuple[int, int]], k: int, metric: str, method: str, seed: int
) -> tuple[Rows, Indices]:
    index = NeighborIndex(bank[part], metric=metric, method=method, seed=seed)
    found = [index.search(bank[start:stop], min(k, len(part))) for start, stop in blocks]
    return np.concatenate([block[0] for block in found]), part[np.concatenate([block[1] for block in found])]
