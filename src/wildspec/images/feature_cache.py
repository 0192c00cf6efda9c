"""Features of images that were computed once, kept for next time.

    FOLDER/KEY/NUMBER.safetensors      digests (b, 16) uint8, values (b, d) float16, scale (b,) float32

KEY says what the features are of: the network's weights and the size of its input. An image is found by the digest
of its pixels, so names do not matter and new images cost only themselves. Shards are written beside and renamed: what a
killed run has finished is there, whole. A shard that cannot be read is removed and made again. Values are divided by the
largest of their row, so that half precision holds features of any length.
"""

import contextlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from wildspec.data.digest import BYTES, digest_rows
from wildspec.errors import DataError
from wildspec.files import cache_folder, replacing, short_hash

MOST_BYTES = 4 << 30  # of all features kept; the longest unused go first


def feature_folder() -> Path:
    """Where features are kept for this user."""
    return cache_folder() / "features"


def halved(features: Tensor) -> tuple[Tensor, Tensor]:
    """(b, d) -> values float16 and scale (b,) float32; `whole` makes the features again, to 3 digits."""
    scale = features.abs().amax(dim=1)
    return (features / scale.clamp_min(torch.finfo(torch.float32).tiny).unsqueeze(1)).half().cpu(), scale.float().cpu()


def whole(values: Tensor, scale: Tensor) -> Tensor:
    """(b, d) float16, (b,) -> (b, d) float32."""
    return values.float() * scale.unsqueeze(1)


class FeatureCache:
    """Features under one key. ``folder``: where all are kept; None: only in memory, for nobody else."""

    def __init__(self, key: Mapping[str, Any], folder: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.root, self.most_bytes = folder, most_bytes
        self.folder = None if folder is None else folder / short_hash(dict(key), 24)
        self._places: dict[bytes, tuple[int, int]] = {}  # digest -> shard, row
        self._shards: list[tuple[Path | None, dict[str, Tensor]]] = []
        if self.folder is not None and self.folder.is_dir():
            for path in sorted(self.folder.glob("*.safetensors")):
                if not path.name.startswith("."):  # one that is being written, or was when its run was killed
                    self._take(path)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._places

    def get(self, digests: Sequence[bytes]) -> Tensor:
        """(b, d) float32 of images that are there."""
        found = [self._places[digest] for digest in digests]
        rows = [(self._shards[shard][1], row) for shard, row in found]
        return whole(
            torch.stack([tensors["values"][row] for tensors, row in rows]),
            torch.stack([tensors["scale"][row] for tensors, row in rows]),
        )

    def add(self, digests: Sequence[bytes], values: Tensor, scale: Tensor) -> None:
        """Keep features as `halved` made them. A disk that is full or closed keeps nothing: the run goes on without."""
        marks = digest_rows(digests)
        tensors = {"digests": marks, "values": values.contiguous(), "scale": scale.contiguous()}
        path: Path | None = None
        if self.folder is not None:
            path = self.folder / f"{secrets.token_hex(8)}.safetensors"
            try:
                with replacing(path) as temporary:
                    save_file(tensors, temporary)
                tensors = load_file(path)  # mapped: what is on disk takes no memory
            except (DataError, OSError, SafetensorError):
                path = None
        self._note(path, tensors)

    def prune(self) -> None:
        """Remove the longest unused shards of all keys until the rest fits."""
        if self.root is None or not self.root.is_dir():
            return
        mine = {path for path, _ in self._shards}
        files = []
        for path in self.root.glob("*/*.safetensors"):
            with contextlib.suppress(OSError):  # another run may have removed it
                status = path.stat()
                files.append((path in mine, status.st_mtime, status.st_size, path))
        total = sum(size for _, _, size, _ in files)
        for _, _, size, path in sorted(files):
            if total <= self.most_bytes:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size

    def _take(self, path: Path) -> None:
        try:
            tensors = load_file(path)
            count = len(tensors["digests"])
            if tensors["digests"].shape != (count, BYTES) or tensors["values"].shape[:1] != tensors["scale"].shape:
                raise ValueError("not what was written")
        except (SafetensorError, OSError, ValueError, KeyError):
            with contextlib.suppress(OSError):
                path.unlink()
            return
        with contextlib.suppress(OSError):  # it may belong to another user
            path.touch()  # used now
        self._note(path, tensors)

    def _note(self, path: Path | None, tensors: dict[str, Tensor]) -> None:
        self._shards.append((path, tensors))
        for row, digest in enumerate(tensors["digests"].numpy()):
            self._places[digest.tobytes()] = (len(self._shards) - 1, row)
