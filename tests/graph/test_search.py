import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from wildspec.errors import InputError, WildspecError
from wildspec.graph import search
from wildspec.graph.search import NeighborIndex, unit_rows


@pytest.fixture
def without_faiss(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)  # importing it is an ImportError


def oracle(bank, queries, k, metric):
    """scikit-learn's brute force, in double precision."""
    if metric == "cosine":
        bank, queries = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (bank, queries))
    return NearestNeighbors(n_neighbors=k, algorithm="brute").fit(bank).kneighbors(queries)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("k", [1, 5, 80])
def test_exact_search_is_scikit_learns(rng, metric, k):
    bank, queries = rng.normal(size=(80, 6)), rng.normal(size=(17, 6))
    distances, indices = NeighborIndex(bank, metric=metric, method="exact").search(queries, k)
    expected, where = oracle(bank, queries, k, metric)
    np.testing.assert_allclose(distances, expected, rtol=1e-5)
    np.testing.assert_array_equal(indices, where)


def test_the_search_without_faiss_is_the_same(rng, without_faiss):
    bank, queries = rng.normal(size=(2500, 5)), rng.normal(size=(2000, 5))  # more than one block of similarities
    index = NeighborIndex(bank, metric="euclidean")
    distances, indices = index.search(queries, 7)
    expected, where = oracle(bank, queries, 7, "euclidean")
    np.testing.assert_allclose(distances, expected, rtol=1e-5)
    np.testing.assert_array_equal(indices, where)
    assert index.method == "exact"
    with pytest.raises(InputError, match="needs faiss"):
        NeighborIndex(bank, method="ivf")


def test_near_rows_of_tight_clusters_are_told_apart_without_faiss(rng, without_faiss):
    """Ten clusters a thousand times closer within than between: inner products of float32 do not see who is nearest."""
    centres = rng.normal(size=(10, 32))
    bank = (np.repeat(centres, 50, axis=0) + 1e-4 * rng.normal(size=(500, 32))).astype(np.float32)
    queries = (centres + 1e-4 * rng.normal(size=(10, 32))).astype(np.float32)
    found = NeighborIndex(bank, metric="euclidean").search(queries, 5)[1]
    away = np.linalg.norm(bank[None].astype(np.float64) - queries[:, None], axis=2)
    np.testing.assert_array_equal(found, np.argsort(away, axis=1)[:, :5])


def test_cosine_ignores_length_and_euclidean_does_not(rng):
    bank = rng.normal(size=(30, 4))
    longer = bank * rng.uniform(0.1, 10, size=(30, 1))
    same = NeighborIndex(bank).search(longer, 1)[1][:, 0]
    np.testing.assert_array_equal(same, np.arange(30))
    assert (NeighborIndex(bank, metric="euclidean").search(longer, 1)[1][:, 0] != np.arange(30)).any()


def test_distances_of_near_duplicates_keep_their_digits():
    base = np.zeros((2, 300), np.float32)
    base[0, 0] = base[1, 0] = 1.0
    base[1, 1] = 1e-4  # sqrt(2 - 2 cos) of these is 0 in single precision
    distances, _ = NeighborIndex(base).search(base[:1], 2)
    assert distances[0, 1] == pytest.approx(1e-4, rel=1e-3)


def test_a_row_finds_itself_first_even_among_more_duplicates_than_k():
    bank = np.ones((9, 3))
    distances, indices = NeighborIndex(bank).search_self(4)
    np.testing.assert_array_equal(indices[:, 0], np.arange(9))
    np.testing.assert_array_equal(distances, 0)
    assert all(len(set(row)) == 4 for row in indices.tolist())


def test_search_self_is_the_search_with_the_row_moved_to_the_front(rng):
    bank = rng.normal(size=(40, 3))
    distances, indices = NeighborIndex(bank).search_self(6)
    plain = NeighborIndex(bank).search(bank, 6)
    np.testing.assert_allclose(distances, plain[0], atol=1e-6)
    np.testing.assert_array_equal(indices, plain[1])


@pytest.mark.parametrize("method", ["ivf", "hnsw"])
def test_an_approximate_index_reports_the_recall_it_has(method):
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(40, 16))
    bank = (centres[rng.integers(40, size=4000)] + 0.3 * rng.normal(size=(4000, 16))).astype(np.float32)
    index = NeighborIndex(bank, metric="euclidean", method=method)
    found = index.search(bank[:500], 10)[1]
    truth = oracle(bank, bank[:500], 10, "euclidean")[1]
    measured = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), truth.tolist(), strict=True)])
    assert index.recall() >= 0.9
    assert measured == pytest.approx(index.recall(), abs=0.03)  # another sample of queries


def test_small_banks_are_searched_exactly_and_large_ones_not(monkeypatch):
    monkeypatch.setattr(search, "EXACT_UP_TO", 500)
    rng = np.random.default_rng(0)
    assert NeighborIndex(rng.normal(size=(500, 4))).method == "exact"
    assert NeighborIndex(rng.normal(size=(501, 4))).method == "ivf"
    assert NeighborIndex(rng.normal(size=(500, 4))).recall() == 1.0


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 30), st.integers(1, 5), st.integers(0, 10**6), st.sampled_from(["cosine", "euclidean"]))
def test_neighbours_are_distinct_ascending_and_in_the_bank(count, width, seed, metric):
    values = np.random.default_rng(seed).integers(-2, 3, size=(count, width))  # many ties and zero rows
    k = min(count, 5)
    distances, indices = NeighborIndex(values, metric=metric).search(values, k)
    assert (np.diff(distances, axis=1) >= 0).all()
    assert all(len(set(row)) == k for row in indices.tolist())
    assert indices.min() >= 0
    assert indices.max() < count
    rows = unit_rows(values) if metric == "cosine" else values.astype(np.float32)
    np.testing.assert_allclose(distances, np.linalg.norm(rows[:, None] - rows[indices], axis=2), atol=1e-5)


def test_wrong_input_is_one_clear_line(rng):
    index = NeighborIndex(rng.normal(size=(5, 3)))
    with pytest.raises(InputError, match="6 neighbours were asked of 5 samples"):
        index.search(rng.normal(size=(2, 3)), 6)
    with pytest.raises(InputError, match="rows of 3 numbers"):
        index.search(rng.normal(size=(2, 4)), 2)
    with pytest.raises(InputError, match="non-empty"):
        NeighborIndex(np.empty((0, 3)))
    assert index.search(np.empty((0, 3)), 2)[0].shape == (0, 2)


@pytest.mark.parametrize("faiss", [True, False])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_large_common_offset_does_not_cost_neighbours(rng, faiss, metric, monkeypatch):
    """|a|^2 - 2 a.b + |b|^2 of rows far from the origin cancels: in single precision their distances would be noise."""
    if not faiss:
        monkeypatch.setitem(sys.modules, "faiss", None)
    bank = (rng.normal(size=(1500, 128)) + 1e3).astype(np.float32)  # faiss takes differences of fewer
    index = NeighborIndex(bank, metric=metric)
    where = index.search(bank, 6)[1][:200]
    exact = bank.astype(np.float64)
    if metric == "cosine":
        exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    truth = NearestNeighbors(n_neighbors=6, algorithm="kd_tree").fit(exact).kneighbors(exact[:200])[1]  # by differences
    overlap = np.mean([len(set(a) & set(b)) / 6 for a, b in zip(where.tolist(), truth.tolist(), strict=True)])
    assert overlap > (0.999 if metric == "euclidean" else 0.9)  # rows of length 1 have lost digits before the search
    np.testing.assert_array_equal(index.search_self(3)[1][:, 0], np.arange(1500))


def test_an_index_far_from_the_origin_is_restored_as_it_was(rng):
    bank = (rng.normal(size=(3000, 8)) + 300).astype(np.float32)
    first = NeighborIndex(bank, metric="euclidean", method="ivf")
    assert first.recall() >= 0.95
    again = NeighborIndex(bank, metric="euclidean", method="ivf", built=first.state())
    np.testing.assert_array_equal(again.search(bank[:50] + 0.1, 5)[1], first.search(bank[:50] + 0.1, 5)[1])
    older = {name: value for name, value in first.state().items() if name != "centred"} | {"centroids": bank[:75]}
    found = NeighborIndex(bank, metric="euclidean", method="ivf", built=older).search(bank[:50], 1)[1][:, 0]
    np.testing.assert_array_equal(found, np.arange(50))  # centroids kept before rows were centred: read as they are


@pytest.mark.parametrize("kind", ["bfloat16", "gradient", "lists", "column order", "reversed"])
def test_every_kind_of_array_gives_the_same_neighbours(rng, kind):
    torch = pytest.importorskip("torch")
    rows = torch.randint(-8, 9, (30, 5), generator=torch.Generator().manual_seed(0)).float()  # exact in half precision
    made = {
        "bfloat16": lambda: rows.bfloat16(),
        "gradient": lambda: rows.clone().requires_grad_(),
        "lists": lambda: rows.tolist(),
        "column order": lambda: np.asfortranarray(rows.numpy()),
        "reversed": lambda: rows.numpy()[::-1].copy()[::-1],
    }[kind]()
    expected = NeighborIndex(rows.numpy(), metric="euclidean").search(rows.numpy(), 4)
    found = NeighborIndex(made, metric="euclidean").search(made, 4)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize(
    ("spoil", "said"),
    [(np.nan, "NaN or infinite"), (-np.inf, "NaN or infinite"), (1e200, "NaN or infinite"), ("a", "numbers")],
)
def test_what_is_no_number_is_refused_in_bank_and_queries(rng, metric, spoil, said):
    good = rng.normal(size=(9, 3))
    bad = good.astype(object)
    bad[4, 1] = spoil
    bad = bad if isinstance(spoil, str) else bad.astype(np.float64)
    with pytest.raises(WildspecError, match=said):
        NeighborIndex(bad, metric=metric)
    with pytest.raises(WildspecError, match=said):
        NeighborIndex(good, metric=metric).search(bad, 2)
    with pytest.raises(InputError, match=r"rows of 3 numbers, got shape \(3,\)"):
        NeighborIndex(good, metric=metric).search(good[0], 2)


@pytest.mark.parametrize("size", [1e22, 1e-26])
def test_rows_whose_squares_leave_single_precision_are_refused(rng, size):
    rows = rng.normal(size=(9, 3))
    with pytest.raises(InputError, match="divide them by"):
        NeighborIndex(rows * size, metric="euclidean")
    np.testing.assert_array_equal(NeighborIndex(rows * size).search(rows, 3)[1], NeighborIndex(rows).search(rows, 3)[1])
    zeros = NeighborIndex(np.zeros((3, 2)), metric="euclidean")
    assert zeros.search(np.zeros((1, 2)), 2)[0].tolist() == [[0, 0]]


@pytest.mark.parametrize("faiss", [True, False])
def test_equal_distances_come_in_the_order_of_the_bank(rng, faiss, monkeypatch):
    if not faiss:
        monkeypatch.setitem(sys.modules, "faiss", None)
    corners = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    bank = corners[rng.integers(0, 3, size=60)]
    distances, indices = NeighborIndex(bank, metric="euclidean").search(corners[:1], 60)
    for distance in np.unique(distances):
        same = indices[distances == distance]
        assert (np.diff(same) > 0).all()
    assert np.unique(distances).size == 3


def test_an_approximate_index_that_finds_too_few_is_helped_out(rng):
    bank = rng.normal(size=(900, 4)).astype(np.float32)
    index = NeighborIndex(bank, metric="euclidean", method="ivf")
    index._index.nprobe = 1  # one list holds far fewer than 400 rows
    distances, indices = index.search(bank[:5], 400)
    expected = oracle(bank, bank[:5], 400, "euclidean")[0]
    np.testing.assert_allclose(distances, expected, rtol=1e-4, atol=1e-6)
    assert all(len(set(row)) == 400 for row in indices.tolist())


@pytest.mark.parametrize("exponent", [-42, -37, -31, -29, 0, 29, 31, 37, 38])
def test_rows_of_any_length_become_rows_of_length_one(exponent):
    """Longer than single precision can say (the entries fit, their length does not), or of the last digits it has."""
    rows = np.array([[3.0 * 10.0**exponent] * 20, [1.0] * 20, [0.0] * 20], np.float32)
    exact = rows.astype(np.float64)
    exact[:2] /= np.linalg.norm(exact[:2] / np.abs(exact[:2]).max(axis=1, keepdims=True), axis=1, keepdims=True)
    exact[:2] /= np.abs(rows[:2]).max(axis=1, keepdims=True).astype(np.float64)
    found = unit_rows(rows)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, rtol=3e-7)


def test_a_row_that_its_index_overlooked_takes_the_place_of_the_farthest(monkeypatch):
    index = NeighborIndex(np.arange(8, dtype=np.float32)[:, None] ** 2, metric="euclidean")
    rows = index.search(index.bank, 4)[1]
    kept = np.array([[r for r in row if r != own][:3] for own, row in enumerate(rows.tolist())])
    away = np.abs(index.bank[kept, 0] - index.bank)
    monkeypatch.setattr(index, "search", lambda queries, k: (away.copy(), kept.copy()))
    found, where = index.search_self(3)
    np.testing.assert_array_equal(where, np.c_[np.arange(8), kept[:, :2]])
    np.testing.assert_array_equal(found, np.c_[np.zeros(8), away[:, :2]])
