"""Exact neighbours by inner product: both searches against a full sort, blocks, and a row left out of its own neighbours."""

import numpy as np
import pytest
import torch
from torch import Tensor

from wildspec.graph import nearest as nearest_module
from wildspec.graph.nearest import blockwise_search, kth_distance, largest, largest_inner_products, leave_one_out, normalize


@pytest.mark.parametrize("search", [largest_inner_products, blockwise_search])
def test_both_searches_agree_with_a_full_sort(
    search: object, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setitem(nearest_module.BLOCK_SIMILARITIES, "cpu", 64)  # several blocks of rows ...
    monkeypatch.setattr(nearest_module, "MAX_COLUMNS", 16)  # ... and of bank rows, the last ones smaller than k
    q, b = (torch.from_numpy(rng.normal(size=(n, 5)).astype(np.float32)) for n in (23, 50))
    values, where = search(q, b, 7)  # type: ignore[operator]
    full = (q.double() @ b.double().T).sort(dim=1, descending=True)
    assert torch.equal(where, full.indices[:, :7])
    assert torch.allclose(values.double(), full.values[:, :7], atol=1e-5)


@pytest.mark.parametrize("columns", [7, 400, 401, 431])
@pytest.mark.parametrize("kind", ["distinct", "ties", "sorted"])
def test_largest_by_groups_is_topk(columns: int, kind: str, rng: np.random.Generator) -> None:
    """Groups of 8 columns: 400 fills them, 401 and 431 leave columns over; in 'sorted' one group holds few of them."""
    values = {
        "distinct": rng.normal(size=(6, columns)),
        "ties": rng.integers(0, 3, size=(6, columns)).astype(float),
        "sorted": np.tile(np.arange(columns, dtype=float), (6, 1)),
    }[kind]
    tensor = torch.from_numpy(values)
    found, where = largest(tensor, 5, group=8)
    assert torch.equal(found, torch.from_numpy(np.sort(values, axis=1)[:, ::-1][:, :5].copy()))
    assert torch.equal(tensor.gather(1, where), found)
    assert all(len(set(row)) == 5 for row in where.tolist())


def test_blocks_bound_the_similarities_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    original = Tensor.topk

    def spy(self: Tensor, *args: object, **kwargs: object) -> object:
        seen.append(self.numel())
        return original(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Tensor, "topk", spy)
    monkeypatch.setitem(nearest_module.BLOCK_SIMILARITIES, "cpu", 4096)
    monkeypatch.setattr(nearest_module, "MAX_COLUMNS", 256)
    blockwise_search(torch.randn(300, 4), torch.randn(1000, 4), 5)
    assert max(seen) <= 4096 < 300 * 1000


def test_members_of_the_bank_are_not_their_own_neighbours(rng: np.random.Generator) -> None:
    """By a slow loop; rows 4 to 8 of the bank are the first, third, ... sample."""
    rows = normalize(torch.from_numpy(rng.normal(size=(9, 3))))
    inside = torch.arange(9) % 2 == 0
    bank = torch.cat([normalize(torch.from_numpy(rng.normal(size=(4, 3)))), rows[inside]])
    found = leave_one_out(rows, inside, bank, 4, 2)
    for i, row in enumerate(rows):
        others = [j for j in range(len(bank)) if not (inside[i] and j == 4 + i // 2)]
        expected = sorted(float((row - bank[j]).norm()) for j in others)[1]
        assert float(found[i]) == pytest.approx(expected)
    outside = kth_distance(rows[~inside], bank, 2)
    assert torch.allclose(found[~inside], outside)
