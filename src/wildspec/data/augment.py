"""Batched augmentation on the device: every view of a step in one call, each sample with its own parameters.

Order of operations (SimSiam's, the paper's appendix F): resized crop and flip -> colour jitter in random order -> grey ->
blur -> noise (ours, off unless asked for). Drawing and applying are separate: `draw` makes plain tensors of parameters,
`apply` is a pure
function of images and parameters, so it can be compiled, captured in a CUDA graph, and tested against Pillow on the very
same parameters.

The crop is two small matrix products per image: out = R_y X R_x^T, where the rows of R hold the triangle filter of an
antialiased bilinear resize (what Pillow computes); a flip reverses the rows of R_x.
"""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from wildspec.checks import fraction, integer, non_negative
from wildspec.errors import InputError

_GREY = (0.299, 0.587, 0.114)  # ITU-R 601 luma, as in Pillow's "L"


class AugmentParams(NamedTuple):
    """One row per view, (n, ...) each."""

    box: Tensor  # (n, 4) top, left, height, width in pixels (real numbers)
    flip: Tensor  # (n,) bool
    order: Tensor  # (n, 4) permutation of brightness, contrast, saturation, hue
    factors: Tensor  # (n, 4) brightness, contrast, saturation factors; hue shift in turns; 1, 1, 1, 0 = unchanged
    grey: Tensor  # (n,) bool
    sigma: Tensor  # (n,) blur width in pixels, 0 = none
    noise: Tensor  # (n, 3, S, S) to be added, pixels in [0, 1]; (n, 0) where the configuration has no noise


@dataclass(frozen=True)
class Augmentation:
    """Strengths and probabilities; frozen, comparable, JSON-able. ``Augmentation.none()`` only normalizes.

    ``scale``: share of the area a crop keeps; ``ratio``: its aspect; ``jitter``: (brightness, contrast, saturation, hue);
    ``blur``: probability of a Gaussian blur whose width is uniform in ``blur_sigma`` pixels, for images of at least
    ``blur_from`` pixels a side (below 33 the literature does not blur); ``pad``: instead of a resized crop, a shift by up to
    so many pixels with black borders (the classic CIFAR recipe). ``noise``: with probability ``noise_p`` Gaussian noise
    whose deviation is uniform between 0 and this, for pixels in [0, 1].
    """

    scale: tuple[float, float] = (0.2, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    jitter_p: float = 0.8
    grey: float = 0.2
    blur: float = 0.5
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    blur_from: int = 33
    pad: int = 0
    noise: float = 0.0
    noise_p: float = 0.5

    def __post_init__(self) -> None:
        for name, count in (("scale", 2), ("ratio", 2), ("jitter", 4), ("blur_sigma", 2)):
            value = getattr(self, name)
            if not isinstance(value, (tuple, list)) or len(value) != count:
                raise InputError(f"{name} must hold {count} numbers, got {value!r}")
        low, high = self.scale
        if not 0 < low <= high <= 1:
            raise InputError(f"scale must be (low, high) with 0 < low <= high <= 1, got {self.scale}")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise InputError(f"ratio must be (low, high) with 0 < low <= high, got {self.ratio}")
        for name in ("flip", "jitter_p", "grey", "blur", "noise", "noise_p"):
            fraction(name, getattr(self, name))
        for name, value in zip(("brightness", "contrast", "saturation", "hue"), self.jitter, strict=True):
            non_negative(f"jitter {name}", value)
        if not 0 < self.blur_sigma[0] <= self.blur_sigma[1]:
            raise InputError(f"blur_sigma must be (low, high) with 0 < low <= high, got {self.blur_sigma}")
        integer("blur_from", self.blur_from, 1)
        integer("pad", self.pad)
        if self.jitter[3] > 0.5:
            raise InputError(f"jitter hue must lie in [0, 0.5] turns, got {self.jitter[3]}")

    @classmethod
    def none(cls) -> "Augmentation":
        return cls(scale=(1.0, 1.0), ratio=(1.0, 1.0), flip=0.0, jitter_p=0.0, grey=0.0, blur=0.0)

    @classmethod
    def flip_and_shift(cls, pad: int = 4) -> "Augmentation":
        """The classic recipe of supervised CIFAR training: a shift of up to ``pad`` pixels and a flip."""
        return cls(scale=(1.0, 1.0), ratio=(1.0, 1.0), jitter_p=0.0, grey=0.0, blur=0.0, pad=pad)

    @classmethod
    def field(cls, pad: int = 4) -> "Augmentation":
        """What cameras in the field do to a picture, mildly: a shift and a flip, then light, contrast and colour, some blur,
        some noise. Views that hide such conditions let a network see what is in the picture."""
        return cls(
            scale=(1.0, 1.0), ratio=(1.0, 1.0), jitter=(0.4, 0.4, 0.4, 0.0), jitter_p=0.5, grey=0.1, blur=0.3,
            blur_sigma=(0.1, 1.0), blur_from=16, pad=pad, noise=0.2,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def draw(self, n: int, size: int, generator: torch.Generator) -> AugmentParams:
        """Parameters for n views of size x size images, on the generator's device; always 17 random values a view, and
        where there is noise one more and those of its pixels."""
        device = generator.device
        u = torch.rand(n, 17, generator=generator, device=device)
        if self.pad:
            shift = torch.floor(u[:, 0:2] * (2 * self.pad + 1)) - self.pad
            box = torch.cat([shift, torch.full_like(shift, float(size))], dim=1)
        else:
            box = self._crop_boxes(u, size)
        jitter = u[:, 4] < self.jitter_p
        low, high = self.blur_sigma
        # built from scalars: a constant copied from the host could not be captured in a CUDA graph
        columns = []
        limits = ((1.0, 0.0), (1.0, 0.0), (1.0, 0.0), (0.0, -0.5))  # unchanged value, least value
        for place, (spread, (middle, least)) in enumerate(zip(self.jitter, limits, strict=True)):
            drawn = (middle + spread * (2 * u[:, 5 + place] - 1)).clamp_min(least)
            columns.append(torch.where(jitter, drawn, torch.full_like(drawn, middle)))
        return AugmentParams(
            box=box,
            flip=u[:, 3] < self.flip,
            order=u[:, 9:13].argsort(dim=1),
            factors=torch.stack(columns, dim=1),
            grey=u[:, 13] < self.grey,
            sigma=torch.where(u[:, 14] < self.blur, low + (high - low) * u[:, 15], torch.zeros_like(u[:, 15])),
            noise=self._noise(n, size, generator),
        )

    def _noise(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        if self.noise == 0:
            return torch.empty(n, 0, device=generator.device)
        drawn = torch.rand(n, 2, generator=generator, device=generator.device)
        deviation = torch.where(drawn[:, 0] < self.noise_p, self.noise * drawn[:, 1], torch.zeros_like(drawn[:, 1]))
        pixels = torch.randn(n, 3, size, size, generator=generator, device=generator.device)
        return pixels * deviation[:, None, None, None]

    def _crop_boxes(self, u: Tensor, size: int) -> Tensor:
        """Area uniform in ``scale``, aspect log-uniform in ``ratio``, sides cut to the image, position uniform.

        A rectangle that would stick out is cut to the image's side instead of being drawn again: static work, and it
        happens only for areas close to the whole image.
        """
        area = self.scale[0] + (self.scale[1] - self.scale[0]) * u[:, 0]
        log_low, log_high = torch.tensor(self.ratio, dtype=torch.float64).log().tolist()
        aspect = torch.exp(log_low + (log_high - log_low) * u[:, 1])
        height = torch.round(size * torch.sqrt(area / aspect)).clamp(1, size)
        width = torch.round(size * torch.sqrt(area * aspect)).clamp(1, size)
        top = torch.floor(u[:, 2] * (size - height + 1))
        left = torch.floor(u[:, 16] * (size - width + 1))
        return torch.stack([top, left, height, width], dim=1)

    def apply(self, images: Tensor, params: AugmentParams) -> Tensor:
        """(n, 3, S, S) uint8 or float in [0, 1] -> (n, 3, S, S) float32 in [0, 1]."""
        if images.shape[-1] != images.shape[-2]:
            raise InputError(f"images must be square to be augmented, got {tuple(images.shape[-2:])}; load them with size=")
        x = images.float() / 255 if images.dtype == torch.uint8 else images
        x = resized_crop(x, params.box, params.flip)
        if self.jitter_p > 0:
            x = colour_jitter(x, params.order, params.factors, hue=self.jitter[3] > 0)
        if self.grey > 0:
            x = torch.where(params.grey[:, None, None, None], luma(x), x)
        if self.blur > 0 and x.shape[-1] >= self.blur_from:
            x = gaussian_blur(x, params.sigma)
        if self.noise > 0:
            x = (x + params.noise).clamp(0, 1)
        return x


def resize_matrix(start: Tensor, length: Tensor, flip: Tensor | None, size: int) -> Tensor:
    """Rows of an antialiased bilinear resize of [start, start + length) to ``size`` samples: (n,) -> (n, size, size).

    Entry (i, j): weight of input pixel j in output pixel i, a triangle of half-width max(1, length / size) around the
    output pixel's centre, cut at the box and summing to 1. A box that leaves the image sees black there.
    """
    grid = torch.arange(size, device=start.device, dtype=start.dtype) + 0.5
    step = (length / size)[:, None]
    place = grid.expand(len(start), size)
    if flip is not None:
        place = torch.where(flip[:, None], size - place, place)
    centre = start[:, None] + place * step  # (n, size) in input coordinates
    half = step.clamp_min(1.0)
    distance = (grid[None, None, :] - centre[:, :, None]).abs() / half[:, :, None]
    weights = (1 - distance).clamp_min(0)
    low, high = start[:, None, None], (start + length)[:, None, None]
    inside = (grid[None, None, :] > low) & (grid[None, None, :] < high)
    weights = weights * inside
    total = weights.sum(2, keepdim=True)
    weights = weights / total.clamp_min(1e-6)
    outside = (centre < 0) | (centre > size)  # only when the box leaves the image
    return weights * (~outside)[:, :, None]


def resized_crop(x: Tensor, box: Tensor, flip: Tensor) -> Tensor:
    """Cut ``box`` out of each (3, S, S) image, resize it to S x S with antialiasing, mirror where ``flip``."""
    size = x.shape[-1]
    rows = resize_matrix(box[:, 0], box[:, 2], None, size)
    cols = resize_matrix(box[:, 1], box[:, 3], flip, size)
    n, channels = x.shape[:2]
    half = torch.bmm(rows, x.permute(0, 2, 1, 3).reshape(n, size, channels * size))  # (n, S, 3 S)
    half = half.view(n, size, channels, size).permute(0, 2, 1, 3).reshape(n, channels * size, size)
    return torch.bmm(half, cols.transpose(1, 2)).view(n, channels, size, size)


def luma(x: Tensor) -> Tensor:
    """(n, 3, H, W) -> (n, 1, H, W) grey value."""
    red, green, blue = x.unbind(1)
    return (_GREY[0] * red + _GREY[1] * green + _GREY[2] * blue).unsqueeze(1)


def colour_jitter(x: Tensor, order: Tensor, factors: Tensor, hue: bool = True) -> Tensor:
    """Brightness, contrast, saturation and hue, in each sample's own order; values stay in [0, 1].

    ``hue=False``: where all hue shifts are 0, the same without the way through HSV, which is most of the work.
    """
    column = factors[:, :, None, None, None]  # (n, 4, 1, 1, 1)
    for position in range(4):
        kind = order[:, position][:, None, None, None]
        grey = luma(x)
        bright = x * column[:, 0]
        mean = grey.mean(dim=(2, 3), keepdim=True)
        contrast = mean + (x - mean) * column[:, 1]
        saturated = grey + (x - grey) * column[:, 2]
        blended = torch.where(kind == 0, bright, torch.where(kind == 1, contrast, saturated)).clamp(0, 1)
        x = torch.where(kind == 3, shift_hue(x, column[:, 3, 0]) if hue else x, blended)
    return x


def shift_hue(x: Tensor, turns: Tensor) -> Tensor:
    """Rotate the hue of (n, 3, H, W) in [0, 1] by ``turns`` (n, 1, 1), through HSV."""
    red, green, blue = x.unbind(1)
    value = x.amax(1)
    chroma = value - x.amin(1)
    safe = chroma.clamp_min(1e-8)
    hue = torch.where(
        value == red, (green - blue) / safe,
        torch.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    hue = torch.remainder(hue / 6 + turns, 1.0) * 6  # in [0, 6)

    def channel(offset: float) -> Tensor:
        k = torch.remainder(offset + hue, 6.0)
        return value - chroma * torch.minimum(k, 4 - k).clamp(0, 1)

    return torch.stack([channel(5.0), channel(3.0), channel(1.0)], dim=1)


def gaussian_blur(x: Tensor, sigma: Tensor, radius: int = 6) -> Tensor:
    """Separable Gaussian blur with one width per sample (0 = unchanged), edges repeated; 13 taps reach 3 sigma at 2 px."""
    taps = torch.arange(-radius, radius + 1, device=x.device, dtype=x.dtype)
    kernel = torch.exp(-0.5 * (taps / sigma.clamp_min(1e-3)[:, None]) ** 2)
    kernel = kernel / kernel.sum(1, keepdim=True)  # (n, 13)
    padded = torch.nn.functional.pad(x, (radius, radius, 0, 0), mode="replicate")
    out = sum_taps(padded, kernel, x.shape[-1], dim=3)
    padded = torch.nn.functional.pad(out, (0, 0, radius, radius), mode="replicate")
    return sum_taps(padded, kernel, x.shape[-2], dim=2)


def sum_taps(padded: Tensor, kernel: Tensor, length: int, dim: int) -> Tensor:
    """Correlate along ``dim`` with one kernel per sample: sum of shifted copies, which a compiler fuses into one pass."""
    weights = kernel[:, :, None, None, None]
    out = padded.narrow(dim, 0, length) * weights[:, 0]
    for tap in range(1, kernel.shape[1]):
        out = out + padded.narrow(dim, tap, length) * weights[:, tap]
    return out
