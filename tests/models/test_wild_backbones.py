"""WildClassifier with networks from elsewhere: one's own module, timm and torchvision by name, starting weights."""

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

import tiny_model
import wildspec
from quick_wild import fake_module, quick
from wildspec.errors import CheckpointError, DataError, InputError, MissingDependencyError
from wildspec.models.backbones import make_network


class _Foreign(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x))  # maps: wrap_backbone averages them


def test_a_backbone_of_ones_own(known: Any, tmp_path: Path) -> None:
    labelled, wild = tiny_model.labelled_and_wild()
    model = quick(backbone=_Foreign()).fit(labelled, wild)
    assert model.model_.feature_dim == 6
    model.save(tmp_path / "m")
    with pytest.raises(InputError, match=r"_Foreign\).*bundle cannot hold"):
        wildspec.load(tmp_path / "m")
    with pytest.raises(CheckpointError, match="do not fit together"):
        wildspec.load(tmp_path / "m", backbone=_Foreign(7))
    again = wildspec.load(tmp_path / "m", backbone=_Foreign(), device="cpu")
    assert np.array_equal(again.ood_score(known[0]), model.ood_score(known[0]))


def test_the_head_of_ones_own_network_follows_from_the_seed() -> None:
    def head(seed: int) -> torch.Tensor:
        return make_network(_Foreign(), 3, 10, torch.device("cpu"), seed)[0].head.weight

    torch.manual_seed(1)
    first, drawn = head(5), torch.rand(1)
    second = head(5)
    assert torch.equal(first, second)
    assert not torch.equal(first, head(6))
    torch.manual_seed(1)
    _Foreign()
    assert torch.equal(torch.rand(1), drawn), "nothing else in the process is drawn another way"


def test_a_bundle_with_its_own_network_takes_no_other() -> None:
    with pytest.raises(InputError, match="brings its own network"):
        wildspec.load(tiny_model.bundle(), backbone=_Foreign())


def test_starting_weights(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    from wildspec.models import build_model
    from wildspec.models.initial_weights import load_init

    torch.manual_seed(0)
    donor, taker = build_model("small", 3, size=10), build_model("small", 5, size=10)
    weights = {f"backbone.{k}": v for k, v in donor.backbone.state_dict().items() if "tracked" not in k}
    save_file({**weights, "fc.weight": torch.zeros(2, 2)}, tmp_path / "w.safetensors")
    load_init(taker.backbone, tmp_path / "w.safetensors")
    for (name, mine), theirs in zip(taker.backbone.state_dict().items(), donor.backbone.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs), name
    for prefix in ("model.backbone.", ""):  # a run's checkpoint; the bare backbone
        another = build_model("small", 4, size=10)
        save_file({f"{prefix}{k}": v for k, v in donor.backbone.state_dict().items()}, tmp_path / "c.safetensors")
        load_init(another.backbone, tmp_path / "c.safetensors")
        assert torch.equal(another.backbone.convs[0].weight, donor.backbone.convs[0].weight), prefix
    with pytest.raises(InputError, match=r"do not fit .*\d+ of \d+ tensors"):
        load_init(build_model("wrn16_2", 3).backbone, tmp_path / "w.safetensors")
    (tmp_path / "p.safetensors").write_bytes(b"\x80\x04pickle")
    with pytest.raises(DataError, match="pickles are not read"):
        load_init(taker.backbone, tmp_path / "p.safetensors")


def test_timm_and_torchvision_by_name(monkeypatch: pytest.MonkeyPatch, known: Any, tmp_path: Path) -> None:
    asked = []

    def create_model(name: str, pretrained: bool, num_classes: int) -> nn.Module:
        asked.append((name, pretrained, num_classes))
        return nn.Sequential(_Foreign(5), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    class Vision(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(_Foreign(4), nn.AdaptiveAvgPool2d(1), nn.Flatten())
            self.fc = nn.Linear(4, 1000)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.body(x))

    fake_module(monkeypatch, "timm", create_model=create_model)
    fake_module(monkeypatch, "torchvision", models=types.SimpleNamespace(get_model=lambda name, weights: Vision()))
    labelled, wild = tiny_model.labelled_and_wild()
    by_timm = quick(backbone="timm:net:pretrained").fit(labelled, wild)
    assert asked == [("net", True, 0)]
    by_timm.save(tmp_path / "m")
    assert np.array_equal(wildspec.load(tmp_path / "m").ood_score(known[0]), by_timm.ood_score(known[0]))
    assert asked[-1] == ("net", False, 0), "loading a bundle downloads nothing"
    assert clone(wildspec.load(tmp_path / "m")).get_params()["backbone"] == "timm:net:pretrained", "it can be fitted again"
    assert quick(backbone="torchvision:net").fit(labelled, wild).model_.feature_dim == 4


@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_without_the_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    labelled, wild = tiny_model.labelled_and_wild()
    expected = f"backbone {library}:resnet18 needs the package '{library}'; install it with: pip install {library}$"
    with pytest.raises(MissingDependencyError, match=expected) as caught:
        quick(backbone=f"{library}:resnet18").fit(labelled, wild)
    assert "\n" not in str(caught.value)


class _Fixed(nn.Module):
    """Takes images of one size, as networks with a table of positions do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[-1] == 224, "Wrong image height! Expected 224 but got 10!"
        return self.layer(x.mean((2, 3)))


def test_a_network_of_another_size_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_module(monkeypatch, "timm", create_model=lambda name, pretrained, num_classes: _Fixed())
    labelled, wild = tiny_model.labelled_and_wild()
    for backbone in ("timm:vit", _Fixed()):
        with pytest.raises(InputError, match=r"10 x 10 pixels: .* Expected 224 .* \(--size, size=\)$"):
            quick(backbone=backbone).fit(labelled, wild)


@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_a_library_without_connection_or_without_that_model_is_one_line(
    monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    unknown = RuntimeError if library == "timm" else ValueError

    def make(name: str, pretrained: bool = False, weights: str | None = None, **options: Any) -> nn.Module:
        raise OSError("no route\nto host") if pretrained or weights else unknown("Unknown model")

    fake_module(monkeypatch, library, create_model=make, models=types.SimpleNamespace(get_model=make))
    labelled, wild = tiny_model.labelled_and_wild()
    with pytest.raises(DataError, match=f"^{library} cannot get the weights of net: no route to host; .* with --init$"):
        quick(backbone=f"{library}:net:pretrained").fit(labelled, wild)
    with pytest.raises(InputError, match=f"^{library} has no model 'net': Unknown model$"):
        quick(backbone=f"{library}:net").fit(labelled, wild)


def test_a_library_made_for_another_torch_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """torchvision registers operators when it is imported; beside another torch that fails, and not as an ImportError."""
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms\\ndoes not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    labelled, wild = tiny_model.labelled_and_wild()
    message = r"'torchvision', which is installed but does not work with torch .*: operator torchvision::nms does not exist;"
    with pytest.raises(MissingDependencyError, match=message):
        quick(backbone="torchvision:resnet18").fit(labelled, wild)
