"""The merging of neighbours from pieces of a bank, without a cluster: against one index over all rows."""

import numpy as np
import pytest

from wildspec.graph.ray_engine import _best_of, _edges
from wildspec.graph.search import NeighborIndex


def merged(rows: np.ndarray, k: int, pieces: int) -> tuple[np.ndarray, np.ndarray]:
    """What the tasks of `ray_engine.neighbors` do, one after the other."""
    edges = _edges(len(rows), pieces)
    indexes = [NeighborIndex(rows[low:high], metric="euclidean", method="exact") for low, high in edges]
    parts = []
    for low, high in edges:
        found = []
        for index, (first, _) in zip(indexes, edges, strict=True):
            distances, where = index.search(rows[low:high], min(k, len(index)))
            found.append((distances, where + first))
        parts.append(_best_of(low, k, *found))
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


@pytest.mark.parametrize("pieces", [1, 3, 50])
@pytest.mark.parametrize("k", [1, 4])
def test_every_row_comes_first_also_among_more_than_k_copies(pieces: int, k: int, rng: np.random.Generator) -> None:
    """Thirty rows of zeros, as a network gives for blank images, among twenty others."""
    rows = np.concatenate([np.zeros((30, 3)), rng.normal(size=(20, 3))]).astype(np.float32)
    distances, where = merged(rows, k, pieces)
    np.testing.assert_array_equal(where[:, 0], np.arange(50))
    np.testing.assert_array_equal(distances[:, 0], 0)
    assert all(len(set(row)) == k for row in where.tolist())
    expected = np.sort(np.linalg.norm(rows[:, None] - rows[None], axis=2), axis=1)[:, :k]
    np.testing.assert_allclose(distances, expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(rows[where] - rows[:, None], axis=2), expected, atol=1e-6)


def test_no_piece_is_empty() -> None:
    assert _edges(3, 50) == [(0, 1), (1, 2), (2, 3)]
    assert _edges(10, 3) == [(0, 3), (3, 6), (6, 10)]
