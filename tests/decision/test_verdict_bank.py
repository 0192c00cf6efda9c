"""The labelled bank of an image model: nearest rows against a slow float64 loop, rows of zeros among them."""

import numpy as np
import pytest
import torch

from wildspec.decision.verdicts import Explanation, LabelledBank, Neighbour


def slow_nearest(bank: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    """(n, k) distances by definition, each row scaled to length 1 unless it is zero."""

    def unit(rows: np.ndarray) -> np.ndarray:
        length = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        return rows / np.where(length == 0, 1, length)

    away = np.linalg.norm(unit(queries)[:, None] - unit(bank)[None], axis=2)
    return np.sort(away, axis=1)[:, :k]


def bank_of(rows: np.ndarray) -> LabelledBank:
    unit = torch.nn.functional.normalize(torch.from_numpy(rows), dim=1)
    return LabelledBank(unit, np.zeros(len(rows), np.int64), [str(i) for i in range(len(rows))])


@pytest.mark.parametrize("k", [1, 3, 12])
def test_nearest_are_the_smallest_distances_also_beside_rows_of_zeros(k: int, rng: np.random.Generator) -> None:
    """A row of zeros (a dead ReLU) is at distance 1 from all: nearer than a row with an inner product below 1/2."""
    rows = rng.normal(size=(12, 5)).astype(np.float32)
    rows[[2, 7]] = 0
    queries = np.concatenate([rng.normal(size=(9, 5)), np.zeros((1, 5))]).astype(np.float32)
    where, found = bank_of(rows).nearest(torch.from_numpy(queries), k)
    expected = slow_nearest(rows, queries, k)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    picked = np.stack([slow_nearest(rows[row], query[None], k)[0] for row, query in zip(where, queries, strict=True)])
    np.testing.assert_allclose(picked, expected, atol=1e-6, err_msg="the rows named are those at these distances")
    assert all(len(set(row)) == k for row in where.tolist())


def test_more_neighbours_than_rows_are_all_rows_and_no_query_has_none(rng: np.random.Generator) -> None:
    bank = bank_of(rng.normal(size=(3, 4)).astype(np.float32))
    where, found = bank.nearest(torch.ones(2, 4), 10)
    assert np.sort(where, axis=1).tolist() == [[0, 1, 2]] * 2
    assert found.shape == (2, 3)
    for asked, k in ((torch.empty(0, 4), 2), (torch.ones(2, 4), 0)):
        where, found = bank.nearest(asked, k)
        assert where.shape == found.shape == (len(asked), k)


def test_an_explanation_reads_as_a_sentence() -> None:
    near = (Neighbour("a.png", "cat", 0.1234, 7), Neighbour("b.png", "dog", 1.5, 2))
    kept = Explanation("cat", "cat", 0.876, 0.25, 0.5, 0.3, near)
    assert str(kept) == (
        "cat (88%): score 0.25 <= threshold 0.5, p = 0.3; nearest labelled: a.png (cat, 0.123), b.png (dog, 1.5)"
    )
    refused = Explanation("rejected", "cat", 0.876, 0.75, 0.5, 0.01, ())
    assert str(refused) == "rejected (nearest class cat): score 0.75 > threshold 0.5, p = 0.01"
    assert (kept.rejected, refused.rejected) == (False, True)
