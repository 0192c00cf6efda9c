"""Exact nearest neighbours among normalized rows: faiss on the CPU, blocks of matmul + topk elsewhere.

Never more than a bounded block of the (n, m) similarity matrix exists. Inner products in single precision find a few more
candidates than were asked for, distances taken from differences order them. In a tight cluster, where rounding could hide a
nearer row (|q - b|^2 = 2 - 2 q.b has no digits left below about 1e-6), the query is searched again in double precision.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from wildspec.errors import InputError
from wildspec.graph.precision import exact_arithmetic
from wildspec.tensors import single

BLOCK_SIMILARITIES = {"cuda": 1 << 28, "cpu": 1 << 22}  # values of one block: 1 GiB on a GPU, 16 MiB on a CPU
MAX_COLUMNS = 1 << 16  # bank rows of one block
SHORT, LONG = 1e-6, 1e15  # largest entries between which a row's length is computed as it stands
SPARE = 8  # candidates beyond those asked for
GROUP = 16  # columns that share a maximum in the selection of the largest


def normalize(features: Tensor) -> Tensor:
    """(n, d) -> rows of length 1, float32 or float64, however long or short; a zero row stays zero."""
    rows = single(features)
    if not rows.numel():
        return rows
    largest = rows.abs().amax(dim=1, keepdim=True)
    odd = (largest > 0) & ((largest < SHORT) | (largest > LONG))  # their squares overflow, or count as nothing
    if bool(odd.any()):
        rows = torch.where(odd, rows / largest, rows)
    return F.normalize(rows, dim=1)


def kth_distance(queries: Tensor, bank: Tensor, k: int) -> Tensor:
    """(n, d), (m, d) normalized rows -> (n,) distance to the k-th nearest row of the bank."""
    return search_nearest(queries, bank, k)[0][:, -1]


def search_nearest(queries: Tensor, bank: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(n, d), (m, d) rows of length 1, or 0 -> the k smallest distances of each query, ascending, and their bank rows:
    (n, k), (n, k).

    Among rows of length 1 the largest inner products are the smallest distances. A row of zeros is at distance 1 from all
    of them, like a row with the inner product 1/2: queries for which it could be among the k nearest are searched again.
    """
    most = max(k, min(k + SPARE, len(bank)))
    found, where = largest_inner_products(queries, bank, most)
    away, where = _ordered(queries, bank, where, k)
    if most == len(bank):
        return away, where
    # of a row that is no candidate |q - b|^2 = |q|^2 + 1 - 2 q.b, and q.b is at most that of the last candidate
    rounding = 4 * math.sqrt(bank.shape[1]) * torch.finfo(bank.dtype).eps
    again = away[:, -1] ** 2 > (queries**2).sum(dim=1) + 1 - 2 * found[:, -1] - rounding
    far = found[:, k - 1] < 0.5
    if bool(far.any()) and not bool(bank.any(dim=1).all()):
        again |= far
    if bool(again.any()):
        asked = queries[again]
        _, rows = blockwise_search(asked.double(), bank, most, halved=True)
        away[again], where[again] = _ordered(asked, bank, rows, k)
    return away, where


def _ordered(queries: Tensor, bank: Tensor, where: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k nearest of the candidates ``where`` (n, c), nearest first: their distances, their bank rows."""
    away, order = distances(queries, bank, where).sort(dim=1, stable=True)
    return away[:, :k].contiguous(), where.gather(1, order[:, :k])


def distances(queries: Tensor, bank: Tensor, where: Tensor) -> Tensor:
    """(n, d), (m, d), (n, k) rows of the bank -> (n, k) Euclidean distances.

    Taken from the difference itself: sqrt(2 - 2 cos) loses all digits below about 5e-4 in single precision, and the
    clean in-distribution distances of a well trained network are that small.
    """
    rows = max(1, (1 << 23) // max(1, where.shape[1] * bank.shape[1]))
    parts = [
        (bank[index] - query.unsqueeze(1)).norm(dim=2)
        for query, index in zip(queries.split(rows), where.split(rows), strict=True)
    ]
    return torch.cat(parts) if parts else queries.new_empty(0, where.shape[1])


def leave_one_out(rows: Tensor, inside: Tensor, bank: Tensor, first: int, k: int) -> Tensor:
    """(n,) distance of each row to its k-th nearest in the bank; a row that is in it (from ``first`` on, in order) is not
    its own neighbour."""
    own = torch.full((len(rows),), -1, device=rows.device)
    own[inside] = torch.arange(first, first + int(inside.sum()), device=rows.device)
    away, where = search_nearest(rows, bank, min(k + 1, len(bank)))
    away = away.masked_fill(where == own.unsqueeze(1), torch.inf).sort(dim=1).values  # itself goes last
    return away[:, k - 1]


def largest_inner_products(queries: Tensor, bank: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(n, d), (m, d) -> the k largest of queries @ bank.T per row, descending, and their bank rows: (n, k), (n, k)."""
    if queries.shape[1] != bank.shape[1]:
        raise InputError(f"queries have width {queries.shape[1]}, the bank {bank.shape[1]}; use one network for both")
    if k > len(bank):
        raise InputError(f"{k} neighbours were asked of a bank of {len(bank)} samples; lower k or give more samples")
    if not len(queries):
        return queries.new_empty(0, k), torch.empty(0, k, dtype=torch.int64, device=queries.device)
    if bank.device.type == "cpu" and bank.dtype == torch.float32 and queries.dtype == torch.float32:
        found = _faiss_search(queries, bank, k)
        if found is not None:
            return found
    return blockwise_search(queries, bank, k)


def blockwise_search(queries: Tensor, bank: Tensor, k: int, *, halved: bool = False) -> tuple[Tensor, Tensor]:
    """The same in torch, on any device, holding one block of similarities at a time, in the precision of the queries.
    ``halved``: of q . b - |b|^2 / 2, which ranks as distances do whatever the lengths of the bank's rows."""
    columns = max(min(len(bank), MAX_COLUMNS), k)
    rows = max(1, BLOCK_SIMILARITIES["cuda" if queries.is_cuda else "cpu"] // columns)
    values, indices = [], []
    with exact_arithmetic(queries.device):
        for block in queries.split(rows):
            best, where = _search_block(block, bank, k, columns, halved)
            values.append(best)
            indices.append(where)
    return torch.cat(values), torch.cat(indices)


def _search_block(queries: Tensor, bank: Tensor, k: int, columns: int, halved: bool) -> tuple[Tensor, Tensor]:
    best = where = None
    for start in range(0, len(bank), columns):
        part = bank[start : start + columns].to(queries.dtype)
        similarity = queries @ part.T  # (rows, columns)
        if halved:
            similarity -= (part**2).sum(dim=1) / 2
        value, index = largest(similarity, min(k, similarity.shape[1]))
        index = index + start
        if best is None or where is None:
            best, where = value, index
        else:
            best, order = torch.cat([best, value], dim=1).topk(k, dim=1)
            where = torch.cat([where, index], dim=1).gather(1, order)
    assert best is not None
    assert where is not None
    return best, where


def largest(values: Tensor, k: int, group: int = GROUP) -> tuple[Tensor, Tensor]:
    """``values.topk(k, dim=1)``, but one pass over a long row instead of a selection in it.

    Columns are put into groups of ``group``. Each of the k largest entries lies in one of the k groups with the largest
    maximum: a group that holds one of them and is not among those k would leave k larger entries in the others.
    """
    rows, columns = values.shape
    count = columns // group
    if columns < 4 * group * k:  # the candidates would be a good part of the row
        found = values.topk(k, dim=1)
        return found.values, found.indices
    maxima = values[:, : count * group].view(rows, group, count).amax(dim=1)  # column j belongs to group j mod count
    groups = maxima.topk(k, dim=1).indices  # (rows, k)
    members = torch.arange(group, device=values.device) * count
    candidates = (groups.unsqueeze(2) + members).flatten(1)  # (rows, k * group)
    rest = torch.arange(count * group, columns, device=values.device).expand(rows, -1)
    candidates = torch.cat([candidates, rest], dim=1)
    best, order = values.gather(1, candidates).topk(k, dim=1)
    return best, candidates.gather(1, order)


def _faiss_search(queries: Tensor, bank: Tensor, k: int) -> tuple[Tensor, Tensor] | None:
    """Brute force on the arrays themselves, no index and no copy; None where faiss is not installed."""
    try:
        import faiss
    except ImportError:
        return None
    found, where = faiss.knn(
        queries.contiguous().numpy(), bank.contiguous().numpy(), k, metric=faiss.METRIC_INNER_PRODUCT
    )
    return torch.from_numpy(found), torch.from_numpy(where)
