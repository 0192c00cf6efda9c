"""From encoded images to pixels: headers are looked at first, small images are decoded in passing, others by a process."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from wildspec.data.decode import decode, fit
from wildspec.data.headers import look
from wildspec.errors import DataError
from wildspec.serving.bodies import Refused, Upload, bad_images
from wildspec.serving.decode_pool import BROKE_DOWN, TOO_LONG, Decoded

SMALL_BYTES, SMALL_PIXELS = 128 << 10, 512 * 512  # decoded in passing, in a millisecond or two
SMALL_FORMATS = ("JPEG", "PNG")  # nearly all there is; less code reads uploads in the service itself


def look_at(uploads: list[Upload], most: int, together: int) -> bool:
    """May these be decoded in passing? Nothing is decoded here. `Refused` where no header is in order, or one more than
    ``most`` pixels, and where all together have more than ``together``; what is bad among good ones is told by `stacked`."""
    small, total = True, 0
    failed: list[dict[str, Any]] = []
    for i, upload in enumerate(uploads):
        try:
            header = look(upload.data)
            if header.pixels > most:
                raise DataError("too many pixels")
        except DataError as error:
            failed.append(_told(i, upload, str(error), most))
            continue
        total += header.pixels
        small &= len(upload.data) <= SMALL_BYTES and header.pixels <= SMALL_PIXELS and header.format in SMALL_FORMATS
    if len(failed) == len(uploads):
        raise bad_images("bad_image", "cannot be read", failed, len(uploads))
    if total > together:
        raise Refused(413, "too_large", f"the images have {total:,} pixels, at most {together:,} a request")
    return small and not failed


def decode_small(uploads: list[Upload], size: int) -> np.ndarray | None:
    """uint8 (n, 3, S, S), in this thread; None where one is bad: let the process that decodes say why."""
    try:
        decoded = [decode(one.data, max_pixels=SMALL_PIXELS, side=size) for one in uploads]
        return np.stack([fit(pixels, size).transpose(2, 0, 1) for pixels in decoded])
    except DataError:
        return None


def stacked(uploads: list[Upload], decoded: Sequence[Decoded], most: int) -> np.ndarray:
    """uint8 (n, 3, S, S) of what a `DecodePool` gave; `Refused` names every image that could not be decoded."""
    failed = [_told(i, uploads[i], item, most) for i, item in enumerate(decoded) if isinstance(item, str)]
    if failed:
        raise bad_images("bad_image", "cannot be read", failed, len(uploads))
    return np.stack([item for item in decoded if not isinstance(item, str)])


def _told(i: int, upload: Upload, reason: str, most: int) -> dict[str, Any]:
    return {"index": i, "name": upload.name, "reason": _plain_reason(reason, most)}


def _plain_reason(reason: str, most: int) -> str:
    """One of a few reasons in our own words: a decoder's words may name things of this machine."""
    if reason in (TOO_LONG, BROKE_DOWN):
        return reason
    if "empty" in reason:
        return "the image is empty"
    if "pixels, more than" in reason or "too many pixels" in reason or "more pixels" in reason:
        return f"the image has more than {most:,} pixels"
    if "known format" in reason:
        return "not an image of a known format"
    if "save it" in reason:  # a kind of its format that is not read here
        return "an image of a kind that is not read here; save it as JPEG or PNG"
    return "the image is damaged"
