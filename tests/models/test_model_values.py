"""What the networks compute, written out a second time from their weights alone (state dicts, no modules)."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wildspec.models import build_model, mirrored, wrap_backbone

State = dict[str, Tensor]


def norm(state: State, name: str, x: Tensor) -> Tensor:
    """Batch norm in evaluation mode, channel by channel."""
    shape = (1, -1, 1, 1)
    mean, variance = state[f"{name}.running_mean"].view(shape), state[f"{name}.running_var"].view(shape)
    return (x - mean) / (variance + 1e-5) ** 0.5 * state[f"{name}.weight"].view(shape) + state[f"{name}.bias"].view(shape)


def conv(state: State, name: str, x: Tensor, stride: int = 1, pad: int | None = None) -> Tensor:
    weight = state[f"{name}.weight"]
    return F.conv2d(x, weight, None, stride, weight.shape[-1] // 2 if pad is None else pad)


def wide_resnet(state: State, x: Tensor, blocks: int) -> Tensor:
    """Zagoruyko and Komodakis: pre-activation; where the shape changes the shortcut starts from the activated input."""
    x = conv(state, "stem", x)
    for index in range(3 * blocks):
        name, stride = f"blocks.{index}", 2 if index in (blocks, 2 * blocks) else 1
        active = norm(state, f"{name}.bn1", x).clamp_min(0)
        out = norm(state, f"{name}.bn2", conv(state, f"{name}.conv1", active, stride)).clamp_min(0)
        skip = conv(state, f"{name}.shortcut", active, stride) if f"{name}.shortcut.weight" in state else x
        x = conv(state, f"{name}.conv2", out) + skip
    return norm(state, "bn", x).clamp_min(0).mean((2, 3))


def resnet(state: State, x: Tensor, layers: tuple[int, ...], small: bool) -> Tensor:
    """He et al.: 7x7 stem of stride 2 and pooling (small: a 3x3 stem alone); the first block of groups 2 to 4 halves."""
    x = norm(state, "bn1", conv(state, "conv1", x, 1 if small else 2)).clamp_min(0)
    x = x if small else F.max_pool2d(x, 3, 2, 1)
    for group, count in enumerate(layers, start=1):
        for index in range(count):
            name, stride = f"layer{group}.{index}", 2 if group > 1 and index == 0 else 1
            skip = x
            if f"{name}.downsample.0.weight" in state:
                skip = norm(state, f"{name}.downsample.1", conv(state, f"{name}.downsample.0", x, stride))
            deep = f"{name}.conv3.weight" in state
            out = norm(state, f"{name}.bn1", conv(state, f"{name}.conv1", x, 1 if deep else stride)).clamp_min(0)
            out = norm(state, f"{name}.bn2", conv(state, f"{name}.conv2", out, stride if deep else 1))
            if deep:
                out = norm(state, f"{name}.bn3", conv(state, f"{name}.conv3", out.clamp_min(0)))
            x = (out + skip).clamp_min(0)
    return x.mean((2, 3))


def small_net(state: State, x: Tensor) -> Tensor:
    for index in range(3):
        x = norm(state, f"norms.{index}", conv(state, f"convs.{index}", x)).clamp_min(0)
        x = F.max_pool2d(x, 2) if index < 2 and x.shape[-1] > 4 else x
    return x.mean((2, 3))


def small_resnet(state: State, x: Tensor) -> Tensor:
    def unit(name: str, x: Tensor) -> Tensor:
        return norm(state, f"{name}.1", conv(state, f"{name}.0", x)).clamp_min(0)

    def residual(name: str, x: Tensor) -> Tensor:
        return x + unit(f"{name}.body.1", unit(f"{name}.body.0", x))

    def halved(x: Tensor) -> Tensor:
        return F.max_pool2d(x, 2) if x.shape[-1] > 4 else x

    x = halved(unit("first.1", unit("first.0", x)))
    x = halved(unit("second.1", residual("second.0", x)))
    return residual("fourth", halved(unit("third", x))).mean((2, 3))


CASES = [
    ("wrn16_2", 32, lambda s, x: wide_resnet(s, x, 2)),
    ("wrn40_2", 16, lambda s, x: wide_resnet(s, x, 6)),
    ("resnet34", 32, lambda s, x: resnet(s, x, (3, 4, 6, 3), small=True)),
    ("resnet34", 64, lambda s, x: resnet(s, x, (3, 4, 6, 3), small=False)),
    ("resnet50", 32, lambda s, x: resnet(s, x, (3, 4, 6, 3), small=True)),
    ("resnet50", 64, lambda s, x: resnet(s, x, (3, 4, 6, 3), small=False)),
    ("small", 8, small_net),
    ("small", 32, small_net),
    ("small_resnet", 8, small_resnet),
    ("small_resnet", 32, small_resnet),
]


@pytest.mark.parametrize(("name", "size", "written_out"), CASES, ids=[f"{name}-{size}" for name, size, _ in CASES])
def test_features_are_the_architecture_written_out(name: str, size: int, written_out, rng: np.random.Generator) -> None:
    torch.manual_seed(0)
    network = build_model(name, 3, size=size, dropout=0.4 if name.startswith("wrn") else 0.0).eval().double()
    with torch.no_grad():
        for part in network.modules():  # as after training: means, variances, slopes and offsets that are not 0 and 1
            if isinstance(part, nn.BatchNorm2d):
                part.running_mean.normal_(0, 0.2)
                part.running_var.uniform_(0.6, 1.6)
                part.weight.uniform_(0.5, 1.2)
                part.bias.normal_(0, 0.2)
        x = torch.from_numpy(rng.normal(size=(2, 3, size, size)))
        expected = written_out(network.backbone.state_dict(), x)
        torch.testing.assert_close(network.features(x), expected, rtol=1e-9, atol=1e-9)
    assert expected.std() > 1e-3
    assert len(expected.unique()) > 20


@pytest.mark.parametrize("training", [True, False])
def test_wrapping_and_mirroring_leave_the_mode_as_it_was(training: bool) -> None:
    backbone = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).train(training)
    before = backbone[1].running_mean.clone()
    wrapped = wrap_backbone(backbone, 2, size=8)
    assert backbone.training is training
    assert backbone[1].training is training
    assert torch.equal(backbone[1].running_mean, before), "a blank image is nothing to learn from"
    assert mirrored(wrapped.train(training)).training is training
