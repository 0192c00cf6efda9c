"""Loaders of ready batches, as other libraries have them: the same numbers as the images themselves, in any order."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from wildspec.data import Preprocess
from wildspec.detectors import ODIN, build_detector
from wildspec.errors import InputError
from wildspec.evaluation import collect, evaluate, evaluate_detectors, score_all
from wildspec.models import Classifier, build_model

PREPROCESS = Preprocess(size=8)


@pytest.fixture(scope="module")
def model() -> Classifier:
    torch.manual_seed(0)
    return build_model("small", 3, size=8).eval()


def drawn(n: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, 3, 8, 8), dtype=torch.uint8, generator=generator), torch.arange(n) % 3


def loader(n: int, seed: int, shuffle: bool = False) -> DataLoader[tuple[Tensor, ...]]:
    images, labels = drawn(n, seed)
    generator = torch.Generator().manual_seed(9)
    return DataLoader(TensorDataset(PREPROCESS(images), labels), batch_size=7, shuffle=shuffle, generator=generator)


def test_the_same_features_as_of_the_images(model: Classifier) -> None:
    images, labels = drawn(40, 1)
    plain, loaded = collect(model, images, PREPROCESS), collect(model, loader(40, 1))
    assert torch.allclose(loaded.features, plain.features, atol=1e-6)
    assert torch.allclose(loaded.logits, plain.logits, atol=1e-6)
    assert plain.labels is None
    assert loaded.labels is not None
    assert torch.equal(loaded.labels, labels)
    bare = collect(model, [PREPROCESS(images[:25]), PREPROCESS(images[25:])])  # a list of batches without labels
    assert torch.allclose(bare.features, plain.features, atol=1e-6)
    assert bare.labels is None
    energy = {"energy": build_detector("energy")}
    ready = score_all(model, loader(40, 1), energy)["energy"]
    assert torch.allclose(ready, score_all(model, images, energy, preprocess=PREPROCESS)["energy"], atol=1e-5)


def test_one_call_for_all_detectors_also_where_loaders_shuffle(model: Classifier) -> None:
    sets = {"train": (60, 1), "id": (40, 2), "covariate": (30, 3), "semantic": (20, 4)}
    held_out = (25, 5)
    detectors = {
        name: build_detector(name) for name in ("energy", "mahalanobis", "vim", "react")
    } | {"odin": ODIN(std=PREPROCESS.std), "knn": build_detector("knn", k=5)}
    plain = evaluate_detectors(
        model, detectors=detectors, preprocess=PREPROCESS, calibration=drawn(*held_out),
        **{name: drawn(*of) for name, of in sets.items()},
    )  # fmt: skip
    shuffled = evaluate_detectors(
        model, detectors=detectors, calibration=loader(*held_out), **{name: loader(*of, True) for name, of in sets.items()}
    )
    for name in detectors:
        one, other = (found[name].evaluation for found in (plain, shuffled))
        assert one is not None
        assert other is not None
        for metric, value in one.to_json().items():
            if isinstance(value, float):
                assert other.to_json()[metric] == pytest.approx(value, rel=1e-5, abs=1e-5), (name, metric)


def test_what_a_loader_must_give_is_told(model: Classifier) -> None:
    images, labels = drawn(20, 1)
    x = PREPROCESS(images)
    with pytest.raises(InputError, match=r"id needs labels: .*\(images, labels\)"):
        evaluate(model, id=[x], semantic=[x], detector="energy")
    with pytest.raises(InputError, match=r"20 images .*8 labels"):
        collect(model, [(x[:8], labels[:8]), (x[8:], None)])
    with pytest.raises(InputError, match="got dict; of dictionaries"):
        collect(model, [{"data": x, "label": labels}])
    with pytest.raises(InputError, match=r"got a tensor \(3, 8, 8\)"):
        collect(model, list(x))
    with pytest.raises(InputError, match=r"uint8 images .*preprocess="):
        collect(model, images)
    with pytest.raises(InputError, match="loader of batches, got ndarray"):
        collect(model, x.numpy())
    with pytest.raises(InputError, match="there are no images"):
        collect(model, [])
    with pytest.raises(InputError, match="wrap_classifier"):
        collect(nn.Flatten(), [x])


def test_knn_takes_the_same_k_of_a_loader_as_of_the_images(model: Classifier) -> None:
    """Half of the smallest of three classes of 20 is 10; the labels of a loader are known after its pass only."""
    plain = evaluate(model, id=drawn(40, 2), train=drawn(60, 1), semantic=drawn(20, 4), preprocess=PREPROCESS)
    loaded = evaluate(model, id=loader(40, 2), train=loader(60, 1, True), semantic=loader(20, 4))
    by_hand = evaluate(
        model, id=drawn(40, 2), train=drawn(60, 1), semantic=drawn(20, 4), preprocess=PREPROCESS, detector="knn:k=10"
    )
    for found in (plain, loaded):
        assert found.threshold == pytest.approx(by_hand.threshold, rel=1e-5)
        assert found.auroc == pytest.approx(by_hand.auroc)


def test_a_wrong_name_is_told_before_the_pass() -> None:
    with pytest.raises(InputError, match="unknown detector"):
        evaluate(nn.Flatten(), id=loader(4, 1), train=loader(4, 1), detector="nothing")  # no network: no pass took place
