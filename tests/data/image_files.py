"""Makes real image files, sound and broken, for the tests of this folder."""

import io
import json
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def encode(pixels: np.ndarray | Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    image = Image.fromarray(pixels) if isinstance(pixels, np.ndarray) else pixels
    stream = io.BytesIO()
    image.save(stream, format=kind, **options)
    return stream.getvalue()


def picture(number: int = 0, height: int = 6, width: int = 8) -> np.ndarray:
    """uint8 (H, W, 3), different for every number."""
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)


def bomb(side: int = 30_000) -> bytes:
    """A sound PNG of side x side black pixels, one bit each: some kilobytes on disk, gigabytes when decoded to RGB."""
    packer = zlib.compressobj(9)
    row = bytes(1 + (side + 7) // 8)
    data = b"".join([*(packer.compress(row * 100) for _ in range(side // 100)), packer.flush()])

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@cache
def broken_files() -> dict[str, tuple[bytes, str]]:
    """Name -> (bytes, part of the reason it must be refused with)."""
    jpeg, png, webp = (encode(picture(1, 64, 64), kind) for kind in ("JPEG", "PNG", "WEBP"))
    return {
        "empty.png": (b"", "0 bytes"),
        "text.png": (b"this is not an image\n", "not an image"),
        "half.jpg": (jpeg[: len(jpeg) // 2], "truncated"),
        "half.png": (png[: len(png) // 2], "damaged"),
        "half.webp": (webp[: len(webp) // 2], "damaged|not an image"),
        "head.png": (png[:30], "damaged|not an image"),
        "bomb.png": (bomb(), "limit of 64,000,000"),
    }


def write_parquet(
    path: Path,
    images: list[bytes | None],
    labels: list[Any] | None = None,
    classes: list[str] | None = None,
    row_group_size: int = 4,
    **columns: list[Any],
) -> None:
    """A shard in the Hugging Face layout."""
    struct_type = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    arrays = {"image": pa.array([{"bytes": data, "path": None} for data in images], type=struct_type)}
    features: dict[str, Any] = {"image": {"_type": "Image"}}
    if labels is not None:
        arrays["label"] = pa.array(labels)
        features["label"] = {"_type": "ClassLabel", "names": classes} if classes else {"_type": "Value", "dtype": "int64"}
    arrays.update({name: pa.array(values) for name, values in columns.items()})
    table = pa.table(arrays).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, path, row_group_size=row_group_size)


def put(path: Path, number: int = 0) -> Path:
    """A picture in a file, its folders made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(picture(number)))
    return path
