"""Features of images from a network that is not trained any more.

    f(x) = network((x / 255 - mean) / std),    x: (n, 3, S, S) uint8 -> (n, d) float32

As fast as the network goes: batch norm folded into convolutions, channels last, batches that stay in the processor's cache.
"""

import copy
from collections.abc import Callable
from os import PathLike

import torch
from torch import Tensor, nn

from wildspec.checks import integer
from wildspec.errors import InputError, InputTypeError, one_line
from wildspec.models.fold import fold_batch_norm
from wildspec.models.initial_weights import load_init, trained_with
from wildspec.models.passes import run_passes
from wildspec.models.registry import Backbone, find_backbone
from wildspec.models.scaling import Scaling, Triple

# Larger batches are slower on a CPU: their maps leave the cache, and memory that is asked for anew is paged in anew.
CPU_PIXELS = 8 * 160 * 160  # of a pass
GPU_PIXELS = 512 * 160 * 160
AGREE = 1e-4  # folded and plain features, relative to the largest


class Encoder(nn.Module):
    """A frozen backbone with its pixel scaling.

    ``backbone``: a name (`wildspec.models.registry`), a `Backbone`, or a module (n, 3, S, S) -> (n, d), or (n, d, h, w),
    which is averaged over h, w. ``size``: S, by default what the backbone was made for. ``init``: a safetensors file with
    the weights, instead of those the backbone brings. ``mean``, ``std``: of pixels in [0, 1]; by default the backbone's own;
    a module of one's own needs them. ``encode`` is for use, ``forward`` for export.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self, backbone: str | Backbone | nn.Module, size: int | None = None, *, init: str | PathLike[str] | None = None,
        mean: Triple | None = None, std: Triple | None = None, device: torch.device | str = "cpu",
    ) -> None:  # fmt: skip
        super().__init__()
        if isinstance(backbone, str):
            backbone = find_backbone(backbone)
        theirs = None if init is None else trained_with(init)
        if isinstance(backbone, Backbone):
            theirs, size = theirs or backbone.scaling, size or backbone.size
            network = backbone.build(size, init)
        elif isinstance(backbone, nn.Module):
            network = copy.deepcopy(backbone)
            if init is not None:
                load_init(network, init)
        else:
            raise InputTypeError(f"backbone must be a name or a torch module, got {type(backbone).__name__}")
        if theirs is not None:
            mean, std = theirs.mean if mean is None else mean, theirs.std if std is None else std
        if size is None or mean is None or std is None:
            raise InputError("this backbone does not say what it takes: give size=, and mean= and std= of pixels in [0, 1]")
        mean, std = Scaling.of(mean, std)
        self.size = integer("size", size, 8)
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1))
        self.network, self.feature_dim = _prepared(network, self.size)
        self.to(device)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types forget it

    @property
    def device(self) -> torch.device:
        return self.mean.device

    @property
    def batch(self) -> int:
        """Images in a pass: the larger they are, the fewer."""
        pixels = CPU_PIXELS if self.device.type == "cpu" else GPU_PIXELS
        return max(1, pixels // self.size**2)

    def train(self, mode: bool = True) -> "Encoder":
        """It stays as it is: frozen."""
        return super().train(False)

    def forward(self, pixels: Tensor) -> Tensor:
        """(n, 3, S, S) uint8 -> (n, d) float32, in one pass."""
        return _pooled(self.network((pixels.to(torch.float32) / 255 - self.mean) / self.std))

    def encode(self, pixels: Tensor, advance: Callable[[int], None] = lambda n: None) -> Tensor:
        """(n, 3, S, S) uint8 -> (n, d) float32, in passes (`wildspec.models.passes`); the result is where ``pixels`` are.
        ``advance`` is told of images that are done."""
        if pixels.dtype != torch.uint8 or pixels.ndim != 4 or tuple(pixels.shape[1:]) != (3, self.size, self.size):
            raise InputError(
                f"pixels must be uint8 of shape (n, 3, {self.size}, {self.size}), got {pixels.dtype} {tuple(pixels.shape)}; "
                "resize them, or make the encoder with their size"
            )
        out = torch.empty(len(pixels), self.feature_dim, device=pixels.device)

        @torch.inference_mode()
        def work(start: int, stop: int) -> None:
            part = pixels[start:stop].to(self.device, non_blocking=True)
            out[start:stop] = self(part.contiguous(memory_format=torch.channels_last))

        run_passes(work, len(pixels), self.batch, advance, side_by_side=self.device.type == "cpu")
        return out


def _pooled(out: Tensor) -> Tensor:
    return out.mean(dim=(2, 3)) if out.ndim == 4 else out


@torch.no_grad()
def _prepared(network: nn.Module, size: int) -> tuple[nn.Module, int]:
    """A frozen copy of the network, folded where that changes nothing, and the width of its features."""
    plain = copy.deepcopy(network).eval().requires_grad_(False)
    where = next(plain.parameters(), torch.zeros(())).device
    image = torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(0)).to(where)
    try:
        out = plain(image)
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        line = one_line(error)
        raise InputError(f"the backbone does not take images of shape (n, 3, {size}, {size}): {line}") from error
    if not isinstance(out, Tensor) or out.ndim not in (2, 4):
        got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise InputError(f"the backbone must return features (n, d) or maps (n, d, h, w), got {got}")
    expected = _pooled(out)
    folded = fold_batch_norm(plain)
    same = bool((_pooled(folded(image)) - expected).abs().max() <= AGREE * expected.abs().max())
    return (folded if same else plain), expected.shape[1]
