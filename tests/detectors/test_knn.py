"""KNN against a slow float64 loop, and what is particular to it: self-exclusion, ties, growing banks."""

import sys

import numpy as np
import pytest
import torch

from wildspec.detectors import KNN
from wildspec.detectors.knn import knn_score, usual_k
from wildspec.errors import InputError
from wildspec.graph.nearest import distances, normalize


def slow_knn(bank: np.ndarray, queries: np.ndarray, k: int, own: list[int] | None = None) -> list[float]:
    """The definition, one query at a time, in float64."""
    scores = []
    for number, query in enumerate(queries.astype(np.float64)):
        q = query / np.sqrt((query**2).sum())
        found = []
        for row, other in enumerate(bank.astype(np.float64)):
            if own is not None and row == own[number]:
                continue
            b = other / np.sqrt((other**2).sum())
            found.append(float(np.sqrt(((q - b) ** 2).sum())))
        scores.append(sorted(found)[k - 1])
    return scores


@pytest.fixture
def bank(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(40, 6)).astype(np.float32)


@pytest.fixture
def queries(rng: np.random.Generator) -> np.ndarray:
    return (rng.normal(size=(9, 6)) * 3).astype(np.float32)


@pytest.mark.parametrize("k", [1, 3, 40])
def test_score_is_the_kth_distance(bank: np.ndarray, queries: np.ndarray, k: int) -> None:
    scores = KNN(k=k).fit(features=bank).score(features=queries)
    assert scores.dtype == torch.float32
    assert scores.tolist() == pytest.approx(slow_knn(bank, queries, k), abs=2e-6)


def test_float64_features_stay_float64(bank: np.ndarray, queries: np.ndarray) -> None:
    scores = KNN(k=5).fit(features=bank.astype(np.float64)).score(features=queries.astype(np.float64))
    assert scores.dtype == torch.float64
    assert scores.tolist() == pytest.approx(slow_knn(bank, queries, 5), abs=1e-14)


def test_single_precision_queries_of_a_double_precision_bank(bank: np.ndarray, queries: np.ndarray) -> None:
    detector = KNN(k=5).fit(features=bank.astype(np.float64))
    assert detector.score(features=queries).tolist() == pytest.approx(slow_knn(bank, queries, 5), abs=1e-14)
    assert detector.neighbors(queries)[0][:, -1].tolist() == pytest.approx(slow_knn(bank, queries, 5), abs=1e-14)


def test_half_precision_features_are_scored_in_single_precision(bank: np.ndarray, queries: np.ndarray) -> None:
    half_bank, half_queries = bank.astype(np.float16), queries.astype(np.float16)
    scores = KNN(k=5).fit(features=half_bank).score(features=half_queries)
    assert scores.dtype == torch.float32
    assert scores.tolist() == pytest.approx(slow_knn(half_bank, half_queries, 5), abs=2e-6)


def test_small_distances_keep_their_digits(rng: np.random.Generator) -> None:
    """A tight cluster: sqrt(2 - 2 cos) in single precision would be 0 or 3e-4 for distances of about 1e-4."""
    center = rng.normal(size=16)
    bank = (center + 1e-4 * np.linalg.norm(center) * rng.normal(size=(1, 16)) / 4).astype(np.float32)
    query = (center + 1e-4 * np.linalg.norm(center) * rng.normal(size=(3, 16)) / 4).astype(np.float32)
    expected = slow_knn(bank, query, 1)
    assert max(expected) < 5e-4
    # 2e-7: rounding of the normalized coordinates themselves
    assert KNN(k=1).fit(features=bank).score(features=query).tolist() == pytest.approx(expected, abs=2e-7)


@pytest.mark.parametrize("with_faiss", [True, False])
@pytest.mark.parametrize(("spread", "k"), [(1e-2, 10), (1e-3, 10), (1e-4, 1), (1e-4, 10), (1e-5, 200)])
def test_neighbours_in_a_tight_cluster_are_the_nearest(
    spread: float, k: int, with_faiss: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two classes, each a cluster so tight that inner products in single precision do not tell who is nearest. Oracle: a
    full sort in double precision, of the normalized rows as the detector holds them."""
    if not with_faiss:
        monkeypatch.setitem(sys.modules, "faiss", None)
    centres = rng.normal(size=(2, 32))
    centres *= 30 / np.linalg.norm(centres, axis=1, keepdims=True)

    def drawn(n: int) -> torch.Tensor:
        noise = rng.normal(size=(n, 32)) * spread * 30 / 32**0.5
        return torch.from_numpy(centres[np.arange(n) % 2] + noise).float()

    detector, queries = KNN(k=k).fit(features=drawn(1000)), drawn(40)
    rows = normalize(queries).double()
    apart = torch.cdist(rows, detector.bank_.double(), compute_mode="donot_use_mm_for_euclid_dist")
    expected = apart.sort(dim=1).values[:, :k]
    found, where = detector.neighbors(queries)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(apart.gather(1, where), expected, rtol=1e-5, atol=0)
    assert torch.equal(detector.score(features=queries), found[:, -1])


def test_without_faiss_torch_gives_the_same(
    bank: np.ndarray, queries: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = KNN(k=4).fit(features=bank)
    with_faiss = detector.score(features=queries)
    monkeypatch.setitem(sys.modules, "faiss", None)  # import faiss now fails
    assert torch.allclose(detector.score(features=queries), with_faiss, atol=1e-6)


def test_bank_members_can_leave_themselves_out(bank: np.ndarray) -> None:
    detector = KNN(k=3).fit(features=bank)
    own = list(range(len(bank)))
    assert detector.score(features=bank, exclude_self=True).tolist() == pytest.approx(
        slow_knn(bank, bank, 3, own), abs=2e-6
    )
    rows = torch.tensor([7, 0, 39])
    assert detector.score(features=bank[rows], exclude_self=rows).tolist() == pytest.approx(
        slow_knn(bank, bank[rows], 3, rows.tolist()), abs=2e-6
    )
    assert not torch.equal(detector.score(features=bank), detector.score(features=bank, exclude_self=True))


def test_self_is_left_out_once_when_there_are_copies(bank: np.ndarray) -> None:
    """Every row three times: the nearest other one is at distance 0, and self need not come first in the list."""
    copies = np.repeat(bank, 3, axis=0)
    detector = KNN(k=2).fit(features=copies)
    assert detector.score(features=copies, exclude_self=True).max() < 1e-6
    _, where = detector.neighbors(copies, 2, exclude_self=True)
    assert not (where == torch.arange(len(copies)).unsqueeze(1)).any()
    third = KNN(k=3).fit(features=copies).score(features=copies, exclude_self=True)
    assert third.tolist() == pytest.approx(slow_knn(copies, copies, 3, list(range(len(copies)))), abs=2e-6)


def test_neighbors_explain_the_score(bank: np.ndarray, queries: np.ndarray) -> None:
    detector = KNN(k=6).fit(features=bank)
    found, where = detector.neighbors(queries)
    assert found.shape == where.shape == (9, 6)
    assert torch.equal(found[:, -1], detector.score(features=queries))
    assert (found.diff(dim=1) >= 0).all()
    unit = queries[0] / np.linalg.norm(queries[0])
    assert found[0].tolist() == pytest.approx(
        [float(np.linalg.norm(unit - detector.bank_[i].numpy())) for i in where[0]], abs=1e-6
    )
    assert detector.neighbors(queries, 2)[1].tolist() == where[:, :2].tolist()


def test_scale_of_features_does_not_matter_and_k_does(bank: np.ndarray, queries: np.ndarray) -> None:
    detector = KNN(k=5).fit(features=bank)
    assert torch.allclose(detector.score(features=queries * 7), detector.score(features=queries), atol=1e-6)
    assert (KNN(k=6).fit(features=bank).score(features=queries) > detector.score(features=queries)).all()


def test_bank_grows_batch_by_batch_also_after_loading(bank: np.ndarray, queries: np.ndarray) -> None:
    whole = KNN(k=5).fit(features=bank)
    grown = KNN(k=5)
    grown.partial_fit(features=bank[:3]).partial_fit(features=bank[3:20])
    loaded = KNN(k=5).load_state(grown.state()).partial_fit(features=bank[20:])
    for detector in (loaded, grown.partial_fit(features=bank[20:])):
        assert torch.equal(detector.score(features=queries), whole.score(features=queries))
        assert torch.equal(detector.bank_, whole.bank_)


def test_a_bank_too_small_for_k_can_still_grow(bank: np.ndarray, queries: np.ndarray) -> None:
    detector = KNN(k=5).partial_fit(features=bank[:2])
    with pytest.raises(InputError, match="at least 5 samples, got 2"):
        detector.score(features=queries)
    detector.partial_fit(features=bank[2:])
    assert torch.equal(detector.score(features=queries), KNN(k=5).fit(features=bank).score(features=queries))


def test_a_bank_has_one_width(bank: np.ndarray) -> None:
    detector = KNN(k=1).partial_fit(features=bank[:3, :4])
    with pytest.raises(InputError, match=r"width 4.*5"):
        detector.partial_fit(features=bank[:3, :5])
    assert detector.state()["bank_"].shape == (3, 4)
    with pytest.raises(InputError, match=r"width 4.*5"):
        KNN(k=1).load_state(detector.state()).partial_fit(features=bank[:, :5])


def test_the_usual_k_is_half_the_smallest_class() -> None:
    assert usual_k(torch.tensor([0] * 8 + [2] * 6)) == 3
    assert usual_k(torch.tensor([0] * 8 + [-1] * 2)) == 4  # -1 is no class
    assert usual_k(torch.tensor([0] * 400)) == 50
    assert usual_k(torch.tensor([-1, -1])) == usual_k(torch.tensor([], dtype=torch.int64)) == 50  # the paper's
    assert usual_k(torch.tensor([-1]), most=7) == 7


def test_zero_features_have_a_score() -> None:
    detector = KNN(k=1).fit(features=torch.eye(3))
    assert detector.score(features=torch.zeros(2, 3)).tolist() == pytest.approx([1.0, 1.0])


def test_empty_queries(bank: np.ndarray) -> None:
    detector = KNN(k=2).fit(features=bank)
    assert detector.score(features=torch.empty(0, 6)).shape == (0,)
    assert distances(torch.empty(0, 6), detector.bank_, torch.empty(0, 2, dtype=torch.int64)).shape == (0, 2)


def test_errors_say_what_to_do(bank: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"k = 41 .*at least 41 .*got 40"):
        KNN(k=41).fit(features=bank)
    detector = KNN(k=40).fit(features=bank)
    with pytest.raises(InputError, match=r"41 neighbours .*bank of 40"):
        detector.score(features=bank, exclude_self=True)
    with pytest.raises(InputError, match="width 6, got width 5"):
        detector.score(features=bank[:, :5])
    with pytest.raises(InputError, match=r"exclude_self needs .*bank row .*3"):
        KNN(k=2).fit(features=bank).score(features=bank[:3], exclude_self=True)
    with pytest.raises(InputError, match="k must be at least 1"):
        KNN(k=0)
    with pytest.raises(InputError, match="width"):
        knn_score(torch.ones(2, 3), torch.ones(4, 5), 1)


@pytest.mark.cuda
def test_cuda_agrees_with_cpu_whatever_the_matmul_precision(rng: np.random.Generator) -> None:
    bank = torch.from_numpy(rng.normal(size=(2000, 64)).astype(np.float32))
    queries = torch.from_numpy(rng.normal(size=(300, 64)).astype(np.float32))
    detector = KNN(k=10).fit(features=bank)
    expected = detector.score(features=queries)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")  # TF32, as a training script may have set
    try:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = detector.to("cuda").score(features=queries.cuda())
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert found.is_cuda
    assert torch.allclose(found.cpu(), expected, atol=2e-6)
