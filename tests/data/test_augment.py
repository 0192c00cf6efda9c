"""Batched augmentation against Pillow and colorsys, one image at a time, on the same drawn parameters."""

import colorsys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from wildspec.data.augment import (
    Augmentation,
    colour_jitter,
    gaussian_blur,
    luma,
    resized_crop,
    shift_hue,
)
from wildspec.errors import InputError


def images(n: int, size: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, (n, 3, size, size), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def pillow_crop(image: np.ndarray, box: list[float], flip: bool) -> np.ndarray:
    """(3, S, S) float -> the same crop by Pillow, channel by channel in float."""
    top, left, height, width = box
    size = image.shape[-1]
    planes = []
    for plane in image:
        cut = Image.fromarray(plane.astype(np.float32)).crop((left, top, left + width, top + height))
        out = np.asarray(cut.resize((size, size), Image.Resampling.BILINEAR))
        planes.append(out[:, ::-1] if flip else out)
    return np.stack(planes)


def test_resized_crop_is_pillows() -> None:
    x = images(40, 32).float() / 255
    params = Augmentation().draw(40, 32, torch.Generator().manual_seed(1))
    got = resized_crop(x, params.box, params.flip)
    assert params.flip.any()
    assert not params.flip.all()
    for i in range(40):
        expected = pillow_crop(x[i].numpy(), params.box[i].tolist(), bool(params.flip[i]))
        np.testing.assert_allclose(got[i].numpy(), expected, atol=2e-5)


def test_shift_is_pad_and_cut() -> None:
    x = images(20, 16).float() / 255
    params = Augmentation.flip_and_shift(3).draw(20, 16, torch.Generator().manual_seed(2))
    got = resized_crop(x, params.box, params.flip)
    padded = torch.nn.functional.pad(x, (3, 3, 3, 3))
    shifts = set()
    for i in range(20):
        top, left = (int(v) + 3 for v in params.box[i, :2])
        shifts.add((top, left))
        expected = padded[i, :, top : top + 16, left : left + 16]
        expected = expected.flip(2) if params.flip[i] else expected
        torch.testing.assert_close(got[i], expected, atol=1e-6, rtol=0)
    assert len(shifts) > 10


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_each_enhancement_is_pillows(kind: int) -> None:
    x = images(12, 16)
    factors = torch.tensor([1.0, 1.0, 1.0, 0.0]).repeat(12, 1)
    factors[:, kind] = torch.linspace(0.5, 1.5, 12)
    order = torch.tensor([0, 1, 2, 3]).repeat(12, 1)
    got = colour_jitter(x.float() / 255, order, factors) * 255
    enhance = [ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color][kind]
    for i in range(12):
        pil = Image.fromarray(x[i].permute(1, 2, 0).numpy())
        expected = np.asarray(enhance(pil).enhance(float(factors[i, kind])), dtype=np.float64)
        # Pillow rounds the grey value and the result to 8 bits
        np.testing.assert_allclose(got[i].permute(1, 2, 0).numpy(), expected, atol=1.6)


def test_hue_is_colorsys() -> None:
    x = images(4, 6).double() / 255
    x[0, :, 0, 0] = 0.5  # a grey pixel has no hue and must stay
    x[0, :, 0, 1] = torch.tensor([0.2, 0.8, 0.8])  # two equal maxima
    turns = torch.tensor([0.1, -0.1, 0.5, 0.0], dtype=torch.float64)
    got = shift_hue(x, turns[:, None, None])
    for i in range(4):
        for r in range(6):
            for c in range(6):
                h, s, v = colorsys.rgb_to_hsv(*x[i, :, r, c].tolist())
                expected = colorsys.hsv_to_rgb((h + turns[i].item()) % 1, s, v)
                np.testing.assert_allclose(got[i, :, r, c].numpy(), expected, atol=1e-9)


def test_jitter_follows_each_samples_own_order() -> None:
    """Brightness then contrast differs from contrast then brightness; each row must follow its own order."""
    x = images(2, 8, seed=3).float().repeat_interleave(2, 0) / 255
    factors = torch.tensor([[1.4, 0.5, 1.0, 0.0]]).repeat(4, 1)
    order = torch.tensor([[0, 1, 2, 3], [1, 0, 2, 3]]).repeat(2, 1)
    got = colour_jitter(x, order, factors)
    for i in range(4):
        out = x[i : i + 1]
        for kind in order[i].tolist():
            mean = luma(out).mean()
            out = ((out * 1.4) if kind == 0 else mean + (out - mean) * 0.5 if kind == 1 else out).clamp(0, 1)
        torch.testing.assert_close(got[i : i + 1], out, atol=1e-6, rtol=0)
    assert (got[0] - got[1]).abs().max() > 0.01


def test_blur_is_a_gaussian_and_zero_leaves_the_image() -> None:
    from scipy.ndimage import gaussian_filter

    x = images(3, 40).double() / 255
    sigma = torch.tensor([0.0, 0.7, 2.0], dtype=torch.float64)
    got = gaussian_blur(x, sigma)
    torch.testing.assert_close(got[0], x[0])
    for i in (1, 2):
        for channel in range(3):
            expected = gaussian_filter(x[i, channel].numpy(), float(sigma[i]), mode="nearest", radius=6)
            np.testing.assert_allclose(got[i, channel].numpy(), expected, atol=1e-9)


def test_drawn_parameters_have_the_stated_distribution() -> None:
    config = Augmentation(scale=(0.3, 0.9), jitter=(0.4, 0.3, 0.2, 0.1), jitter_p=0.7, grey=0.25)
    p = config.draw(40_000, 64, torch.Generator().manual_seed(0))
    area = p.box[:, 2] * p.box[:, 3] / 64**2
    assert area.min() > 0.28
    assert area.max() < 0.93
    assert area.mean().item() == pytest.approx(0.6, abs=0.01)
    assert (p.box[:, 0] + p.box[:, 2]).max() <= 64
    assert (p.box[:, 1] + p.box[:, 3]).max() <= 64
    # a crop reaches every edge, however little room it has: with one pixel to spare both places are as likely
    for place, side in ((0, 2), (1, 3)):
        tight = p.box[p.box[:, side] == 63, place]
        assert len(tight) > 100
        assert tight.mean().item() == pytest.approx(0.5, abs=0.15)
    room = 64 - p.box[:, 3]
    free = room > 8
    assert (p.box[:, 1][free] / room[free]).mean().item() == pytest.approx(0.5, abs=0.01)
    tops, lefts = p.box[:, 0] / (64 - p.box[:, 2]).clamp_min(1), p.box[:, 1] / room.clamp_min(1)
    assert abs(np.corrcoef(tops.numpy(), lefts.numpy())[0, 1]) < 0.03  # positions are independent
    changed = (p.factors != torch.tensor([1.0, 1.0, 1.0, 0.0])).any(1)
    assert changed.float().mean().item() == pytest.approx(0.7, abs=0.01)
    for column, spread, middle in ((0, 0.4, 1), (1, 0.3, 1), (2, 0.2, 1), (3, 0.1, 0)):
        values = p.factors[changed, column]
        assert values.std().item() == pytest.approx(spread / 3**0.5, rel=0.03)
        assert values.mean().item() == pytest.approx(middle, abs=0.01)
    assert p.grey.float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert p.flip.float().mean().item() == pytest.approx(0.5, abs=0.01)
    assert (p.sigma > 0).float().mean().item() == pytest.approx(0.5, abs=0.01)
    first = torch.bincount(p.order[:, 0], minlength=4) / 40_000
    torch.testing.assert_close(first, torch.full((4,), 0.25), atol=0.01, rtol=0)


def test_none_changes_nothing_and_every_setting_changes_something() -> None:
    x = images(16, 48)
    generator = torch.Generator

    def run(config: Augmentation) -> Tensor:
        return config.apply(x, config.draw(16, 48, generator().manual_seed(5)))

    torch.testing.assert_close(run(Augmentation.none()), x.float() / 255, atol=1e-6, rtol=0)
    base = run(Augmentation())
    for change in (
        {"scale": (0.5, 0.6)}, {"ratio": (1.0, 1.0)}, {"flip": 0.0}, {"jitter": (0.1, 0.4, 0.4, 0.1)},
        {"jitter": (0.4, 0.4, 0.4, 0.3)}, {"jitter_p": 0.1}, {"grey": 0.9}, {"blur": 0.0}, {"pad": 2},
        {"blur_sigma": (1.0, 1.1)}, {"blur_from": 49}, {"noise": 0.2},
    ):
        assert (run(Augmentation(**change)) - base).abs().max() > 1e-3, change


def test_result_depends_on_the_sample_not_on_its_batch() -> None:
    x = images(8, 32)
    config = Augmentation()
    params = config.draw(8, 32, torch.Generator().manual_seed(0))
    whole = config.apply(x, params)
    part = config.apply(x[3:5], type(params)(*(t[3:5] for t in params)))
    torch.testing.assert_close(part, whole[3:5], atol=1e-6, rtol=1e-5)
    assert whole.min() >= 0
    assert whole.max() <= 1 + 1e-6


@pytest.mark.parametrize("bad", [{"scale": (0.0, 1.0)}, {"scale": (0.5, 1.2)}, {"flip": 1.5}, {"grey": -0.1},
                                 {"jitter": (0.4, 0.4, 0.4, 0.6)}, {"ratio": (0.0, 1.0)}, {"jitter": (-1.0, 0, 0, 0)},
                                 {"blur_sigma": (0.0, 1.0)}, {"blur_sigma": (2.0, 1.0)}, {"blur_from": 0},
                                 {"pad": -1}, {"jitter": (0.4, 0.4, 0.4)}, {"scale": 0.5}, {"ratio": (1, 2, 3)}])
def test_bad_settings_are_errors(bad: dict) -> None:
    with pytest.raises(InputError):
        Augmentation(**bad)


def test_images_that_are_not_square_are_refused() -> None:
    config = Augmentation()
    params = config.draw(2, 8, torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match=r"square .*got \(8, 6\).*size="):
        config.apply(torch.zeros(2, 3, 8, 6, dtype=torch.uint8), params)


def test_noise_has_the_stated_deviations_and_stays_in_range() -> None:
    config = replace(Augmentation.none(), noise=0.1, noise_p=0.4)
    params = config.draw(2000, 8, torch.Generator().manual_seed(0))
    deviations = params.noise.flatten(1).std(dim=1)
    noisy = deviations > 0
    assert noisy.double().mean().item() == pytest.approx(0.4, abs=0.05)
    assert deviations[noisy].max() < 0.1 * 1.3
    assert deviations[noisy].mean().item() == pytest.approx(0.05, abs=0.005), "uniform from 0 to 0.1"
    x = torch.full((2000, 3, 8, 8), 255, dtype=torch.uint8)
    out = config.apply(x, params)
    torch.testing.assert_close(out, (1 + params.noise).clamp(0, 1), atol=1e-6, rtol=0)
    assert out.max() <= 1


def test_jitter_without_hue_is_the_short_way_to_the_same() -> None:
    x = images(30, 16).float() / 255
    params = Augmentation(jitter=(0.4, 0.4, 0.4, 0.0), jitter_p=1.0).draw(30, 16, torch.Generator().manual_seed(0))
    short, long = (colour_jitter(x, params.order, params.factors, hue=hue) for hue in (False, True))
    torch.testing.assert_close(short, long, atol=1e-5, rtol=0)
