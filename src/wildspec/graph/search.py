"""k nearest rows of a bank: exact for small banks, an inverted file (IVF) or a navigable graph (HNSW) for large ones.

Distances are Euclidean; with ``metric="cosine"`` rows are scaled to length 1 first, so d^2 = 2 - 2 cos. They are taken from
the difference of the rows, not from inner products: sqrt(2 - 2 cos) has no digits left below about 5e-4 in single precision,
and near duplicates are that close. Rows come back nearest first; equal distances in the order of the bank.

Candidates come from inner products, |a|^2 - 2 a.b + |b|^2, which cancel for rows far from the origin: where the mean of the
bank is much longer than the rows lie from it, both sides are moved by it first. Distances do not change by that.

An approximate index says how good it is: ``recall`` is the share of true neighbours it finds for rows of its own bank.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildspec.checks import choice, integer
from wildspec.errors import InputError
from wildspec.graph.inputs import as_array

Rows = NDArray[np.float32]
Indices = NDArray[np.int64]

METRICS = ("cosine", "euclidean")
METHODS = ("auto", "exact", "ivf", "hnsw")
EXACT_UP_TO = 30_000  # bank rows; "auto" searches exactly below this
BLOCK = 1 << 22  # similarities of one block of the search without faiss
PROBES = (8, 16, 32, 64, 128, 256)  # lists looked at by IVF, the first that reaches the recall wanted
RECALL = 0.95
SAMPLE = 256  # queries on which the recall is measured
OFFSET = 100.0  # squared length of the mean over mean squared distance from it, above which rows are centred
SHORT, LONG = 1e-30, 1e30  # lengths of rows between which single precision divides well
SMALLEST, LARGEST = 1e-15, 1e15  # largest entry of a bank whose squares single precision can hold


def unit_rows(rows: Any) -> Rows:
    """(n, d) -> float32 rows of length 1; a zero row stays zero."""
    array = np.asarray(rows, dtype=np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", array, array, dtype=np.float64))
    lengths = np.where(norms > 0, norms, 1.0)
    odd = (lengths < SHORT) | (lengths > LONG)  # no float32, or one of few digits
    if not odd.any():
        return np.divide(array, lengths.astype(np.float32)[:, None], dtype=np.float32)
    lengths[odd] = 1.0
    found = np.divide(array, lengths.astype(np.float32)[:, None], dtype=np.float32)
    found[odd] = array[odd] / norms[odd, None]
    return found


def as_rows(name: str, rows: Any, metric: str) -> Rows:
    """(n, d) finite float32; of length 1 where the metric is cosine."""
    array = as_array(name, rows, np.float32)
    if array.ndim == 2 and array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):  # no temporaries
        raise InputError(f"{name} must be finite in single precision, got NaN or infinite values; remove or replace them")
    return unit_rows(array) if metric == "cosine" and array.ndim == 2 else array


class NeighborIndex:
    """An index over the rows of ``bank`` (m, d), finite.

    method: "exact", "ivf", "hnsw", or "auto": exact up to ``EXACT_UP_TO`` rows and where faiss is missing, else IVF.
    """

    def __init__(
        self, bank: Any, *, metric: str = "cosine", method: str = "auto", seed: int = 0, built: dict[str, Any] | None = None
    ) -> None:
        self.metric = choice("metric", metric, METRICS)
        choice("method", method, METHODS)
        rows = as_rows("the bank", bank, metric)
        if rows.ndim != 2 or 0 in rows.shape:
            raise InputError(f"the bank must be a non-empty (rows, dimensions) array, got shape {rows.shape}")
        size = max(float(rows.max()), -float(rows.min()))
        if size and not SMALLEST < size < LARGEST:
            raise InputError(f"the rows reach {size:.2g}, too far for squares in single precision; divide them by that")
        self.bank = np.ascontiguousarray(rows)
        centred = bool(built.get("centred")) if built and "centroids" in built else far_from_origin(self.bank)
        self._centre = self.bank.mean(axis=0, dtype=np.float64).astype(np.float32) if centred else None
        self._near = self.bank if self._centre is None else self.bank - self._centre  # what is searched
        self.method = _choose(method, len(rows))
        self._seed = seed
        self._index: Any = None
        self._recall: float | None = 1.0 if self.method == "exact" else None
        if self.method == "ivf":
            self._build_ivf(built or {})
        elif self.method == "hnsw":
            self._build_hnsw()

    def __len__(self) -> int:
        return len(self.bank)

    def search(self, queries: Any, k: int) -> tuple[Rows, Indices]:
        """(n, d) -> distances (n, k) and bank rows (n, k), nearest first."""
        integer("k", k, minimum=1)
        if k > len(self):
            raise InputError(f"{k} neighbours were asked of {len(self)} samples; lower n_neighbors or give more samples")
        rows = as_rows("queries", queries, self.metric)
        if rows.ndim != 2 or rows.shape[1] != self.bank.shape[1]:
            raise InputError(f"queries must be rows of {self.bank.shape[1]} numbers, got shape {rows.shape}")
        if not len(rows):
            return np.empty((0, k), np.float32), np.empty((0, k), np.int64)
        rows = np.ascontiguousarray(rows)
        found = self._candidates(rows, k)
        return _ordered(rows, self.bank, found)

    def search_self(self, k: int) -> tuple[Rows, Indices]:
        """The k nearest of every bank row, itself first (also among exact duplicates): distances, rows (m, k)."""
        distances, indices = self.search(self.bank, k)
        own = np.arange(len(self))
        at = indices == own[:, None]
        missing = ~at.any(axis=1)  # more than k duplicates, or an approximate index that overlooked it
        place = np.where(missing, k - 1, at.argmax(axis=1))
        # move what stood before one place on, then put the row itself first at distance 0
        columns = np.arange(k)[None]
        source = np.where(columns <= place[:, None], columns - 1, columns)
        source[:, 0] = 0
        distances, indices = np.take_along_axis(distances, source, 1), np.take_along_axis(indices, source, 1)
        distances[:, 0], indices[:, 0] = 0.0, own
        return distances, indices

    def recall(self, k: int = 10) -> float:
        """Share of the k true neighbours that ``search`` finds, on a fixed sample of bank rows; 1 for an exact index."""
        if self._recall is None:
            k = min(k, len(self))
            rows = self.bank[self._sample()]
            self._recall = _overlap(self._candidates(rows, k), _exact(self._moved(rows), self._near, k))
        return self._recall

    # -- the index -----------------------------------------------------------------------------------------------------
    def _sample(self) -> Indices:
        rng = np.random.default_rng(self._seed)
        return rng.choice(len(self), size=min(SAMPLE, len(self)), replace=False)

    def _moved(self, rows: Rows) -> Rows:
        return rows if self._centre is None else rows - self._centre

    def _candidates(self, rows: Rows, k: int) -> Indices:
        rows = self._moved(rows)
        if self._index is None:
            return _exact(rows, self._near, k)
        found = self._index.search(rows, k)[1]
        short = (found < 0).any(axis=1)  # an approximate index may come back with fewer than k
        if short.any():
            found[short] = _exact(rows[short], self._near, k)
        return found

    def state(self) -> dict[str, Any]:
        """What took time to build; ``NeighborIndex(bank, ..., built=state)`` needs only to sort the rows in."""
        if self.method != "ivf":
            return {"method": self.method}
        state = {"method": "ivf", "centroids": self._centroids, "probes": int(self._index.nprobe), "recall": self._recall}
        return state if self._centre is None else {**state, "centred": True}

    def _build_ivf(self, built: dict[str, Any]) -> None:
        import faiss

        count, width = self.bank.shape
        self._centroids = np.asarray(built["centroids"]) if "centroids" in built else self._cluster()
        lists = len(self._centroids)
        # a small navigable graph finds the nearest lists: assigning rows does not grow with their number
        quantizer = faiss.IndexHNSWFlat(width, 32)
        index = faiss.IndexIVFFlat(quantizer, width, lists, faiss.METRIC_L2)
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)  # with more, the graph depends on which of them was faster
        quantizer.add(self._centroids)
        faiss.omp_set_num_threads(threads)
        index.is_trained = True
        index.add(self._near)
        self._index = index
        if "probes" in built:
            index.nprobe, self._recall = int(built["probes"]), built.get("recall")
            return
        rows = self._near[self._sample()]
        truth = _exact(rows, self._near, min(10, count))
        for probes in PROBES:
            index.nprobe = min(probes, lists)
            self._recall = _overlap(index.search(rows, truth.shape[1])[1], truth)
            if self._recall >= RECALL or probes >= lists:
                break

    def _cluster(self) -> Rows:
        """k-means centroids of a sample: about 4 sqrt(m) of them, at most one for 40 rows."""
        import faiss

        count, width = self.bank.shape
        lists = int(min(4 * np.sqrt(count), max(count / 40, 1)))
        means = faiss.Kmeans(
            width, lists, niter=8, seed=self._seed + 1, max_points_per_centroid=40, min_points_per_centroid=1
        )
        rng = np.random.default_rng(self._seed)
        means.train(self._near[np.sort(rng.choice(count, size=min(count, 40 * lists), replace=False))])
        return np.asarray(means.centroids, dtype=np.float32)

    def _build_hnsw(self) -> None:
        import faiss

        index = faiss.IndexHNSWFlat(self.bank.shape[1], 24)
        index.hnsw.efConstruction, index.hnsw.efSearch = 80, 96
        index.add(self._near)
        self._index = index


def far_from_origin(bank: Rows) -> bool:
    """Whether the mean is much longer than the rows lie from it."""
    mean = bank.mean(axis=0, dtype=np.float64)
    away = float(mean @ mean)
    if away == 0:
        return False
    squares = float(np.einsum("ij,ij->", bank, bank, dtype=np.float64)) / len(bank)
    return away > OFFSET * max(squares - away, 0.0)


def _choose(method: str, count: int) -> str:
    if method == "exact" or (method == "auto" and count <= EXACT_UP_TO):
        return "exact"
    if not has_faiss():
        if method == "auto":
            return "exact"
        raise InputError(f"method {method!r} needs faiss; install faiss-cpu or use method='exact'")
    return "ivf" if method == "auto" else method


def has_faiss() -> bool:
    """Whether faiss can be imported."""
    try:
        import faiss  # noqa: F401
    except ImportError:
        return False
    return True


def _exact(rows: Rows, bank: Rows, k: int) -> Indices:
    """(n, k) nearest bank rows by brute force, in no promised order."""
    if has_faiss():
        import faiss

        return np.asarray(faiss.knn(rows, bank, k, metric=faiss.METRIC_L2)[1])
    rows, bank = rows.astype(np.float64), bank.astype(np.float64)  # in float32 products lose what tells near rows apart
    squares = np.einsum("ij,ij->i", bank, bank)
    step = max(1, BLOCK // len(bank))
    parts = []
    for start in range(0, len(rows), step):
        block = squares - 2 * (rows[start : start + step] @ bank.T)  # squared distance less |row|^2
        parts.append(np.argpartition(block, k - 1, axis=1)[:, :k] if k < len(bank) else np.argsort(block, axis=1))
    return np.concatenate(parts).astype(np.int64)


def _ordered(rows: Rows, bank: Rows, found: Indices) -> tuple[Rows, Indices]:
    """True distances of the rows found, ascending, ties by bank row."""
    found = np.sort(found, axis=1)
    step = max(1, BLOCK // (found.shape[1] * bank.shape[1]))
    distances = np.empty(found.shape, np.float32)
    for start in range(0, len(rows), step):
        stop = start + step
        difference = bank[found[start:stop]] - rows[start:stop, None]  # (block, k, d)
        distances[start:stop] = np.sqrt(np.einsum("nkd,nkd->nk", difference, difference))
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(distances, order, 1), np.take_along_axis(found, order, 1)


def _overlap(found: Indices, truth: Indices) -> float:
    hits = sum(len(np.intersect1d(a, b)) for a, b in zip(found, truth, strict=True))
    return hits / truth.size
