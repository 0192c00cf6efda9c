"""Encoded bytes, or an array of any usual layout, to uint8 (H, W, 3). What cannot be decoded is a DataError with a reason.

Grey is repeated; palettes are resolved; transparency is composited on black (what most encoders store under transparent
pixels); CMYK and other colour spaces are converted; 16-bit grey is scaled by 1/257, so 65535 becomes 255; of an animation
the first frame is taken; the EXIF orientation is applied.
"""

import io
from typing import Any

import numpy as np

# The plug-ins of our formats, all at the start: Pillow loads them when it first meets such a file, and threads would race.
from PIL import (
    BmpImagePlugin,  # noqa: F401
    GifImagePlugin,  # noqa: F401
    Image,
    ImageFile,
    JpegImagePlugin,  # noqa: F401
    MpoImagePlugin,  # noqa: F401
    PngImagePlugin,  # noqa: F401
    PpmImagePlugin,  # noqa: F401
    TiffImagePlugin,  # noqa: F401
    WebPImagePlugin,  # noqa: F401
)

from wildspec.data.headers import FORMATS, look
from wildspec.errors import DataError, one_line

MAX_PIXELS = 64_000_000  # larger images are refused by their header, before any pixel is decoded
ENOUGH = 3  # times the pixels that are wanted: with fewer, the squares that a reduced JPEG averages show after resizing
_EXIF_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def decode(data: bytes, *, max_pixels: int = MAX_PIXELS, side: int | None = None) -> np.ndarray:
    """An image file's bytes -> uint8 (H, W, 3). Formats are those of `wildspec.data.headers`, told by content.

    ``side``: what `fit` will make of its shorter side. A large JPEG is then decoded at 1/2, 1/4 or 1/8 of its size, which
    takes a fraction of the time; what `fit` makes of it differs by rounding (`_reduction`).
    """
    header = look(data)
    _check_size(header.width, header.height, max_pixels)
    try:
        with Image.open(io.BytesIO(data), formats=[header.format]) as image:
            if side is not None and header.format == "JPEG":
                by = _reduction(image.width, image.height, side)
                image.draft(None, (image.width // by, image.height // by))
            return from_pil(image, max_pixels=max_pixels)
    except DataError:
        raise
    except Image.UnidentifiedImageError as error:
        raise DataError(f"damaged image: the header of this {header.format} cannot be read") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"more pixels than the limit of {max_pixels:,}") from error
    except Exception as error:
        raise _damaged(error) from error


def from_pil(image: Image.Image, *, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """A Pillow image in any mode, decoded or still lazy -> uint8 (H, W, 3), upright."""
    _check_size(*image.size, max_pixels)
    _check_codecs(image)
    try:
        return _to_rgb_pixels(image)
    except DataError:
        raise
    except Exception as error:  # Pillow's plug-ins raise anything on damaged data: OSError, SyntaxError, struct.error, ...
        raise _damaged(error) from error


def _reduction(width: int, height: int, side: int) -> int:
    """By what a JPEG may be reduced: `ENOUGH` times ``side`` pixels are left, and it divides both sides, else the picture
    would be drawn out by the part of a pixel that is left over."""
    factors = (by for by in (8, 4, 2) if width % by == 0 == height % by and min(width, height) >= by * ENOUGH * side)
    return next(factors, 1)


def _check_size(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise DataError(f"{width} x {height} pixels, more than the limit of {max_pixels:,}")


def _check_codecs(image: Image.Image) -> None:
    """Before pixels are decoded: the format must be one of ours, and its decoder compiled. One in Python costs seconds for a
    few bytes; that of PostScript starts a program. An image that its owner has decoded is taken as it is."""
    tiles = getattr(image, "tile", None) or []
    lazy = bool(tiles) or isinstance(image, ImageFile.StubImageFile)
    if lazy and image.format not in (*FORMATS, "MPO"):  # MPO: a JPEG with further ones behind it
        raise DataError(f"{image.format} is none of the formats read here ({', '.join(FORMATS)}); call its load() first")
    slow = next((tile[0] for tile in tiles if tile[0] in Image.DECODERS), None)
    if slow is not None:
        raise DataError(f"a {image.format} whose pixels are packed as {slow}; save it as PNG")


def _damaged(error: Exception) -> DataError:
    if isinstance(error, MemoryError):
        return DataError("not enough memory to decode it")
    return DataError(f"damaged image: {one_line(error)}")


def _to_rgb_pixels(image: Image.Image) -> np.ndarray:
    image.load()  # a TIFF is turned by Pillow as it is loaded, and reports 1 from then on: asked before, it would turn twice
    turn = _TURNS.get(_orientation(image))
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        pixels = _grey_levels(np.asarray(image), image.mode)
        image = Image.fromarray(pixels)
    has_alpha = image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info
    if has_alpha:
        colour = image.convert("RGBA")
        image = Image.new("RGB", image.size)
        image.paste(colour, mask=colour.getchannel("A"))
    elif image.mode != "RGB":
        image = image.convert("RGB")
    if turn is not None:
        image = image.transpose(turn)
    return np.array(image, dtype=np.uint8)


def from_array(pixels: Any) -> np.ndarray:
    """One image as array or tensor, (H, W), (H, W, 1|3|4) or (1|3|4, H, W) -> uint8 (H, W, 3).

    uint8 as it is, bool and float in [0, 1] scaled to 255, uint16 scaled by 1/257.
    """
    array = as_numpy(pixels)
    if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        array = array.transpose(1, 2, 0)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4):
        raise DataError(f"an image array must be (H, W), (H, W, 1|3|4) or (1|3|4, H, W), got shape {array.shape}")
    return to_rgb(to_uint8(array))


def as_numpy(pixels: Any) -> np.ndarray:
    """Arrays, lists and tensors (bfloat16 too, which numpy does not know) as a numpy array."""
    if not hasattr(pixels, "detach"):
        return np.asarray(pixels)
    tensor = pixels.detach().cpu()
    return np.asarray(tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor)


def to_uint8(array: np.ndarray) -> np.ndarray:
    """Pixel values of any usual type -> uint8."""
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:  # in either byte order
        return ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if np.issubdtype(array.dtype, np.floating):
        low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
        if not (low >= 0 and high <= 1):  # also refuses NaN
            advice = "divide those up to 255 by 255" if low >= 0 else "undo their normalization"
            raise DataError(f"floating-point pixels must lie in [0, 1], got {low:g} to {high:g}; {advice}")
        return np.rint(array.astype(np.float32) * 255).astype(np.uint8)
    if np.issubdtype(array.dtype, np.integer):
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        if low < 0 or high > 255:
            raise DataError(f"{array.dtype} pixels must lie in [0, 255], got {low} to {high}")
        return array.astype(np.uint8)
    raise DataError(f"pixels must be numbers, got {array.dtype}")


def to_rgb(array: np.ndarray) -> np.ndarray:
    """(..., 1|3|4) uint8 -> (..., 3): grey repeated, alpha composited on black."""
    channels = array.shape[-1]
    if channels == 1:
        return np.repeat(array, 3, axis=-1)
    if channels == 4:
        return ((array[..., :3].astype(np.uint16) * array[..., 3:] + 127) // 255).astype(np.uint8)
    return array


def fit(pixels: np.ndarray, size: int) -> np.ndarray:
    """(H, W, 3) -> (size, size, 3): shorter side resized to ``size`` (antialiased, bilinear), then the centre cut out."""
    height, width = pixels.shape[:2]
    if (height, width) == (size, size):
        return pixels
    scale = size / min(height, width)
    to_height, to_width = max(size, round(height * scale)), max(size, round(width * scale))
    # Only the part that the crop keeps is computed: a 1 x 10,000 strip must not become 32 x 320,000.
    top, left = (to_height - size) // 2, (to_width - size) // 2
    down, across = height / to_height, width / to_width
    box = (left * across, top * down, (left + size) * across, (top + size) * down)
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box=box))


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_EXIF_ORIENTATION, 1))
    except Exception:  # a damaged EXIF block is no reason to refuse sound pixels
        return 1


def _grey_levels(values: np.ndarray, mode: str) -> np.ndarray:
    if mode == "F":
        return to_uint8(values)
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > 65535:
        raise DataError(f"grey levels must fit 16 bits, got {low} to {high}")
    return to_uint8(values.astype(np.uint16))
