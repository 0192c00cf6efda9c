"""sample_rows: a uniform sample in one pass, rows at their places, block borders unseen."""

import numpy as np
import pytest

from wildspec.data.embeddings import EmbeddingTable
from wildspec.data.sampled_rows import sample_rows


@pytest.fixture
def table(tmp_path):
    rows = np.arange(20, dtype=np.float32)[:, None] * np.ones((20, 3), np.float32)
    np.save(tmp_path / "rows.npy", rows)
    return EmbeddingTable(tmp_path / "rows.npy")


def test_a_table_that_fits_is_kept_whole_and_in_order(table):
    rows, places = sample_rows(table, 50, seed=0)
    np.testing.assert_array_equal(places, np.arange(20))
    np.testing.assert_array_equal(rows, table.read())


def test_rows_are_those_at_their_places(table):
    rows, places = sample_rows(table, 7, seed=1)
    assert len(rows) == len(set(places.tolist())) == 7
    np.testing.assert_array_equal(rows[:, 0], places)
    assert (np.diff(places) > 0).all()


def test_every_row_is_equally_likely(table):
    """Each of 20 rows is kept with probability 1/4: 2000 draws, standard deviation about 19 of 500."""
    counts = np.zeros(20)
    for seed in range(2000):
        counts[sample_rows(table, 5, seed)[1]] += 1
    assert counts.sum() == 10_000
    assert np.abs(counts - 500).max() < 5 * np.sqrt(2000 * 0.25 * 0.75)


def test_the_second_of_two_rows_is_kept_half_of_the_time(tmp_path):
    """Where a step's chances are large a wrong one shows: 1,000 draws, standard deviation 16 of 500; of three rows too."""
    for count, share in ((2, 1 / 2), (3, 1 / 3)):
        np.save(tmp_path / "few.npy", np.arange(count, dtype=np.float32)[:, None])
        few = EmbeddingTable(tmp_path / "few.npy")
        last = sum(int(sample_rows(few, 1, seed)[1][0]) == count - 1 for seed in range(1000))
        assert abs(last - 1000 * share) < 5 * np.sqrt(1000 * share * (1 - share))


def test_small_blocks_are_as_fair_as_one_large_one(table, monkeypatch):
    """Slots drawn in blocks of 3, so that most rows arrive with the reservoir full and some share a slot in a block."""
    whole = table.blocks
    monkeypatch.setattr(table, "blocks", lambda: whole(3))
    counts = np.zeros(20)
    for seed in range(2000):
        rows, places = sample_rows(table, 5, seed)
        np.testing.assert_array_equal(rows[:, 0], places)
        counts[places] += 1
    assert np.abs(counts - 500).max() < 5 * np.sqrt(2000 * 0.25 * 0.75)


def test_bad_rows_are_left_out(tmp_path):
    rows = np.ones((6, 2), np.float32)
    rows[1, 0], rows[4, 1] = np.nan, np.inf
    np.save(tmp_path / "rows.npy", rows)
    assert sample_rows(EmbeddingTable(tmp_path / "rows.npy"), 10, seed=0)[1].tolist() == [0, 2, 3, 5]
