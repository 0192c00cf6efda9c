"""`evaluate` in one call against the same steps done by hand."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from wildspec.data.images import ImageArrays
from wildspec.data.preprocess import Preprocess
from wildspec.detectors import KNN
from wildspec.errors import InputError
from wildspec.evaluation import calibrate, collect, evaluate, evaluate_detectors, evaluate_scores


@pytest.fixture
def sets(rng: np.random.Generator) -> dict[str, ImageArrays]:
    def make(n: int, low: int, high: int) -> ImageArrays:
        pixels = torch.from_numpy(rng.integers(low, high, size=(n, 3, 6, 6), dtype=np.uint8))
        return ImageArrays(pixels, labels=torch.from_numpy(rng.integers(0, 3, n)), classes=("a", "b", "c"))

    return {
        "train": make(60, 0, 160),
        "id_test": make(40, 0, 160),
        "covariate_test": make(30, 0, 220),
        "semantic_test": make(25, 60, 255),
        "calibration": make(50, 0, 160),
    }


def scores(model: nn.Module, source: ImageArrays, bank: Tensor, preprocess: Preprocess, k: int) -> np.ndarray:
    """k-th distance in float64, the slow way."""
    f = collect(model, source, preprocess).features.double()
    f, b = f / f.norm(dim=1, keepdim=True), bank.double() / bank.double().norm(dim=1, keepdim=True)
    return np.sort(torch.cdist(f, b, compute_mode="donot_use_mm_for_euclid_dist").numpy(), axis=1)[:, k - 1]


def test_evaluate_is_the_steps_by_hand(
    model: nn.Module, sets: dict[str, ImageArrays], preprocess: Preprocess
) -> None:
    result = evaluate(model, **sets, preprocess=preprocess, detector=KNN(k=5), alpha=0.1, batch_size=16)
    bank = collect(model, sets["train"], preprocess).features
    found = {name: scores(model, source, bank, preprocess, 5) for name, source in sets.items()}
    predictions = {name: collect(model, source, preprocess).predictions for name, source in sets.items()}
    expected = evaluate_scores(
        id_scores=found["id_test"], id_pred=predictions["id_test"], id_labels=sets["id_test"].labels,
        covariate_scores=found["covariate_test"], covariate_pred=predictions["covariate_test"],
        covariate_labels=sets["covariate_test"].labels, semantic_scores=found["semantic_test"],
        threshold=calibrate(found["calibration"], 0.1).threshold,
    )  # fmt: skip
    assert result.threshold_from == "calibrated"
    for name, value in expected.to_json().items():
        assert getattr(result, name) == (value if isinstance(value, str) else pytest.approx(value, abs=1e-5)), name


def test_default_is_knn_50_without_calibration(
    model: nn.Module, sets: dict[str, ImageArrays], preprocess: Preprocess
) -> None:
    sets.pop("calibration")
    sets_without = sets | {"train": sets["train"].images}  # KNN needs no labels
    result = evaluate(model, **sets_without, preprocess=preprocess)
    again = evaluate(model, **sets, preprocess=preprocess, detector=KNN(k=50))
    assert result == again
    assert result.threshold_from == "id_95"


def test_several_detectors_and_plain_pairs(
    model: nn.Module, sets: dict[str, ImageArrays], preprocess: Preprocess
) -> None:
    pairs = {name: (source.images, source.labels) for name, source in sets.items() if name != "semantic_test"}
    unknown = sets["semantic_test"].images
    several = evaluate_detectors(
        model, **pairs, semantic_test=unknown, preprocess=preprocess, detectors={"a": KNN(k=1), "b": KNN(k=20)}
    )
    for key, k in (("a", 1), ("b", 20)):
        assert several[key] == evaluate(model, **sets, preprocess=preprocess, detector=KNN(k=k))
    assert several["a"] != several["b"]


def test_a_ready_calibration_serves_one_detector(
    model: nn.Module, sets: dict[str, ImageArrays], preprocess: Preprocess
) -> None:
    ready = calibrate(np.linspace(0, 1, 100))
    sets.pop("calibration")
    result = evaluate(model, **sets, preprocess=preprocess, detector=KNN(k=5), calibration=ready)
    assert result.threshold == ready.threshold
    with pytest.raises(InputError, match="belongs to one detector"):
        evaluate_detectors(
            model, **sets, preprocess=preprocess, detectors={"a": KNN(1), "b": KNN(2)}, calibration=ready
        )


def test_missing_labels_are_named(model: nn.Module, sets: dict[str, ImageArrays], preprocess: Preprocess) -> None:
    with pytest.raises(InputError, match="id_test needs labels"):
        evaluate(model, **(sets | {"id_test": sets["id_test"].images}), preprocess=preprocess, detector=KNN(k=5))
    wrong = (sets["id_test"].images, torch.zeros(3))
    with pytest.raises(InputError, match=r"id_test has 40 images but labels of shape \(3,\)"):
        evaluate(model, **(sets | {"id_test": wrong}), preprocess=preprocess, detector=KNN(k=5))
