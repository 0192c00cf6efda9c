"""Wide ResNet for small images (Zagoruyko and Komodakis, 2016): WRN-depth-widen, pre-activation blocks.

WRN-40-2: stem of 16 channels, three groups of 6 blocks with 32, 64, 128 channels, BN-ReLU, average pool -> 128 features.
"""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from wildspec.errors import InputError
from wildspec.models.fused import can_fuse, fused


class PreActBlock(nn.Module):
    """BN-ReLU-conv3x3, BN-ReLU-(dropout)-conv3x3, plus the input; a 1x1 convolution where the shape changes.

    As in the reference network, a block that changes the shape feeds its activated input to the shortcut.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.dropout = dropout
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None

    def begin(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What goes around the block, and the output of the first convolution."""
        active = F.relu(self.bn1(x))
        return x if self.shortcut is None else self.shortcut(active), self.conv1(active)

    def forward(self, x: Tensor) -> Tensor:
        around, out = self.begin(x)
        out = F.relu(self.bn2(out))
        if self.dropout > 0:
            out = F.dropout(out, self.dropout, self.training)
        return around + self.conv2(out)


class WideResNet(nn.Module):
    """(n, 3, H, W) -> (n, 64 * widen) features after the last ReLU, averaged over the image.

    ``fused``: in training, the blocks of a group run as one operation where its kernels know their form
    (`wildspec.models.fused`); the same function, up to rounding.
    """

    fused = False

    def __init__(self, depth: int = 40, widen: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        if (depth - 4) % 6:
            raise InputError(f"depth of a Wide ResNet must be 6 n + 4 (16, 22, 28, 40, ...), got {depth}")
        widths = [16, 16 * widen, 32 * widen, 64 * widen]
        self.stem = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        blocks: list[nn.Module] = []
        for group, stride in enumerate((1, 2, 2)):
            for index in range((depth - 4) // 6):
                first = index == 0
                inputs = widths[group] if first else widths[group + 1]
                blocks.append(PreActBlock(inputs, widths[group + 1], stride if first else 1, dropout))
        self.blocks = nn.Sequential(*blocks)
        self.bn = nn.BatchNorm2d(widths[3])
        self.feature_dim = widths[3]
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                fan = module.kernel_size[0] * module.kernel_size[1] * module.out_channels
                nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / fan))

    def maps(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for group in self.groups():
            if self.fused and self.training and can_fuse(group, x):
                x = fused(group, x)
            else:
                for block in group:
                    x = block(x)
        return F.relu(self.bn(x))

    def groups(self) -> list[list[nn.Module]]:
        """The blocks in runs of one width."""
        each = len(self.blocks) // 3
        blocks = list(self.blocks)
        return [blocks[i : i + each] for i in range(0, len(blocks), each)]

    def forward(self, x: Tensor) -> Tensor:
        return self.maps(x).mean(dim=(2, 3))
