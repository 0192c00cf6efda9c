"""Uploads that cost far more than their bytes: what each gets, how long it takes, and what a photograph meanwhile gets.

    python benchmarks/faults/uploads.py

Four of a kind at a time, on a service with its usual limits; then SIGTERM while four more are under way.
"""

import struct
import sys
import tempfile
import threading
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
from fault_tools import Service, encoded, record, serving, small_model

SIDE = 5000


def run_length_bmp() -> bytes:
    head = struct.pack("<IiiHHIIiiII", 40, 12_500_000, 2, 1, 8, 1, 2, 0, 0, 256, 0)
    return b"BM" + struct.pack("<IHHI", 1080, 0, 0, 1078) + head + bytes(1024) + b"\0\1"


def jpeg_of_scans(scans: int) -> bytes:
    """A progressive JPEG whose last scan is there many times."""
    data = encoded(Image.new("L", (SIDE, SIDE), 7), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * scans + data[-2:]


def png_of_chunks(chunks: int) -> bytes:
    data = encoded(np.zeros((8, 8, 3), np.uint8))
    return data[:33] + (struct.pack(">I", 0) + b"teXt" + struct.pack(">I", zlib.crc32(b"teXt"))) * chunks + data[33:]


def kinds() -> dict[str, bytes]:
    return {
        "text PPM, comments": b"P1\n360 360\n" + b"#\n" * 480_000,
        "PPM of another maximum": b"P5 5000 5000 15\n" + bytes(SIDE * SIDE),
        "run-length BMP": run_length_bmp(),
        "JPEG of 200 scans": jpeg_of_scans(190),
        "JPEG of 30 scans": jpeg_of_scans(20),
        "WebP of 25 million pixels": encoded(Image.new("RGB", (SIDE, SIDE), (1, 2, 3)), "WEBP", lossless=True),
        "PNG of 25 million pixels": encoded(Image.new("RGB", (SIDE, SIDE), (1, 2, 3))),
        "PNG of a million chunks": png_of_chunks(1_000_000),
        "PostScript": encoded(Image.new("RGB", (8, 8)), "EPS"),
    }


def at_once(service: Service, body: bytes, photo: bytes) -> dict[str, Any]:
    """Four of them, and a photograph while they are under way."""
    answers: list[tuple[int, float]] = []
    threads = [threading.Thread(target=lambda: answers.append(service.ask(body))) for _ in range(4)]
    for thread in threads:
        thread.start()
    status, seconds = service.ask(photo)
    for thread in threads:
        thread.join()
    return {
        "bytes": len(body), "statuses": sorted(status for status, _ in answers),
        "longest_s": round(max(s for _, s in answers), 2), "photograph": status, "photograph_s": round(seconds, 2),
    }  # fmt: skip


def main() -> None:
    photo = encoded(np.random.default_rng(0).integers(0, 256, (3000, 4000, 3), dtype=np.uint8), "JPEG", quality=60)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, serving(small_model(Path(folder) / "model")) as service:
        found["photograph alone"] = dict(zip(("status", "seconds"), service.ask(photo), strict=True))
        for name, body in kinds().items():
            found[name] = at_once(service, body, photo)
            print(name, found[name], flush=True)
        heavy = kinds()["WebP of 25 million pixels"]
        for _ in range(4):
            threading.Thread(target=service.ask, args=(heavy,), daemon=True).start()
        found["megabytes"] = round(service.megabytes())
        found["ended_after_s"] = round(service.end(), 2)
    record("uploads", found)


if __name__ == "__main__":
    main()
