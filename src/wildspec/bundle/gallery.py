"""Small pictures of some samples, so that a model can show what it means: neighbours, rejected images, the map.

Kept encoded (JPEG; PNG for tiny ones) in one byte tensor with offsets: safetensors only, a few kilobytes each.
"""

import base64
import io
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from wildspec.data.decode import fit
from wildspec.data.source import ImageSource
from wildspec.errors import CheckpointError, DataError

SIDE = 64
TINY = 24  # up to this side JPEG's blocks would show


def encode(pixels: np.ndarray, side: int = SIDE) -> bytes:
    """uint8 (H, W, 3) -> the centre square at no more than ``side`` px, as JPEG or (tiny) PNG."""
    square = fit(pixels, min(side, *pixels.shape[:2]))
    stream = io.BytesIO()
    if len(square) <= TINY:
        Image.fromarray(square).save(stream, "PNG", optimize=True)
    else:
        Image.fromarray(square).save(stream, "JPEG", quality=78, optimize=True)
    return stream.getvalue()


def data_uri(encoded: bytes) -> str:
    """An encoded picture as the address of an <img>."""
    kind = "png" if encoded[:4] == b"\x89PNG" else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(encoded).decode()}"


@dataclass(frozen=True)
class Gallery:
    """``rows``: (m,) int64, ascending: which samples have a picture. ``data``: all pictures; ``ends``: where each stops."""

    rows: np.ndarray
    data: np.ndarray
    ends: np.ndarray

    @classmethod
    def make(cls, source: ImageSource, numbers: np.ndarray, rows: Iterable[int], side: int = SIDE) -> "Gallery":
        """Pictures of samples ``rows``; sample i is item ``numbers[i]`` of ``source``. What cannot be read is left out."""
        kept, pictures = [], []
        for row in sorted(set(rows)):
            try:
                pictures.append(encode(source.reduced(int(numbers[row]), side), side))
            except DataError:
                continue
            kept.append(row)
        return cls.of(dict(zip(kept, pictures, strict=True)))

    @classmethod
    def of(cls, pictures: dict[int, bytes]) -> "Gallery":
        """Sample -> its encoded picture."""
        rows = sorted(pictures)
        return cls(
            np.array(rows, dtype=np.int64),
            np.frombuffer(b"".join(pictures[row] for row in rows), dtype=np.uint8),
            np.cumsum([len(pictures[row]) for row in rows], dtype=np.int64) if rows else np.empty(0, dtype=np.int64),
        )

    @classmethod
    def empty(cls) -> "Gallery":
        return cls(np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.rows)

    def get(self, row: int) -> bytes | None:
        """The encoded picture of a sample; None where none was kept."""
        place = int(np.searchsorted(self.rows, row))
        if place == len(self.rows) or self.rows[place] != row:
            return None
        start = int(self.ends[place - 1]) if place else 0
        return self.data[start : int(self.ends[place])].tobytes()

    def to_tensors(self, prefix: str) -> dict[str, Tensor]:
        parts = {"rows": self.rows, "data": self.data, "ends": self.ends}
        return {f"{prefix}.{name}": torch.from_numpy(part.copy()) for name, part in parts.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], prefix: str) -> "Gallery":
        try:
            rows, data, ends = (tensors[f"{prefix}.{name}"].numpy() for name in ("rows", "data", "ends"))
        except KeyError as error:
            raise CheckpointError(f"the bundle's pictures are incomplete: {error} is missing; fit it again") from error
        rising = len(ends) == len(rows) and (np.diff(ends, prepend=0) >= 0).all() and (np.diff(rows) > 0).all()
        if not rising or (len(ends) and ends[-1] != len(data)):
            raise CheckpointError("the bundle's pictures are inconsistent; fit the model again")
        return cls(rows, data, ends)
