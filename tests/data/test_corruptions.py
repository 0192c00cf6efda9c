"""Corruptions: statistics against closed forms, filters against slow loops and scipy, the same bits whatever the batch."""

import math
from functools import cache

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage, stats
from sklearn.datasets import load_sample_images

from wildspec.data import CORRUPTIONS, corrupt
from wildspec.data.corruptions import apply
from wildspec.data.corruptions.blur import disk_kernel, taken_from
from wildspec.data.corruptions.constants import CIFAR, CONSTANTS, IMAGENET
from wildspec.data.corruptions.pixels import Streams
from wildspec.data.corruptions.snow import motion_blur
from wildspec.data.corruptions.zoom import zoom_factors, zoomed
from wildspec.errors import InputError, InputTypeError


@cache
def photographs(size: int, count: int = 8) -> torch.Tensor:
    """Square cuts of scikit-learn's two photographs, resized: uint8 (count, 3, size, size)."""
    cuts = []
    for k in range(count):
        photograph = load_sample_images().images[k % 2]
        left = 55 * (k // 2)
        cut = Image.fromarray(photograph[20:420, left : left + 400]).resize((size, size), Image.Resampling.BOX)
        cuts.append(np.asarray(cut).transpose(2, 0, 1))
    return torch.from_numpy(np.stack(cuts))


def flat(value: int, count: int = 200, size: int = 32) -> torch.Tensor:
    return torch.full((count, 3, size, size), value, dtype=torch.uint8)


def cut_off(pixels: np.ndarray) -> np.ndarray:
    """What the published sets do at the end: clip, scale, cut off; in float64."""
    return np.floor(np.clip(pixels, 0, 1) * 255 + 1e-4)


# Noise


@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("family", ["cifar", "imagenet"])
def test_gaussian_noise_has_the_published_deviation(severity: int, family: str) -> None:
    sigma = 255 * CONSTANTS[family]["gaussian_noise"][severity - 1]
    noisy = corrupt(flat(128), "gaussian_noise", severity, 7, constants=family).double()
    # Exact mean and variance of the clipped, cut-off grey level, from the normal distribution function.
    level = np.arange(256)
    edges = np.concatenate([[-np.inf], level[1:], [np.inf]])
    share = np.diff(stats.norm.cdf(edges, loc=128, scale=sigma))
    mean = (share * level).sum()
    deviation = math.sqrt((share * (level - mean) ** 2).sum())
    n = noisy.numel()
    assert abs(noisy.mean() - mean) < 5 * deviation / math.sqrt(n)
    assert abs(noisy.std() / deviation - 1) < 5 / math.sqrt(2 * n)
    counts = torch.bincount(noisy.long().flatten(), minlength=256).numpy()
    seen = share * n > 20
    chi_square = ((counts - share * n) ** 2 / np.where(seen, share * n, np.inf)).sum()
    assert chi_square < stats.chi2.ppf(0.9999, seen.sum() - 1)


def test_gaussian_noise_is_independent_between_pixels_channels_and_images() -> None:
    noisy = corrupt(flat(128), "gaussian_noise", 3, 0).double() - 127.5
    variance = noisy.var()
    pairs = (noisy[:, :1] * noisy[:, 1:2], noisy[:, :, 1:] * noisy[:, :, :-1], noisy[1:] * noisy[:-1])
    for pair in pairs:
        assert abs(pair.mean() / variance) < 5 / math.sqrt(pair.numel())


@pytest.mark.parametrize(("value", "family", "severity"), [(128, "cifar", 5), (20, "cifar", 1), (200, "imagenet", 5)])
def test_shot_noise_is_poisson(value: int, family: str, severity: int) -> None:
    photons = CONSTANTS[family]["shot_noise"][severity - 1]
    noisy = corrupt(flat(value), "shot_noise", severity, 3, constants=family).double()
    arrivals = np.arange(2000)
    share = stats.poisson.pmf(arrivals, photons * value / 255)
    level = cut_off(arrivals / photons)
    mean = (share * level).sum()
    deviation = math.sqrt((share * (level - mean) ** 2).sum())
    assert abs(noisy.mean() - mean) < 5 * deviation / math.sqrt(noisy.numel())
    assert abs(noisy.std() / deviation - 1) < 0.01
    assert set(noisy.unique().tolist()) <= set(level.tolist())


@pytest.mark.parametrize("family", ["cifar", "imagenet"])
@pytest.mark.parametrize("severity", [1, 5])
def test_impulse_noise_hits_its_share(family: str, severity: int) -> None:
    share = CONSTANTS[family]["impulse_noise"][severity - 1]
    noisy = corrupt(flat(100), "impulse_noise", severity, 3, constants=family)
    n = noisy.numel()
    assert set(noisy.unique().tolist()) == {0, 100, 255}
    for value, expected in ((0, share / 2), (255, share / 2), (100, 1 - share)):
        found = (noisy == value).sum().item()
        assert abs(found - n * expected) < 5 * math.sqrt(n * expected * (1 - expected))


# Blur


@pytest.mark.parametrize("strength", [*CIFAR["defocus_blur"], *IMAGENET["defocus_blur"]])
def test_the_disk_kernel_is_a_softened_disk(strength: tuple[float, float]) -> None:
    radius, soft = strength
    reach, half = (8, 1) if radius <= 8 else (10, 2)
    disk = np.zeros((2 * reach + 1,) * 2)
    for y in range(-reach, reach + 1):
        for x in range(-reach, reach + 1):
            disk[y + reach, x + reach] = math.hypot(x, y) <= radius
    bell = [math.exp(-(i**2) / (2 * soft**2)) for i in range(-half, half + 1)]
    weights = np.outer(bell, bell) / sum(bell) ** 2
    expected = ndimage.correlate(disk, weights, mode="mirror")
    kernel = disk_kernel(radius, soft)
    assert kernel == pytest.approx(expected / disk.sum(), abs=1e-12)
    assert kernel.sum() == pytest.approx(1, abs=1e-9 if radius < 8 else 0.03)


@pytest.mark.parametrize(("size", "severity"), [(32, 1), (32, 3), (32, 5), (64, 1), (64, 5)])
def test_defocus_is_scipys_correlation(size: int, severity: int) -> None:
    images = photographs(size, 4)
    family = CIFAR if size == 32 else IMAGENET
    kernel = disk_kernel(*family["defocus_blur"][severity - 1])
    out = corrupt(images, "defocus_blur", severity, 0)
    expected = [
        [ndimage.correlate(channel.astype(np.float64) / 255, kernel, mode="mirror") for channel in image]
        for image in images.numpy()
    ]
    difference = np.abs(out.numpy() - cut_off(np.array(expected)))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 1e-3


def slow_glass(image: np.ndarray, sigma: float, reach: int, rounds: int, generator: np.random.Generator) -> np.ndarray:
    """One image (H, W, 3), pixel by pixel, in the order of the published generator."""
    height, width = image.shape[:2]
    pixels = cut_off(ndimage.gaussian_filter(image / 255.0, (sigma, sigma, 0), mode="nearest"))
    draws = generator.integers(-reach, reach, size=(rounds, height - 2 * reach, width - 2 * reach, 2), dtype=np.int8)
    for turn in range(rounds):
        for row, y in enumerate(range(height - reach, reach, -1)):
            for column, x in enumerate(range(width - reach, reach, -1)):
                dx, dy = (int(step) for step in draws[turn, row, column])
                pixels[y, x] = pixels[y + dy, x + dx].copy()
    return cut_off(ndimage.gaussian_filter(pixels / 255.0, (sigma, sigma, 0), mode="nearest"))


@pytest.mark.parametrize(("size", "severity"), [(32, 1), (32, 4), (32, 5), (40, 3), (40, 5)])
def test_glass_blur_is_the_loop(size: int, severity: int) -> None:
    images = photographs(size, 3)
    sigma, reach, rounds = (CIFAR if size == 32 else IMAGENET)["glass_blur"][severity - 1]
    streams = Streams(21, CORRUPTIONS.index("glass_blur"), severity, 4, 3)
    out = corrupt(images, "glass_blur", severity, 21, start_index=4)
    for image, result, generator in zip(images.permute(0, 2, 3, 1).numpy(), out.permute(0, 2, 3, 1), streams, strict=True):
        difference = np.abs(result.numpy() - slow_glass(image, sigma, reach, rounds, generator))
        assert difference.max() <= 2  # a grey level cut off differently before the last blur
        assert (difference > 0).mean() < 5e-3


def test_glass_exchange_follows_long_chains_and_spares_the_border() -> None:
    steps = np.zeros((1, 4, 4, 2), dtype=np.int8)
    steps[..., 0] = -1  # everyone takes from the left: nobody there was visited before
    assert taken_from(steps, 6, 6, 1).reshape(6, 6)[3].tolist() == [18, 19, 19, 20, 21, 22]
    steps = np.zeros((1, 1, 60, 2), dtype=np.int8)
    steps[..., 1] = 1  # as reach 3 allows: taken from below, where the last visited row is
    taken = taken_from(np.repeat(steps, 60, axis=1), 66, 66, 3).reshape(66, 66)
    assert (taken[4:64, 10] == 64 * 66 + 10).all()  # one colour runs up the whole column, a chain of 60


@pytest.mark.parametrize("factor", [1.0, 1.01, 1.05, 1.06, 1.25, 1.75, 2.25, 3, 4.5])
@pytest.mark.parametrize("size", [8, 32, 33, 64])
def test_zoom_is_scipys(size: int, factor: float) -> None:
    layer = photographs(size, 1)[0, 0].numpy().astype(np.float32)
    part = math.ceil(size / factor)
    top = (size - part) // 2
    whole = ndimage.zoom(layer[top : top + part, top : top + part], factor, order=1)
    trim = (len(whole) - size) // 2
    assert zoomed(layer, factor) == pytest.approx(whole[trim : trim + size, trim : trim + size], abs=1e-3)


@pytest.mark.parametrize(("size", "severity"), [(32, 1), (32, 5), (64, 5)])
def test_zoom_blur_is_the_mean_of_zooms(size: int, severity: int) -> None:
    images = photographs(size, 2)
    factors = zoom_factors((CIFAR if size == 32 else IMAGENET)["zoom_blur"][severity - 1])
    out = corrupt(images, "zoom_blur", severity, 0).numpy()
    clean = images.numpy().astype(np.float64) / 255
    for image, result in zip(clean, out, strict=True):
        for channel, got in zip(image, result, strict=True):
            total = channel.copy()
            for factor in factors:
                part = math.ceil(size / factor)
                top = (size - part) // 2
                whole = ndimage.zoom(channel[top : top + part, top : top + part], factor, order=1)
                trim = (len(whole) - size) // 2
                total += whole[trim : trim + size, trim : trim + size]
            difference = np.abs(got - cut_off(total / (len(factors) + 1)))
            assert difference.max() <= 1
            assert (difference > 0).mean() < 1e-2


def test_the_zoom_factors_are_the_published_ones() -> None:
    assert [len(zoom_factors(c)) for c in CIFAR["zoom_blur"]] == [7, 12, 16, 21, 26]
    assert [len(zoom_factors(c)) for c in IMAGENET["zoom_blur"]] == [12, 16, 11, 13, 11]
    assert zoom_factors(CIFAR["zoom_blur"][0]) == pytest.approx([1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06])


# Snow


def slow_motion(layer: np.ndarray, radius: float, sigma: float, angle: float) -> np.ndarray:
    height, width = layer.shape
    weights = [math.exp(-(j**2) / (2 * sigma**2)) for j in range(2 * math.ceil(radius) + 1)]
    out = np.zeros((height, width))
    for y in range(height):
        for x in range(width):
            for j, weight in enumerate(weights):
                across = math.ceil(j * math.cos(math.radians(angle)) - 0.5)
                down = math.ceil(j * math.sin(math.radians(angle)) - 0.5)
                at = layer[min(max(y + down, 0), height - 1), min(max(x + across, 0), width - 1)]
                out[y, x] += weight / sum(weights) * float(at)
    return out


def test_motion_blur_is_the_loop(rng: np.random.Generator) -> None:
    layers = rng.integers(0, 256, (4, 11, 13), dtype=np.uint8)
    angles = np.array([-135.0, -90.0, -61.3, -45.0])
    blurred = motion_blur(layers, 6, 2.5, angles)
    for layer, angle, got in zip(layers, angles, blurred, strict=True):
        assert got == pytest.approx(slow_motion(layer, 6, 2.5, angle), abs=1e-3)


@pytest.mark.parametrize(("size", "severity"), [(32, 1), (32, 3), (32, 4), (40, 2)])
def test_snow_is_the_loop(size: int, severity: int) -> None:
    images = photographs(size, 2)
    family = CIFAR if size == 32 else IMAGENET
    mean, deviation, zoom, threshold, radius, sigma, weight = family["snow"][severity - 1]
    streams = Streams(9, CORRUPTIONS.index("snow"), severity, 0, 2)
    out = corrupt(images, "snow", severity, 9).numpy()
    for image, result, generator in zip(images.numpy(), out, streams, strict=True):
        noise = mean + deviation * generator.standard_normal((size, size), dtype=np.float32)
        angle = generator.uniform(-135, -45)
        layer = zoomed(noise, zoom)
        layer[layer < threshold] = 0
        flakes = np.rint(slow_motion(cut_off(layer), radius, sigma, angle)) / 255
        clean = image / 255.0
        grey = 0.299 * clean[0] + 0.587 * clean[1] + 0.114 * clean[2]
        pale = weight * clean + (1 - weight) * np.maximum(clean, 1.5 * grey + 0.5)
        difference = np.abs(result - cut_off(pale + flakes + np.rot90(flakes, 2)))
        assert difference.max() <= 2
        assert (difference > 0).mean() < 0.01


# All of them


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_the_result_depends_on_image_number_and_seed_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    images = photographs(32)
    whole = corrupt(images, kind, 4, 5)
    assert whole.dtype == torch.uint8
    assert whole.shape == images.shape
    assert torch.equal(corrupt(images[3:6], kind, 4, 5, start_index=3), whole[3:6])
    one_by_one = [corrupt(images[k : k + 1], kind, 4, 5, start_index=k) for k in range(len(images))]
    assert torch.equal(torch.cat(one_by_one), whole)
    monkeypatch.setattr(apply, "_VALUES_PER_CHUNK", 2 * 3 * 32 * 32)
    assert torch.equal(corrupt(images, kind, 4, 5), whole)
    monkeypatch.setattr(apply.os, "cpu_count", lambda: 1)
    assert torch.equal(corrupt(images, kind, 4, 5), whole)
    if kind not in ("defocus_blur", "zoom_blur"):  # the two without chance
        assert not torch.equal(corrupt(images, kind, 4, 6), whole)
        assert not torch.equal(corrupt(images[3:6], kind, 4, 5), whole[3:6])


@pytest.mark.parametrize("size", [32, 96])
@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_more_severe_is_further_from_the_image(kind: str, size: int) -> None:
    images = photographs(size)
    ratio = []
    for severity in range(1, 6):
        error = (corrupt(images, kind, severity, 1).double() - images.double()).square().mean().item()
        ratio.append(10 * math.log10(255**2 / error))
    assert max(ratio) < 50
    if kind in ("glass_blur", "snow"):  # the published levels differ in several strengths at once, not all growing
        assert min(ratio[:2]) > max(ratio[3:])
    else:
        assert ratio == sorted(ratio, reverse=True)


def test_constants_follow_the_size() -> None:
    for size, family in ((8, "cifar"), (32, "cifar"), (33, "imagenet"), (64, "imagenet")):
        images = photographs(size, 2)
        for kind in CORRUPTIONS:
            assert torch.equal(corrupt(images, kind, 2, 0), corrupt(images, kind, 2, 0, constants=family))
    assert set(CIFAR) == set(IMAGENET) == set(CORRUPTIONS)
    assert all(len(levels) == 5 for family in CONSTANTS.values() for levels in family.values())


def test_nothing_in_nothing_out_and_rectangles() -> None:
    for kind in CORRUPTIONS:
        assert corrupt(flat(0, 0), kind, 1, 0).shape == (0, 3, 32, 32)
        tall = photographs(64, 2)[:, :, :, :40].contiguous()
        assert corrupt(tall, kind, 3, 0).shape == tall.shape


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((flat(0, 1), "fog", 1, 0), "kind must be one of gaussian_noise, .*; got 'fog'"),
        ((flat(0, 1), "snow", 6, 0), "severity must be at most 5"),
        ((flat(0, 1), "snow", 0, 0), "severity must be at least 1"),
        ((flat(0, 1), "snow", 1, -1), "seed must be at least 0"),
        ((flat(0, 1).float(), "snow", 1, 0), "uint8 tensor of shape"),
        ((flat(0, 1)[0], "snow", 1, 0), r"got torch.uint8 \(3, 32, 32\)"),
        ((np.zeros(3), "snow", 1, 0), "got ndarray"),
    ],
)
def test_bad_input_is_named(arguments: tuple[object, ...], says: str) -> None:
    with pytest.raises((InputError, InputTypeError), match=says):
        corrupt(*arguments)  # type: ignore[arg-type]
