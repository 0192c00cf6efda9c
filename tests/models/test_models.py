"""Networks: sizes by hand, shapes, foreign backbones, bad input."""

import itertools

import pytest
import torch
from torch import nn

from wildspec.errors import InputError
from wildspec.models import MODELS, build_model, wrap_backbone
from wildspec.models.backbones import rebuild
from wildspec.models.wide_resnet import WideResNet


def wide_resnet_parameters(depth: int, widen: int, classes: int) -> int:
    """Counted from the architecture's description, layer by layer."""
    n = (depth - 4) // 6
    widths = [16, 16 * widen, 32 * widen, 64 * widen]
    total = 3 * 9 * 16
    for before, after in itertools.pairwise(widths):
        for index in range(n):
            inputs = before if index == 0 else after
            total += 2 * inputs + 9 * inputs * after + 2 * after + 9 * after * after
            total += inputs * after if inputs != after else 0
    return total + 2 * widths[3] + widths[3] * classes + classes


@pytest.mark.parametrize(("name", "size", "classes", "expected"), [
    ("wrn40_2", 32, 10, 2_243_546),  # the paper's network
    ("wrn16_2", 32, 10, wide_resnet_parameters(16, 2, 10)),
    # convolutions 3-16-32, 32-32-32, 32-64, 64-128, 128-128-128, two values of batch norm a channel, the head
    ("small_resnet", 32, 10, 9 * (48 + 512 + 2 * 1024 + 2048 + 8192 + 2 * 16384) + 2 * (16 + 3 * 32 + 64 + 3 * 128) + 1290),
    ("resnet34", 224, 1000, 21_797_672),  # He et al.'s networks as widely published
    ("resnet50", 224, 1000, 25_557_032),
])
def test_parameter_counts(name: str, size: int, classes: int, expected: int) -> None:
    network = build_model(name, classes, size=size)
    assert sum(p.numel() for p in network.parameters()) == expected
    if name == "wrn40_2":
        assert wide_resnet_parameters(40, 2, 10) == expected


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_the_head_on_the_features(name: str) -> None:
    network = build_model(name, 7).eval()
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        features = network.features(x)
        logits = network(x)
    assert features.shape == (2, network.feature_dim)
    torch.testing.assert_close(logits, features @ network.head.weight.T + network.head.bias)
    assert (features >= 0).all()  # after the last ReLU, as the published loss has it


@pytest.mark.parametrize("name", ["small", "small_resnet"])
@pytest.mark.parametrize("size", [8, 16, 32, 48])
def test_the_small_networks_take_any_size(name: str, size: int) -> None:
    assert build_model(name, 3, size=size)(torch.zeros(2, 3, size, size)).shape == (2, 3)


def test_dropout_reaches_the_blocks() -> None:
    network = build_model("wrn16_2", 3, dropout=0.5)
    x = torch.randn(2, 3, 32, 32)
    network.eval()
    torch.testing.assert_close(network(x), network(x))
    blocks = [module.dropout for module in network.modules() if hasattr(module, "dropout")]
    assert blocks == [0.5] * 6
    network.train()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()  # so that only dropout differs
    assert not torch.equal(network(x), network(x))


def test_spec_builds_the_same_network_again() -> None:
    network = build_model("wrn16_2", 5, dropout=0.1)
    assert network.spec is not None
    twin = build_model(**network.spec)
    twin.load_state_dict(network.state_dict())
    x = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(twin.eval()(x), network.eval()(x))


def test_a_record_that_states_dropout_of_a_network_without_any_can_be_read() -> None:
    """Earlier versions wrote such records: nothing was dropped."""
    record = {"name": "small", "num_classes": 4, "dropout": 0.3, "size": 8}
    assert rebuild(record).spec == {**record, "dropout": 0.0}
    assert rebuild({**record, "name": "wrn16_2"}).spec == {**record, "name": "wrn16_2"}


def test_foreign_backbones_are_wrapped() -> None:
    flat = wrap_backbone(nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 11)), 4, size=8)
    maps = wrap_backbone(nn.Conv2d(3, 6, 3), 4, size=8)
    x = torch.randn(2, 3, 8, 8)
    assert flat.feature_dim == 11
    assert maps.feature_dim == 6
    torch.testing.assert_close(maps.features(x), maps.backbone[0](x).mean((2, 3)))
    assert flat(x).shape == (2, 4)


@pytest.mark.parametrize("tail", [(), (nn.AdaptiveAvgPool2d(1), nn.Flatten())])
def test_maps_of_a_foreign_backbone_average_to_its_features(tail: tuple[nn.Module, ...]) -> None:
    """Layers in a row that end as `wrap_backbone` lets them end, and such a row within."""
    row = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3, 2), *tail)
    model, x = wrap_backbone(row, 4, size=8), torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(model.maps(x).mean((2, 3)), model.features(x))


@pytest.mark.parametrize("tail", [nn.AdaptiveAvgPool2d(2), nn.AdaptiveMaxPool2d(1), nn.ReLU()])
def test_a_foreign_backbone_without_a_map_says_so(tail: nn.Module) -> None:
    model = wrap_backbone(nn.Sequential(nn.Conv2d(3, 6, 3), tail, nn.Flatten()), 4, size=8)
    with pytest.raises(InputError, match="gives no map before it averages"):
        model.maps(torch.randn(2, 3, 8, 8))


def test_bad_networks_are_errors() -> None:
    with pytest.raises(InputError, match="one of small"):
        build_model("vgg", 10)
    with pytest.raises(InputError, match="num_classes"):
        build_model("small", 1)
    with pytest.raises(InputError, match="dropout"):
        build_model("wrn40_2", 10, dropout=1.5)
    for name in ("small", "resnet34"):
        with pytest.raises(InputError, match=rf"{name} has no dropout.*wrn40_2"):
            build_model(name, 10, dropout=0.3)
    with pytest.raises(InputError, match="6 n"):
        WideResNet(depth=41)
    with pytest.raises(InputError, match="does not take images"):
        wrap_backbone(nn.Linear(5, 3), 4)
    with pytest.raises(InputError, match="must return features"):
        wrap_backbone(nn.Flatten(0), 4)
