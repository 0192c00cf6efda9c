"""`evaluate` in one call against the same steps done by hand."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from wildspec.data.images import ImageArrays
from wildspec.data.preprocess import Preprocess
from wildspec.detectors import KNN, ODIN, Energy, Mahalanobis, WildKNN
from wildspec.errors import InputError
from wildspec.evaluation import calibrate, collect, decide, evaluate, evaluate_detectors, evaluate_scores

Sets = dict[str, ImageArrays]


@pytest.fixture
def sets(rng: np.random.Generator) -> Sets:
    def make(n: int, low: int, high: int) -> ImageArrays:
        pixels = torch.from_numpy(rng.integers(low, high, size=(n, 3, 6, 6), dtype=np.uint8))
        return ImageArrays(pixels, labels=torch.from_numpy(rng.integers(0, 3, n)), classes=("a", "b", "c"))

    return {
        "train": make(60, 0, 160),
        "id": make(40, 0, 160),
        "covariate": make(30, 0, 220),
        "semantic": make(25, 60, 255),
        "calibration": make(50, 0, 160),
    }


def kth(model: nn.Module, source: Any, bank: Tensor, preprocess: Preprocess, k: int) -> np.ndarray:
    """k-th distance in float64, the slow way."""
    f = collect(model, source, preprocess).features.double()
    f, b = f / f.norm(dim=1, keepdim=True), bank.double() / bank.double().norm(dim=1, keepdim=True)
    return np.sort(torch.cdist(f, b, compute_mode="donot_use_mm_for_euclid_dist").numpy(), axis=1)[:, k - 1]


def test_evaluate_is_the_steps_by_hand(model: nn.Module, sets: Sets, preprocess: Preprocess) -> None:
    result = evaluate(model, **sets, preprocess=preprocess, detector=KNN(k=5), alpha=0.1, batch_size=16)
    bank = collect(model, sets["train"], preprocess).features
    found = {name: kth(model, source, bank, preprocess, 5) for name, source in sets.items()}
    predictions = {name: collect(model, source, preprocess).predictions for name, source in sets.items()}
    expected = evaluate_scores(
        id_scores=found["id"], id_pred=predictions["id"], id_labels=sets["id"].labels,
        covariate_scores=found["covariate"], covariate_pred=predictions["covariate"],
        covariate_labels=sets["covariate"].labels, semantic_scores=found["semantic"],
        threshold=calibrate(found["calibration"], 0.1).threshold,
    )  # fmt: skip
    assert result.threshold_from == "calibrated"
    for name, value in expected.to_json().items():
        assert getattr(result, name) == (value if isinstance(value, str) else pytest.approx(value, abs=1e-5)), name


def test_default_is_knn_with_half_the_smallest_class(model: nn.Module, sets: Sets, preprocess: Preprocess) -> None:
    sets.pop("calibration")
    half = int(torch.bincount(sets["train"].labels).min()) // 2
    result = evaluate(model, **sets, preprocess=preprocess)
    assert result == evaluate(model, **sets, preprocess=preprocess, detector=KNN(k=half))
    assert result.threshold_from == "id_95"
    unlabelled = {**sets, "train": sets["train"].images}  # KNN needs no labels; k is then the paper's
    assert evaluate(model, **unlabelled, preprocess=preprocess) == evaluate(
        model, **sets, preprocess=preprocess, detector="knn:k=50"
    )
    nobody: Any = {**sets, "train": (sets["train"].images, torch.full((60,), -1))}  # the same without a single label
    assert evaluate(model, **nobody, preprocess=preprocess) == evaluate(model, **unlabelled, preprocess=preprocess)


def test_several_detectors_and_plain_pairs(model: nn.Module, sets: Sets, preprocess: Preprocess) -> None:
    pairs: dict[str, Any] = {name: (source.images, source.labels) for name, source in sets.items()}
    pairs["semantic"] = sets["semantic"].images
    detectors = {"a": KNN(k=1), "b": KNN(k=20), "odin": ODIN()}
    several = evaluate_detectors(model, **pairs, preprocess=preprocess, detectors=detectors)
    for key, alone in (("a", "knn:k=1"), ("b", "knn:k=20"), ("odin", "odin")):
        assert several[key].evaluation == evaluate(model, **sets, preprocess=preprocess, detector=alone)
        assert several[key].refused is None
    assert several["a"].evaluation != several["b"].evaluation


def test_every_set_goes_through_the_network_once(model: nn.Module, sets: Sets, preprocess: Preprocess) -> None:
    images = 0
    original = model.features

    def counted(x: Tensor) -> Tensor:
        nonlocal images
        images += len(x)
        return original(x)  # type: ignore[operator]

    model.features = counted  # type: ignore[assignment]
    evaluate_detectors(model, **sets, preprocess=preprocess, detectors=("energy", "msp", "knn:k=3", "vim", "mahalanobis"))
    assert images == sum(map(len, sets.values()))
    passed = {name: collect(model, source, preprocess) for name, source in sets.items()}
    images = 0
    evaluate_detectors(model, **passed, detectors=("energy", "knn:k=3"))  # what was passed before is not passed again
    assert images == 0


def test_a_detector_that_cannot_be_used_leaves_the_others_alone(
    model: nn.Module, sets: Sets, preprocess: Preprocess
) -> None:
    found = evaluate_detectors(model, **sets, preprocess=preprocess, detectors=("energy", "knn:k=400"))
    assert "400" in (found["knn:k=400"].refused or "")
    assert found["knn:k=400"].evaluation is None
    assert found["energy"].evaluation == evaluate(model, **sets, preprocess=preprocess, detector=Energy())
    with pytest.raises(InputError, match="400"):
        evaluate(model, **sets, preprocess=preprocess, detector="knn:k=400")


def test_one_that_fails_in_the_pass_leaves_the_others_alone(
    model: nn.Module, sets: Sets, preprocess: Preprocess
) -> None:
    class Broken(ODIN):
        def _score(self, **given: Any) -> Tensor:
            raise InputError("broken on purpose")

    found = evaluate_detectors(model, **sets, preprocess=preprocess, detectors={"odin": ODIN(), "broken": Broken()})
    assert found["broken"].refused == "broken on purpose"
    assert found["odin"].evaluation is not None


def test_wild_samples_reach_the_detector_that_uses_them(model: nn.Module, sets: Sets, preprocess: Preprocess) -> None:
    wild = sets["covariate"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = evaluate(model, **sets, wild=wild, preprocess=preprocess, detector="wild_knn")
    train, pool = (collect(model, source, preprocess) for source in (sets["train"], wild))
    detector = WildKNN().fit(
        features=torch.cat([train.features, pool.features]),
        labels=torch.cat([sets["train"].labels, torch.full((len(pool),), -1)]),
    )
    scores = [detector.score(features=collect(model, sets[name], preprocess).features) for name in ("id", "semantic")]
    expected = evaluate_scores(
        id_scores=scores[0], id_pred=torch.zeros(40, dtype=torch.int64), id_labels=sets["id"].labels,
        semantic_scores=scores[1],
    )  # fmt: skip
    assert found.auroc == pytest.approx(expected.auroc, abs=1e-6)
    with pytest.warns(UserWarning, match="wild_knn uses wild samples"):
        without = evaluate(model, **sets, preprocess=preprocess, detector="wild_knn")
    assert without.auroc != found.auroc


@pytest.mark.parametrize("kind", ["odin", "mahalanobis"])
def test_a_decision_scores_new_images_with_the_step_it_was_calibrated_with(
    kind: str, model: nn.Module, sets: Sets, preprocess: Preprocess
) -> None:
    """Oracle: the same detector told beforehand what pixels were divided by."""
    seen = {name: collect(model, source, preprocess) for name, source in sets.items()}

    def made(std: Any) -> Any:
        return ODIN(10.0, 0.05, std) if kind == "odin" else Mahalanobis(epsilon=0.05, std=std)

    told = decide(made(preprocess.std), seen["train"], None, seen["calibration"], alpha=0.1)
    fresh = {"inputs": preprocess(sets["semantic"].images), "model": model}
    expected = told.score(**fresh)
    left_open = made(None)
    assert torch.equal(decide(left_open, seen["train"], None, seen["calibration"], alpha=0.1).score(**fresh), expected)
    assert left_open.std is None
    plain = {"train": seen["train"], "id": seen["id"]}
    for given in ({**sets, "preprocess": preprocess}, plain):
        found = evaluate_detectors(model, **given, detectors={"it": made(None)})["it"].detector
        assert torch.equal(found.score(**fresh), expected)
    other = made((1.0, 1.0, 1.0)).fit(features=seen["train"].features, labels=sets["train"].labels)
    assert not torch.allclose(other.score(**fresh), expected)


def test_a_ready_calibration_serves_one_detector(model: nn.Module, sets: Sets, preprocess: Preprocess) -> None:
    ready = calibrate(np.linspace(0, 1, 100))
    sets.pop("calibration")
    result = evaluate(model, **sets, preprocess=preprocess, detector=KNN(k=5), calibration=ready)
    assert result.threshold == ready.threshold
    with pytest.raises(InputError, match="belongs to one detector"):
        evaluate_detectors(
            model, **sets, preprocess=preprocess, detectors={"a": KNN(1), "b": KNN(2)}, calibration=ready
        )


def test_missing_labels_are_named(model: nn.Module, sets: Sets, preprocess: Preprocess) -> None:
    with pytest.raises(InputError, match="id needs labels"):
        evaluate(model, **{**sets, "id": sets["id"].images}, preprocess=preprocess)  # type: ignore[arg-type]
    wrong: Any = (sets["id"].images, torch.zeros(3))
    with pytest.raises(InputError, match=r"40 images but labels of shape \(3,\)"):
        evaluate(model, **{**sets, "id": wrong}, preprocess=preprocess)
    bare: Any = sets["train"].images
    with pytest.raises(InputError, match="mahalanobis learns from labels"):
        evaluate(model, **{**sets, "train": bare}, preprocess=preprocess, detector=Mahalanobis())
    sets.pop("train")
    with pytest.raises(InputError, match="give train="):
        evaluate(model, **sets, preprocess=preprocess, detector=Mahalanobis())
    assert evaluate(model, **sets, preprocess=preprocess, detector="energy").auroc is not None  # learns nothing
