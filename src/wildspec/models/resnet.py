"""ResNet-34 and ResNet-50 (He et al., 2016), parameter names as in the widely used ImageNet weight files.

So a published state dict (without its classifier) loads into the backbone unchanged.
"""

import torch.nn.functional as F
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions."""

    expansion = 1

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = _shortcut(inputs, planes, stride)

    def forward(self, x: Tensor) -> Tensor:
        skip = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + skip)


class Bottleneck(nn.Module):
    """1x1, 3x3 (carries the stride), 1x1 with four times the channels."""

    expansion = 4

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, 4 * planes, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * planes)
        self.downsample = _shortcut(inputs, 4 * planes, stride)

    def forward(self, x: Tensor) -> Tensor:
        skip = x if self.downsample is None else self.downsample(x)
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        return F.relu(self.bn3(self.conv3(out)) + skip)


class ResNet(nn.Module):
    """(n, 3, H, W) -> (n, 512 * expansion) pooled features. ``small``: 3x3 stem without pooling, for images under 64 px."""

    def __init__(self, block: type[BasicBlock] | type[Bottleneck], layers: tuple[int, ...], small: bool = False) -> None:
        super().__init__()
        self.small = small
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False) if small else nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self._channels = 64
        self.layer1 = self._group(block, 64, layers[0], 1)
        self.layer2 = self._group(block, 128, layers[1], 2)
        self.layer3 = self._group(block, 256, layers[2], 2)
        self.layer4 = self._group(block, 512, layers[3], 2)
        self.feature_dim = 512 * block.expansion
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def _group(self, block: type[BasicBlock] | type[Bottleneck], planes: int, count: int, stride: int) -> nn.Sequential:
        blocks: list[nn.Module] = []
        for index in range(count):
            blocks.append(block(self._channels, planes, stride if index == 0 else 1))
            self._channels = planes * block.expansion
        return nn.Sequential(*blocks)

    def maps(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        if not self.small:
            x = F.max_pool2d(x, 3, 2, 1)
        return self.layer4(self.layer3(self.layer2(self.layer1(x))))

    def forward(self, x: Tensor) -> Tensor:
        return self.maps(x).mean(dim=(2, 3))


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
