"""Decoding: every mode against values worked out by hand, every kind of damage refused with its reason."""

import io
import subprocess
import sys

import numpy as np
import pytest
import torch
from image_files import bomb, broken_files, encode, picture
from PIL import Image, ImageOps

from wildspec.data.decode import decode, fit, from_array, from_pil
from wildspec.errors import DataError


def test_lossless_colour_is_exact() -> None:
    for kind, options in (("PNG", {}), ("WEBP", {"lossless": True}), ("BMP", {}), ("TIFF", {}), ("PPM", {})):
        assert np.array_equal(decode(encode(picture(), kind, **options)), picture())


def test_grey_and_bits_are_repeated() -> None:
    grey = picture()[:, :, 0]
    assert np.array_equal(decode(encode(grey)), np.dstack([grey] * 3))
    bits = Image.fromarray(grey).convert("1")
    assert np.array_equal(decode(encode(bits)), np.dstack([np.asarray(bits).astype(np.uint8) * 255] * 3))


def test_transparency_is_composited_on_black() -> None:
    rgba = np.dstack([picture(), np.full((6, 8), 128, np.uint8)])
    rgba[0, 0] = [200, 100, 50, 0]
    rgba[0, 1] = [200, 100, 50, 255]
    out = decode(encode(rgba))
    assert out[0, 0].tolist() == [0, 0, 0]
    assert out[0, 1].tolist() == [200, 100, 50]
    assert np.abs(out - rgba[..., :3] * (rgba[..., 3:] / 255.0)).max() <= 1
    la = Image.fromarray(rgba[..., 0]).convert("LA")
    la.putalpha(Image.fromarray(rgba[..., 3]))
    assert np.abs(decode(encode(la)) - (rgba[..., 0] * (rgba[..., 3] / 255.0))[..., None]).max() <= 1
    assert np.abs(from_array(rgba) - rgba[..., :3] * (rgba[..., 3:] / 255.0)).max() <= 0.5


def test_palettes_with_and_without_transparency() -> None:
    image = Image.fromarray(np.array([[0, 1], [2, 1]], np.uint8), mode="P")
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    expected = np.array([[[10, 20, 30], [40, 50, 60]], [[70, 80, 90], [40, 50, 60]]])
    assert np.array_equal(decode(encode(image)), expected)
    expected[0, 1] = expected[1, 1] = 0
    assert np.array_equal(decode(encode(image, transparency=1)), expected)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bit_grey_is_scaled(kind: str) -> None:
    values = np.array([[0, 256, 257], [32768, 65534, 65535]], np.uint16)
    out = decode(encode(Image.fromarray(values), kind))
    assert out.shape == (2, 3, 3)
    assert np.array_equal(out[..., 0], np.rint(values / 257))
    assert np.array_equal(out[..., 0], out[..., 2])


def test_float_and_32_bit_images() -> None:
    ramp = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(from_pil(Image.fromarray(ramp))[..., 1], np.rint(ramp * 255))
    with pytest.raises(DataError, match=r"\[0, 1\], got 0 to 300"):
        decode(encode(Image.fromarray(ramp * 300), "TIFF"))
    with pytest.raises(DataError, match="fit 16 bits, got -5"):
        from_pil(Image.fromarray(np.array([[-5, 3]], np.int32)))


def test_cmyk_is_converted() -> None:
    cmyk = Image.new("CMYK", (2, 2), (0, 255, 255, 0))
    assert np.abs(decode(encode(cmyk, "TIFF")).astype(int) - [255, 0, 0]).max() <= 1


def test_of_an_animation_the_first_frame() -> None:
    frames = [Image.fromarray(np.full((4, 4), value, np.uint8)) for value in (50, 150, 250)]
    for kind in ("GIF", "WEBP", "PNG"):
        options = {"lossless": True} if kind == "WEBP" else {}
        data = encode(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        assert np.array_equal(decode(data), np.full((4, 4, 3), 50))


UPRIGHT = {
    1: lambda p: p, 2: lambda p: p[:, ::-1], 3: lambda p: p[::-1, ::-1], 4: lambda p: p[::-1],
    5: lambda p: p.swapaxes(0, 1), 6: lambda p: np.rot90(p, -1), 7: lambda p: p[::-1, ::-1].swapaxes(0, 1), 8: np.rot90,
}  # what the EXIF standard says of each number, in numpy  # fmt: skip
ENCODED = {
    "PNG": {}, "JPEG": {"quality": 95}, "WEBP": {"lossless": True}, "TIFF": {}, "TIFF LZW": {"compression": "tiff_lzw"},
}  # fmt: skip


def turned(image: Image.Image, orientation: int, kind: str) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encode(image, kind.split()[0], exif=exif, **ENCODED[kind])


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("kind", ENCODED)
def test_exif_orientation_is_applied_once(kind: str, orientation: int) -> None:
    """Once: of a TIFF Pillow turns the pixels itself while it decodes them."""
    marked = picture()
    marked[0, 0] = 255
    data = turned(Image.fromarray(marked), orientation, kind)
    found = decode(data)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))  # Pillow's own as the oracle
    assert np.array_equal(found, np.asarray(upright))
    assert found.shape == ((6, 8, 3) if orientation < 5 else (8, 6, 3))
    if kind != "JPEG":
        assert np.array_equal(found, UPRIGHT[orientation](marked))
    opened = Image.open(io.BytesIO(data))
    opened.load()  # as users hand images over: decoded already
    assert np.array_equal(from_pil(opened), found)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bit_grey_is_turned_once_too(kind: str) -> None:
    values = picture()[:, :, 0].astype(np.uint16) * 257
    found = decode(turned(Image.fromarray(values), 6, kind))
    assert np.array_equal(found, np.dstack([np.rot90(values // 257, -1)] * 3))


def large_picture(height: int = 600, width: int = 800) -> np.ndarray:
    """Waves, edges and a little noise, as in a photograph."""
    y, x = np.mgrid[:height, :width]
    waves = np.dstack([np.sin(x / 17) + np.cos(y / 29), np.sin((x + y) / 41), np.cos(x / 7) * np.sin(y / 11)])
    noise = np.random.default_rng(0).normal(0, 4, waves.shape)
    return np.clip(110 + 40 * waves + 60 * ((x // 90 + y // 70) % 2)[..., None] + noise, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("side", [20, 37, 75, 100])
def test_a_large_jpeg_is_reduced_as_it_is_decoded(mode: str, side: int) -> None:
    """Against decoding every pixel: what `fit` makes of both differs by rounding."""
    data = encode(Image.fromarray(large_picture()).convert(mode), "JPEG", quality=92)
    whole, reduced = decode(data), decode(data, side=side)
    assert 3 * side <= min(reduced.shape[:2]) < 600
    assert reduced.shape[0] * 4 == reduced.shape[1] * 3
    difference = np.abs(fit(whole, side).astype(int) - fit(reduced, side))
    assert difference.max() <= 3
    assert difference.mean() < 0.5


@pytest.mark.parametrize("kind", ["JPEG", "MPO"])
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_a_reduced_jpeg_is_upright(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encode(Image.fromarray(large_picture()), kind, exif=exif, quality=92)
    whole, reduced = decode(data), decode(data, side=60)
    assert (reduced.shape[0] < reduced.shape[1]) == (orientation < 5)
    assert np.abs(fit(whole, 60).astype(int) - fit(reduced, 60)).max() <= 3


def test_what_is_small_or_no_jpeg_is_decoded_whole() -> None:
    for kind in ("PNG", "WEBP", "TIFF", "BMP", "GIF", "PPM"):
        data = encode(large_picture(), kind)
        assert np.array_equal(decode(data, side=10), decode(data))
    for pixels, side in ((large_picture(), 101), (large_picture(601, 800), 20), (large_picture(600, 799), 20)):
        jpeg = encode(pixels, "JPEG", quality=92)  # too few pixels would be left, or a part of one
        assert np.array_equal(decode(jpeg, side=side), decode(jpeg))
    half = decode(encode(large_picture(602, 802), "JPEG"), side=20)
    assert half.shape[:2] == (301, 401)


def test_damage_shows_when_a_jpeg_is_reduced() -> None:
    data = encode(large_picture(), "JPEG", quality=92)
    with pytest.raises(DataError, match="truncated"):
        decode(data[: len(data) // 2], side=20)


@pytest.mark.parametrize("name", list(broken_files()))
def test_damage_is_refused_with_a_reason(name: str) -> None:
    data, reason = broken_files()[name]
    with pytest.raises(DataError, match=reason):
        decode(data)


def test_every_format_is_known_before_the_first_file_is_opened() -> None:
    """Else threads that meet the first WebP together race for Pillow's plug-ins, and some call it unknown."""
    program = (
        "from wildspec.data.decode import decode; from wildspec.data.headers import FORMATS; from PIL import Image\n"
        "print(set(FORMATS) - set(Image.OPEN))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.stdout == b"set()\n", done.stderr.decode()


def test_the_pixel_limit_is_a_parameter_and_read_off_the_header() -> None:
    data = encode(picture(0, 10, 10))
    assert decode(data, max_pixels=100).shape == (10, 10, 3)
    with pytest.raises(DataError, match=r"10 x 10 pixels.*limit of 99"):
        decode(data, max_pixels=99)
    with pytest.raises(DataError, match=r"8000 x 8000 pixels.*limit of 1,000,000"):
        decode(bomb(8000)[:60], max_pixels=1_000_000)  # the header suffices: there are no pixels behind it


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (picture(), picture()),
        (torch.from_numpy(picture()).permute(2, 0, 1), picture()),
        (picture()[:, :, 0], np.dstack([picture()[:, :, 0]] * 3)),
        (picture()[None, :, :, 0], np.dstack([picture()[:, :, 0]] * 3)),
        (picture() / np.float32(255), picture()),
        (torch.from_numpy(picture()).permute(2, 0, 1).float() / 255, picture()),
        (picture().astype(np.uint16) * 257, picture()),
        (picture().astype(np.int64), picture()),
        (picture() > 127, (picture() > 127) * 255),
    ],
)
def test_arrays_of_every_usual_layout(array: object, expected: np.ndarray) -> None:
    out = from_array(array)
    assert out.dtype == np.uint8
    assert np.array_equal(out, expected)


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((5, 4, 2), np.uint8), r"got shape \(5, 4, 2\)"),
        (np.zeros(4, np.uint8), r"got shape \(4,\)"),
        (np.full((4, 4), 1.5), r"\[0, 1\], got 1.5"),
        (np.full((4, 4), np.nan), r"\[0, 1\], got nan"),
        (np.full((4, 4), -1), r"int64 pixels must lie in \[0, 255\]"),
        (np.zeros((4, 4), complex), "must be numbers, got complex128"),
    ],
)
def test_arrays_that_are_no_images(array: np.ndarray, says: str) -> None:
    with pytest.raises(DataError, match=says):
        from_array(array)


@pytest.mark.parametrize(("height", "width", "size"), [(40, 64, 20), (64, 40, 20), (33, 47, 16), (9, 9, 24), (5, 21, 12)])
def test_fit_is_resize_then_centre_crop(height: int, width: int, size: int) -> None:
    """Against Pillow in two steps; the image is smooth, so that half a pixel of rounding in the crop cannot hide."""
    y, x = np.mgrid[:height, :width]
    smooth = np.dstack([x * 255 / width, y * 255 / height, (x + y) * 255 / (width + height)]).astype(np.uint8)
    scale = size / min(height, width)
    whole = Image.fromarray(smooth).resize((round(width * scale), round(height * scale)), Image.Resampling.BILINEAR)
    left, top = (whole.width - size) // 2, (whole.height - size) // 2
    expected = np.asarray(whole.crop((left, top, left + size, top + size))).astype(int)
    out = fit(smooth, size)
    assert out.shape == (size, size, 3)
    # The crop's own border cannot see past itself, so there Pillow's antialiasing averages fewer pixels.
    assert np.abs(out - expected).max() <= 6
    assert np.abs(out - expected)[2:-2, 2:-2].max() <= 1


def test_fit_leaves_the_right_size_alone_and_survives_a_strip() -> None:
    square = picture(0, 8, 8)
    assert fit(square, 8) is square
    assert fit(picture(0, 1, 20_000), 32).shape == (32, 32, 3)


def test_sixteen_bits_mean_the_same_in_either_byte_order() -> None:
    """What reads TIFF or FITS gives them as the file has them."""
    for values in (np.array([[0, 100, 255]]), np.array([[0, 257, 65535]])):
        expected = np.rint(values / 257)
        for order in "<>":
            assert np.array_equal(from_array(values.astype(f"{order}u2"))[..., 0], expected)


def test_advice_about_float_pixels_fits_what_was_given() -> None:
    with pytest.raises(DataError, match="by 255"):
        from_array(np.full((4, 4), 200.0))
    for normalized in (-1.5, float("nan")):
        with pytest.raises(DataError, match=r"normaliz(ed|ation)"):
            from_array(np.full((4, 4), normalized))
