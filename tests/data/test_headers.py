"""The one list of formats, by content: sizes against Pillow's own, and what costs seconds or starts programs is refused."""

import io
import os
import stat
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from image_files import encode, picture
from PIL import Image, TiffImagePlugin

from wildspec.data.decode import decode, from_pil
from wildspec.data.folder import FilesSource, FolderSource
from wildspec.data.headers import FORMATS, MAX_PIECES, MAX_SCANS, look
from wildspec.errors import DataError

VARIANTS = [
    ("JPEG", {}), ("JPEG", {"progressive": True}), ("JPEG", {"restart_marker_blocks": 1}), ("PNG", {}), ("GIF", {}),
    ("WEBP", {}), ("WEBP", {"lossless": True}), ("WEBP", {"lossless": True, "exif": b"Exif\0\0"}), ("BMP", {}), ("PPM", {}),
    ("TIFF", {}), ("TIFF", {"big_tiff": True}),
    *(("TIFF", {"compression": name}) for name in ("tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options"), VARIANTS)
def test_format_and_size_are_those_that_pillow_finds(kind: str, options: dict) -> None:
    data = encode(picture(3, 37, 21), kind, **options)
    found = look(data)
    assert (found.format, found.width, found.height) == (kind, 21, 37)
    assert decode(data).shape == (37, 21, 3)


def test_a_thumbnail_within_a_jpeg_is_not_its_frame() -> None:
    small = encode(picture(0, 8, 8), "JPEG")
    data = encode(picture(1, 40, 30), "JPEG")
    data = data[:2] + b"\xff\xe5" + struct.pack(">H", len(small) + 2) + small + data[2:]
    assert (look(data).width, look(data).height) == (30, 40)
    assert decode(data).shape == (40, 30, 3)


def test_further_sizes_bmp_of_os2_gif_beyond_its_screen_pgm_of_16_bits() -> None:
    core = b"BM" + struct.pack("<IHHI", 26 + 8, 0, 0, 26) + struct.pack("<IHHHH", 12, 2, 1, 1, 24) + bytes(8)
    assert (look(core).width, look(core).height) == (2, 1)
    gif = bytearray(encode(Image.new("P", (5, 4)), "GIF"))
    gif[6:10] = struct.pack("<HH", 1, 1)
    assert look(bytes(gif)).width == Image.open(io.BytesIO(gif)).size[0] == 5
    grey = b"P5 # why not\n3 1\n65535\n" + np.array([0, 257, 65535], ">u2").tobytes()
    assert decode(grey)[0, :, 0].tolist() == [0, 1, 255]


def rle_bmp(width: int = 8, height: int = 2) -> bytes:
    pixels = b"\x00\x01"
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 1, len(pixels), 0, 0, 256, 0)
    return b"BM" + struct.pack("<IHHI", 54 + 1024 + len(pixels), 0, 0, 54 + 1024) + head + bytes(1024) + pixels


def many_scans(count: int) -> bytes:
    """A JPEG whose only scan is there many times."""
    data = encode(picture(0, 16, 16), "JPEG")
    start = data.index(b"\xff\xda")
    return data[:start] + data[start:-2] * count + data[-2:]


def png_of(chunks: int) -> bytes:
    data = encode(picture())
    extra = struct.pack(">I", 0) + b"teXt" + struct.pack(">I", zlib.crc32(b"teXt"))
    return data[:33] + extra * chunks + data[33:]


def gif_of(blocks: int) -> bytes:
    data = encode(Image.new("P", (4, 4)), "GIF")
    head = 13 + (3 << (data[10] & 7) + 1 if data[10] & 128 else 0)
    return data[:head] + b"\x21\xfe" + b"\x01x" * blocks + b"\0" + data[head:]


def tiff_with(tag: int, value: int) -> bytes:
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    data = bytearray(encode(picture(), "TIFF", tiffinfo=tags))
    place = struct.unpack_from("<I", data, 4)[0]
    for i in range(struct.unpack_from("<H", data, place)[0]):
        at = place + 2 + 12 * i
        if struct.unpack_from("<H", data, at)[0] == tag:
            struct.pack_into("<HII", data, at + 2, 4, 1, value)
    return bytes(data)


REFUSED = {
    "comments that cost the square of their length": (b"P1\n360 360\n" + b"#\n" * 100, "text"),
    "grey in text": (b"P2 2 1 255 1 2 ", "text"),
    "colours in text": (b"P3 1 1 255 1 2 3 ", "text"),
    "a largest value of 15": (b"P6 1 1 15 abc", "largest value is 15"),
    "16 bits of colour": (b"P6 1 1 65535 abcdef", "largest value is 65535"),
    "a header of comments alone": (b"P6\n" + b"#\n" * 5000 + b"1 1 255 abc", "PPM without width"),
    "run lengths": (rle_bmp(), "run-length"),
    "wide run lengths": (rle_bmp(12_500_000, 2), "run-length"),
    "scans": (many_scans(MAX_SCANS + 1), "scans"),
    "chunks": (png_of(MAX_PIECES), "chunks"),
    "blocks": (gif_of(MAX_PIECES + 1), "blocks"),
    "a codec of TIFF": (tiff_with(259, 50000), "compression 50000"),
    "an old JPEG in TIFF": (tiff_with(259, 6), "compression 6"),
    "PostScript": (encode(picture(), "EPS"), "not an image"),
    "FITS": (b"SIMPLE  =                    T".ljust(2880), "not an image"),
    "QOI": (b"qoif" + bytes(20), "not an image"),
    "an icon": (encode(picture(0, 16, 16), "ICO"), "not an image"),
    "JPEG 2000": (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "not an image"),
    "sound": (b"RIFF\0\0\0\0WAVEfmt ", "not an image"),
    "half a header": (encode(picture())[:20], "damaged"),
    "no pixels": (b"P6 0 5 255 ", "0 x 5"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_refused_before_a_decoder_sees_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, reason = REFUSED[name]
    monkeypatch.setattr(Image, "open", lambda *given, **options: pytest.fail("it was opened"))
    with pytest.raises(DataError, match=reason):
        decode(data)


def test_limits_are_not_reached_by_honest_files() -> None:
    assert decode(png_of(100)).shape == (6, 8, 3)
    assert decode(gif_of(100)).shape == (4, 4, 3)


def test_a_webp_is_refused_by_its_header_before_its_canvas_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(encode(picture(), "WEBP", lossless=True))
    data[21:25] = struct.pack("<I", 4999 | 4999 << 14)  # 5,000 x 5,000
    monkeypatch.setattr(Image, "open", lambda *given, **options: pytest.fail("it was opened"))
    with pytest.raises(DataError, match=r"5000 x 5000 pixels.*limit"):
        decode(bytes(data), max_pixels=1_000_000)


@pytest.mark.parametrize("data", [b"P1 2 1 1 0 ", b"P6 1 1 15 abc", rle_bmp()])
def test_an_image_that_pillow_has_opened_is_not_decoded_in_python(data: bytes) -> None:
    with pytest.raises(DataError, match="packed as"):
        from_pil(Image.open(io.BytesIO(data)))


def test_nothing_starts_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow renders PostScript by Ghostscript, whatever the file is called."""
    log, stub = tmp_path / "log", tmp_path / "bin" / "gs"
    stub.parent.mkdir()
    stub.write_text(f"#!/bin/sh\necho started >> {log}\nexit 1\n", encoding="utf-8")
    stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{stub.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)  # it looks for the program once
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "photo.png").write_bytes(encode(picture(), "EPS"))
    with pytest.raises(DataError, match="not an image"):
        FolderSource(tmp_path / "pictures").load(0)
    with pytest.raises(DataError, match="EPS is none of"):
        from_pil(Image.open(tmp_path / "pictures" / "photo.png"))
    assert not log.exists()


def test_every_format_of_the_list_can_be_read() -> None:
    assert {kind for kind, _ in VARIANTS} == set(FORMATS)


def test_links_to_devices_pipes_and_endless_files_are_rows_of_their_own(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "sparse", "wb") as stream:
        stream.truncate(40 << 30)
    targets = {"zero.png": "/dev/zero", "folder.png": tmp_path}
    targets |= {f"{name}.png": tmp_path / name for name in ("pipe", "sparse")}
    for name, target in targets.items():
        (tmp_path / name).symlink_to(target)
    (tmp_path / "sound.png").write_bytes(encode(picture()))
    (tmp_path / "link.png").symlink_to(tmp_path / "sound.png")
    reasons = {}
    for name in (*targets, "sound.png", "link.png"):
        try:
            FilesSource([tmp_path / name]).load(0)
        except DataError as error:
            reasons[name] = str(error)
    assert set(reasons) == set(targets)
    assert "no plain file" in reasons["zero.png"]
    assert "no plain file" in reasons["pipe.png"]
    assert "more than the limit" in reasons["sparse.png"]
    assert "folder" in reasons["folder.png"]


def test_an_image_too_large_for_the_memory_is_that_image_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from wildspec.data import load_images

    for i in range(30):
        (tmp_path / f"{i}.png").write_bytes(encode(picture(i)))
    source = FolderSource(tmp_path)
    plain = source.reduced

    def reduced(i: int, side: int) -> np.ndarray:
        if i == 7:
            raise MemoryError
        return plain(i, side)

    monkeypatch.setattr(source, "reduced", reduced)
    found = load_images(source, 8)
    assert len(found) == 29
    assert [(item.name, item.reason) for item in found.unreadable] == [("7.png", "not enough memory to decode it")]
