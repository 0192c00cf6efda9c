"""Samples as users hold them: every kind of array, no samples at all, rows of zeros, classes far apart."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from detector_samples import Samples  # type: ignore[import-not-found]

from wildspec.detectors import KNN, REGISTRY, RMDS, Detector, Mahalanobis, MahalanobisEnsemble, WildKNN, build_detector
from wildspec.errors import InputError, InputTypeError
from wildspec.graph.nearest import search_nearest

KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "reversed": lambda a: a[::-1].copy()[::-1],
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "transposed": lambda a: np.asfortranarray(a),
    "lists": lambda a: a.tolist(),
    "data frame": lambda a: getattr(pytest.importorskip("pandas"), "DataFrame" if a.ndim == 2 else "Series")(a),
}


@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_array_gives_the_same_scores(kind: str, train: Samples, test: Samples) -> None:
    made = KINDS[kind]
    expected = Mahalanobis().fit(**train.for_fit()).score(features=test.features)
    features, labels = made(train.features.numpy()), made(train.labels.numpy())
    found = Mahalanobis().fit(features=features, labels=labels).score(features=made(test.features.numpy()))
    torch.testing.assert_close(found, expected)
    narrow = labels if isinstance(labels, list) else np.asarray(labels).astype(np.int16)
    torch.testing.assert_close(Mahalanobis().fit(features=features, labels=narrow).score(features=test.features), expected)


@pytest.mark.parametrize("wrong", ["knn.npy", [["a"]], [[1.0], [1.0, 2.0]], None, np.array([[None]])])
def test_what_is_no_array_of_numbers_is_one_line(wrong: Any, train: Samples) -> None:
    if wrong is None:
        wrong = {"features": 1}
    with pytest.raises(InputTypeError, match=r"features must be (floating|numbers)") as caught:
        KNN(k=1).fit(features=wrong)
    assert "\n" not in str(caught.value)


# -- no samples --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [name for name in sorted(REGISTRY) if REGISTRY[name].streams])
def test_an_empty_batch_adds_nothing(name: str, train: Samples, test: Samples) -> None:
    nothing = {key: value if key == "model" else value[:0] for key, value in train.for_fit().items()}
    arguments = {"k": 5} if name == "knn" else {}
    detector = build_detector(name, **arguments).partial_fit(**nothing)
    with pytest.raises(InputError, match="not fitted"):
        detector.score(**test.for_score())
    detector.partial_fit(**train.for_fit()).partial_fit(**nothing)
    expected = build_detector(name, **arguments).fit(**train.for_fit()).score(**test.for_score())
    torch.testing.assert_close(detector.score(**test.for_score()), expected)


def test_several_layers_learn_batch_by_batch_too(train: Samples, test: Samples) -> None:
    whole = MahalanobisEnsemble(sizes=(5, 7)).fit(features=train.features, labels=train.labels)
    grown = MahalanobisEnsemble(sizes=(5, 7))
    for rows in (slice(0, 30), slice(30, 31), slice(31, None)):
        grown.partial_fit(features=train.features[rows], labels=train.labels[rows])
    torch.testing.assert_close(grown.score(features=test.features), whole.score(features=test.features))
    loaded = MahalanobisEnsemble(sizes=(5, 7)).load_state(whole.state())
    with pytest.raises(InputError, match="loaded without its sums"):
        loaded.partial_fit(features=train.features, labels=train.labels)


# -- rows of zeros -----------------------------------------------------------------------------------------------------
def slow_distances(queries: np.ndarray, bank: np.ndarray) -> np.ndarray:
    """All distances between normalized rows, zero rows left as they are."""
    q, b = (a / np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-12) for a in (queries, bank))
    return np.linalg.norm(q[:, None] - b[None], axis=2)


@pytest.mark.parametrize("faiss", [True, False])
@pytest.mark.parametrize("k", [1, 4, 9])
def test_zero_rows_are_as_near_as_they_are(k: int, faiss: bool, rng: np.random.Generator, monkeypatch: Any) -> None:
    """A row without activation is at distance 1 from every other, nearer than rows that point away; inner products alone
    would put it at a right angle, at 1.41."""
    if not faiss:
        monkeypatch.setitem(sys.modules, "faiss", None)
    bank, queries = rng.normal(size=(12, 3)), rng.normal(size=(40, 3))
    bank[[2, 7, 8]], queries[[5, 6]] = 0, 0
    truth = np.sort(slow_distances(queries, bank), axis=1)
    detector = KNN(k=k).fit(features=torch.from_numpy(bank).float())
    found = detector.score(features=torch.from_numpy(queries).float())
    np.testing.assert_allclose(found.numpy(), truth[:, k - 1], atol=1e-6)
    near = detector.neighbors(torch.from_numpy(queries).float())[0]
    np.testing.assert_allclose(near.numpy(), truth[:, :k], atol=1e-6)
    own = slow_distances(bank, bank)
    np.fill_diagonal(own, np.inf)
    left_out = detector.score(features=torch.from_numpy(bank).float(), exclude_self=True)
    np.testing.assert_allclose(left_out.numpy(), np.sort(own, axis=1)[:, k - 1], atol=1e-6)


def test_a_bank_without_zero_rows_is_searched_once(rng: np.random.Generator, monkeypatch: Any) -> None:
    calls: list[int] = []
    real = torch.Tensor.any

    def counted(self: torch.Tensor, *given: Any, **named: Any) -> torch.Tensor:
        calls.append(self.ndim)
        return real(self, *given, **named)

    monkeypatch.setattr(torch.Tensor, "any", counted)
    bank = torch.nn.functional.normalize(torch.from_numpy(rng.random((30, 4))).float(), dim=1)  # all within a right angle
    _, where = search_nearest(bank[:5], bank, 3)
    assert 2 not in calls  # nobody is far: the bank is not looked through
    assert where[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_wild_samples_without_activation_are_attributed_by_their_distance(rng: np.random.Generator) -> None:
    known = torch.from_numpy(np.r_[np.zeros((6, 3)), rng.normal(size=(6, 3)) + np.array([9, 0, 0])]).float()
    wild = torch.zeros(12, 3)
    wild[:6] = torch.tensor([0.0, -5.0, 0.1])
    labels = torch.tensor([0] * 6 + [1] * 6 + [-1] * 12)
    found = WildKNN(k=3).fit(features=torch.cat([known, wild]), labels=labels)
    assert found.attribution_ is not None
    np.testing.assert_allclose(found.attribution_.distance.numpy(), [1.0] * 6 + [0.0] * 6, atol=1e-6)
    assert found.attribution_.label.tolist() == [-1] * 6 + [0] * 6
    assert found.wild_scores_ is not None
    np.testing.assert_allclose(found.wild_scores_.numpy(), [1.0] * 6 + [0.0] * 6, atol=1e-6)


# -- classes far apart -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [Mahalanobis, RMDS])
def test_classes_far_apart_do_not_cost_digits(kind: type[Detector], rng: np.random.Generator) -> None:
    """The features of a network trained to the end: tight classes, far from each other."""
    means = rng.normal(size=(6, 16)) * 2000
    labels = np.arange(600) % 6
    features = means[labels] + rng.normal(size=(600, 16))
    queries = means[np.arange(60) % 6] + rng.normal(size=(60, 16))
    centres = np.stack([features[labels == c].mean(axis=0) for c in range(6)])
    centred = features - centres[labels]
    inverse = np.linalg.inv(centred.T @ centred / len(features))
    away = queries[:, None] - centres
    expected = np.einsum("ncd,de,nce->nc", away, inverse, away).min(axis=1)
    if kind is RMDS:
        whole = queries - features.mean(axis=0)
        expected = expected - np.einsum("nd,de,ne->n", whole, np.linalg.inv(np.cov(features.T, bias=True)), whole)
    detector = kind().fit(features=torch.from_numpy(features).float(), labels=torch.from_numpy(labels))
    found = detector.score(features=torch.from_numpy(queries).float()).numpy()
    np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.05)


# -- numbers out of range ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["ash", "scale"])
def test_flat_activations_and_a_high_percentile_do_not_overflow(name: str) -> None:
    """The factor is exp(sum of all / sum of the largest), up to exp(1 / share kept): exp(128) leaves single precision."""
    network = torch.nn.Module()
    network.head = torch.nn.Linear(256, 3)
    features = 1 + 0.01 * torch.rand(7, 256, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float32, torch.float64):
        scores = build_detector(name, percent=99.4).fit(model=network).score(features=features.to(dtype))
        assert torch.isfinite(scores).all()


@pytest.mark.parametrize("name", ["mahalanobis", "rmds", "wild_knn"])
def test_labels_that_are_no_class_numbers_do_not_fill_the_memory(name: str, train: Samples) -> None:
    with pytest.raises(InputError, match=r"class numbers from 0.*got 100000000.*return_inverse"):
        build_detector(name).fit(features=train.features, labels=train.labels + 10**10 + 7)


# -- unlabelled samples ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [Mahalanobis, RMDS])
@pytest.mark.parametrize("together", [True, False])
def test_unlabelled_samples_change_nothing_wherever_they_lie(kind: type[Detector], together: bool, train: Samples,
                                                             test: Samples) -> None:  # fmt: skip
    """Moments about the mean of samples that do not count would lose the covariance of those that do."""
    expected = kind().fit(features=train.features, labels=train.labels)
    far, nobody = torch.full((30, train.features.shape[1]), 1e9), torch.full((30,), -1)
    found = kind()
    if together:
        found.partial_fit(features=torch.cat([far, train.features]), labels=torch.cat([nobody, train.labels]))
    else:
        found.partial_fit(features=far, labels=nobody).partial_fit(features=train.features, labels=train.labels)
    torch.testing.assert_close(found.score(features=test.features), expected.score(features=test.features))
    with pytest.raises(InputError, match="width"):
        kind().partial_fit(features=far, labels=nobody).partial_fit(features=train.features[:, 1:], labels=train.labels)


# -- fits that fail ----------------------------------------------------------------------------------------------------
def test_a_fit_that_fails_keeps_nothing(train: Samples) -> None:
    detector = KNN(5)
    with pytest.raises(InputError, match="at least 5"):
        detector.fit(features=train.features[:3])
    assert not detector.fitted
    detector.partial_fit(features=train.features[:6])
    assert detector.state()["bank_"].shape == (6, train.features.shape[1])
    layers = MahalanobisEnsemble(sizes=(5, 7))
    with pytest.raises(InputError, match="no labelled sample"):
        layers.fit(features=train.features, labels=torch.full_like(train.labels, -1))
    assert not layers.fitted
