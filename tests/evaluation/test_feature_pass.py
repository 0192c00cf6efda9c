"""One pass of the network: right numbers, right mode, any batch size, any kind of image set."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from wildspec.data.images import ImageArrays
from wildspec.data.preprocess import Preprocess
from wildspec.detectors import KNN, ODIN, Energy
from wildspec.errors import InputError
from wildspec.evaluation import collect, score_all
from wildspec.evaluation.features import with_pixel_scale


def by_hand(model: nn.Module, images: Tensor, preprocess: Preprocess) -> tuple[Tensor, Tensor]:
    """One image at a time in evaluation mode."""
    model.eval()
    with torch.no_grad():
        features = torch.cat([model.features(preprocess(image[None])) for image in images])  # type: ignore[operator]
    return features, features @ model.head.weight.T + model.head.bias  # type: ignore[union-attr,operator]


@pytest.mark.parametrize("batch_size", [1, 7, 512])
def test_collect_is_one_image_at_a_time(
    model: nn.Module, images: Tensor, preprocess: Preprocess, batch_size: int
) -> None:
    outputs = collect(model, images, preprocess, batch_size=batch_size)
    features, logits = by_hand(model, images, preprocess)
    assert torch.allclose(outputs.features, features, atol=1e-6)
    assert torch.allclose(outputs.logits, logits, atol=1e-6)
    assert torch.equal(outputs.predictions, logits.argmax(1))
    assert len(outputs) == 23
    assert not outputs.features.requires_grad
    assert not outputs.features.is_inference()  # usable in later training code


@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("kind", ["images", "one batch", "two batches"])
def test_features_can_be_learned_from(
    model: nn.Module, images: Tensor, preprocess: Preprocess, kind: str, around: bool
) -> None:
    """A head trained on them gets a gradient: that of the mean of w . f is the mean of f."""
    ready, labels = preprocess(images), torch.arange(23) % 3
    batches = [(ready[:11], labels[:11]), (ready[11:], labels[11:])] if kind == "two batches" else [(ready, labels)]
    with torch.inference_mode(around):
        outputs = collect(model, images, preprocess) if kind == "images" else collect(model, batches)
    for rows in (outputs.features, outputs.logits):
        weight = torch.zeros(rows.shape[1], requires_grad=True)
        (rows @ weight).mean().backward()
        assert weight.grad is not None
        assert torch.allclose(weight.grad, rows.mean(0), atol=1e-6)
    if outputs.labels is not None:
        assert torch.equal(outputs.labels.add_(1), labels + 1)  # nor is it forbidden to number classes anew


def test_mode_of_every_module_comes_back(model: nn.Module, images: Tensor, preprocess: Preprocess) -> None:
    model.train()
    model.norm.eval()  # type: ignore[union-attr,operator]  # a frozen batch norm
    before = model.norm.running_mean.clone()  # type: ignore[union-attr,operator]
    first = collect(model, images, preprocess)
    assert model.training
    assert not model.norm.training  # type: ignore[union-attr]
    assert model.dropout.training  # type: ignore[union-attr]
    assert torch.equal(model.norm.running_mean, before)  # type: ignore[union-attr]
    assert torch.equal(collect(model, images, preprocess).features, first.features)  # no dropout at work

    def broken(pixels: Tensor) -> Tensor:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        collect(model, images, broken)
    assert model.training


def test_image_sets_and_tensors_are_the_same(model: nn.Module, images: Tensor, preprocess: Preprocess) -> None:
    expected = collect(model, images, preprocess)
    found = collect(model, ImageArrays(images), preprocess, batch_size=5)
    assert torch.allclose(found.features, expected.features, atol=1e-6)


def test_bf16_is_close_and_float32(model: nn.Module, images: Tensor, preprocess: Preprocess) -> None:
    exact, rough = (collect(model, images, preprocess, precision=p) for p in ("fp32", "bf16"))
    assert rough.features.dtype == rough.logits.dtype == torch.float32
    assert not torch.equal(rough.features, exact.features)
    assert torch.allclose(rough.features, exact.features, atol=0.02)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_network_in_double_precision_is_run_in_it(
    model: nn.Module, images: Tensor, preprocess: Preprocess, precision: str
) -> None:
    """As training with precision fp64 leaves it."""
    plain = collect(model, images, preprocess, precision=precision)
    found = collect(model.double(), images, preprocess, precision=precision)
    assert found.features.dtype == found.logits.dtype == torch.float32
    close = {"atol": 1e-5} if precision == "fp32" else {"atol": 0.05}
    assert torch.allclose(found.features, plain.features, **close)
    assert torch.allclose(found.logits, plain.logits, **close)
    scores = score_all(model, images, {"energy": Energy()}, preprocess=preprocess, precision=precision)["energy"]
    assert torch.allclose(scores, -plain.logits.logsumexp(1), **close)


def test_a_step_left_open_is_measured_in_pixels_of_the_preprocessing(preprocess: Preprocess) -> None:
    given = ODIN(std=(0.1, 0.2, 0.3))
    assert with_pixel_scale(given, preprocess) is given
    left_open = ODIN()
    assert with_pixel_scale(left_open, preprocess).std == preprocess.std != preprocess.mean  # type: ignore[attr-defined]
    assert left_open.std is None
    assert with_pixel_scale(left_open, lambda pixels: pixels) is left_open


def test_score_all_serves_all_detectors_from_one_pass(
    model: nn.Module, images: Tensor, preprocess: Preprocess
) -> None:
    calls = 0
    original = model.features

    def counted(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return original(x)  # type: ignore[operator]

    model.features = counted  # type: ignore[assignment]
    train = collect(model, images, preprocess)
    detectors = {name: KNN(k=k).fit(features=train.features) for name, k in (("near", 1), ("far", 9))}
    calls = 0
    scores = score_all(model, images, detectors, preprocess=preprocess, batch_size=10)
    assert calls == 3  # 23 images in batches of 10, however many detectors
    assert list(scores) == ["near", "far"]
    for name, detector in detectors.items():
        assert torch.allclose(scores[name], detector.score(features=train.features), atol=1e-6)


def test_errors(model: nn.Module, images: Tensor, preprocess: Preprocess) -> None:
    with pytest.raises(InputError, match="no images"):
        collect(model, images[:0], preprocess)
    with pytest.raises(InputError, match=r"Linear has no .features"):
        collect(nn.Linear(2, 2), images, preprocess)
    with pytest.raises(InputError, match="precision must be one of"):
        collect(model, images, preprocess, precision="fp8")
    with pytest.raises(InputError, match=r"batch_size .*at least 1"):
        collect(model, images, preprocess, batch_size=0)
    with pytest.raises(InputError, match=r"images must be .*uint8"):
        collect(model, np.zeros((4, 3, 6, 6), np.uint8), preprocess)


@pytest.mark.cuda
def test_cuda_agrees_with_cpu(model: nn.Module, images: Tensor, preprocess: Preprocess) -> None:
    expected = collect(model, images, preprocess)
    found = collect(model, images, preprocess, device="cuda")
    assert found.features.is_cuda
    assert torch.allclose(found.features.cpu(), expected.features, atol=1e-3)  # TF32 convolutions
