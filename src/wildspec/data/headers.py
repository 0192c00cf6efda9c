"""What an image file says of itself: format, width, height. Read here, in bounded time, before any decoder sees the file.

One list of formats wherever images come from (folders, parquet, the hub, the service), by content and never by name:

    JPEG   at most MAX_SCANS scans                    GIF    its first frame
    PNG    at most MAX_PIECES chunks                  BMP    without run-length encoding
    WebP                                              TIFF   uncompressed, LZW, deflate, PackBits, JPEG, fax
    PPM    binary (P4, P5, P6), 8 bits, or 16 bits of grey

Left out are formats that Pillow opens by starting a program (PostScript), that it decodes in Python (text PPM, RLE BMP,
FITS, QOI, ...: seconds for a few bytes), and all others: each is more code that unknown files can reach.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

from wildspec.errors import DataError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # as Pillow calls them
# A file is looked at in a folder by its name, and read by its content.
EXTENSIONS = (".png", ".jpg", ".jpeg", ".jfif", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
# Other files (notes, Thumbs.db) nobody expects to be read; these a user takes for images.
NOT_READ = (
    ".heic", ".heif", ".avif", ".jxl", ".jp2", ".psd", ".svg", ".raw", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf",
    ".raf", ".rw2",
)  # fmt: skip
MAX_SCANS = 32  # of a JPEG: each goes over all pixels again; encoders write about 10
MAX_PIECES = 50_000  # chunks, segments, blocks, strips: each costs time in Python, and an honest file has far fewer
_MARKER = re.compile(rb"\xff([\x01-\xcf\xd8-\xfe])")  # no stuffed byte, no restart, no filling
_PPM = re.compile(rb"P([456])" + 3 * rb"(?:(?:\s|#[^\r\n]*[\r\n])+([0-9]{1,9}))?")
_PPM_HEAD = 1024  # bytes in which its header must end
_TIFF_CODECS = {1: "none", 3: "fax 3", 4: "fax 4", 5: "LZW", 7: "JPEG", 8: "deflate", 32773: "PackBits", 32946: "deflate"}
_TIFF_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}


@dataclass(frozen=True)
class Header:
    """``format``: Pillow's name of it."""

    format: str
    width: int
    height: int

    @property
    def pixels(self) -> int:
        return self.width * self.height

    @property
    def shorter_side(self) -> int:
        return min(self.width, self.height)


def look(data: bytes) -> Header:
    """Format and size of an encoded image; DataError where it is none of ours, or costs more than an image should."""
    if len(data) == 0:
        raise DataError("the file is empty (0 bytes)")
    for begins, read in _READERS:
        if data.startswith(begins):
            try:
                found = read(data)
            except (struct.error, IndexError) as error:
                raise DataError("damaged image: it ends within its header") from error
            if found.width < 1 or found.height < 1:
                raise DataError(f"damaged image: {found.width} x {found.height} pixels")
            return found
    if data[4:8] == b"ftyp":  # the first box of a file of that family
        raise DataError("HEIC, AVIF or a film, which are not read; save it as JPEG or PNG")
    raise DataError(f"not an image of a known format (it begins with {data[:8]!r})")


def _jpeg(data: bytes) -> Header:
    size, scans, place = None, 0, 2
    for _ in range(MAX_PIECES):
        marker = _MARKER.search(data, place)
        if marker is None or marker[1] == b"\xd9":
            break
        code, place = marker[1][0], marker.end()
        if code == 0x01 or code == 0xD8:  # without content
            continue
        if 0xC0 <= code <= 0xCF and code not in (0xC4, 0xC8, 0xCC) and size is None:
            size = struct.unpack_from(">HH", data, place + 3)
        if code == 0xDA:
            scans += 1
            if scans > MAX_SCANS:
                raise DataError(f"a JPEG of more than {MAX_SCANS} scans; save it again with fewer")
        if place + 2 > len(data):
            break
        place += max(2, struct.unpack_from(">H", data, place)[0])
    else:
        raise _too_many("segments")
    if size is None:
        raise DataError("damaged image: a JPEG without a frame")
    return Header("JPEG", size[1], size[0])


def _png(data: bytes) -> Header:
    if data[12:16] != b"IHDR":
        raise DataError("damaged image: a PNG that does not begin with its header")
    width, height = struct.unpack_from(">II", data, 16)
    place = 8
    for _ in range(MAX_PIECES):
        if place + 8 > len(data) or data[place + 4 : place + 8] == b"IEND":
            return Header("PNG", width, height)
        place += 12 + struct.unpack_from(">I", data, place)[0]
    raise _too_many("chunks")


def _webp(data: bytes) -> Header:
    kind = data[12:16]
    if data[8:12] != b"WEBP" or kind not in (b"VP8 ", b"VP8L", b"VP8X"):
        raise DataError(f"not an image of a known format (it begins with {data[:8]!r})")
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return Header("WEBP", width & 0x3FFF, height & 0x3FFF)
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        return Header("WEBP", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if len(data) < 30:
        raise struct.error
    return Header("WEBP", int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1)


def _gif(data: bytes) -> Header:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    place = 13 + (3 << (flags & 7) + 1 if flags & 128 else 0)
    blocks = 0
    while data[place] == 0x21:  # extensions before the first frame
        place += 2
        while data[place]:
            place += 1 + data[place]
            blocks += 1
            if blocks > MAX_PIECES:
                raise _too_many("blocks")
        place += 1
        blocks += 1
    if data[place] != 0x2C:
        raise DataError("damaged image: a GIF without a frame")
    left, top, across, down = struct.unpack_from("<HHHH", data, place + 1)
    return Header("GIF", max(width, left + across), max(height, top + down))


def _bmp(data: bytes) -> Header:
    head = struct.unpack_from("<I", data, 14)[0]
    if head == 12:
        return Header("BMP", *struct.unpack_from("<HH", data, 18))
    width, height, _, _, packing = struct.unpack_from("<iiHHI", data, 18)
    if packing not in (0, 3, 6):
        raise DataError("a BMP with run-length or other encoding; save it as PNG")
    return Header("BMP", width, abs(height))


def _tiff(data: bytes) -> Header:
    end = "<" if data[:2] == b"II" else ">"
    big = struct.unpack_from(f"{end}H", data, 2)[0] == 43
    place = struct.unpack_from(f"{end}Q", data, 8)[0] if big else struct.unpack_from(f"{end}I", data, 4)[0]
    count = struct.unpack_from(f"{end}{'Q' if big else 'H'}", data, place)[0]
    if count > MAX_PIECES:
        raise _too_many("tags")
    form, step = (f"{end}HHQ", 20) if big else (f"{end}HHI", 12)
    place += 8 if big else 2
    values: dict[int, int] = {}
    counts: dict[int, int] = {}
    for i in range(count):
        at = place + i * step
        tag, kind, number = struct.unpack_from(form, data, at)
        short = struct.unpack_from(f"{end}{'H' if _TIFF_SIZES.get(kind) == 2 else 'I'}", data, at + step - (8 if big else 4))
        counts.setdefault(tag, number)
        values.setdefault(tag, short[0])
    packing = values.get(259, 1)
    if packing not in _TIFF_CODECS:
        known = ", ".join(dict.fromkeys(_TIFF_CODECS.values()))
        raise DataError(f"a TIFF with compression {packing}, expected {known}; save it again")
    if max(counts.get(273, 0), counts.get(324, 0)) > MAX_PIECES:
        raise _too_many("strips")
    width, height = values.get(256, 0), values.get(257, 0)
    tile = values.get(322, 0) * values.get(323, 0)
    if tile > 4 * max(width * height, 1 << 16):  # a tile may be larger than a small image, but is decoded whole
        raise DataError(f"damaged image: a TIFF of {width} x {height} pixels in tiles of {tile:,}")
    return Header("TIFF", width, height)


def _ppm(data: bytes) -> Header:
    found = _PPM.match(data, 0, _PPM_HEAD)
    if found is None or found[3] is None or (found[1] != b"4" and found[4] is None):
        raise DataError("damaged image: a PPM without width, height and largest value in its first bytes")
    if found[1] != b"4" and found[4] != b"255" and (found[1], found[4]) != (b"5", b"65535"):
        raise DataError(f"a PPM whose largest value is {int(found[4])}, expected 255; save it again")
    return Header("PPM", int(found[2]), int(found[3]))


def _text_ppm(data: bytes) -> Header:
    raise DataError("a PPM in text; save it in binary, or as PNG")


def _too_many(what: str) -> DataError:
    return DataError(f"an image file of more than {MAX_PIECES:,} {what}; save it again")


_READERS: tuple[tuple[bytes | tuple[bytes, ...], Callable[[bytes], Header]], ...] = (
    (b"\xff\xd8\xff", _jpeg),
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"RIFF", _webp),
    ((b"GIF87a", b"GIF89a"), _gif),
    (b"BM", _bmp),
    ((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), _tiff),
    ((b"P4", b"P5", b"P6"), _ppm),
    ((b"P1", b"P2", b"P3"), _text_ppm),
)
