"""A model on disk: one folder, whole or absent, of JSON and safetensors with a manifest. Nothing in it can run code."""

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from wildspec.bundle.forms import FORMS
from wildspec.bundle.manifest import MANIFEST, MODEL, Manifest, check_same, describe, safe_name, verify
from wildspec.bundle.target import check_target
from wildspec.errors import CheckpointError, DataError, InputError
from wildspec.files import LETTERS, exchange, flush, read_json


@dataclass(frozen=True)
class Stored:
    """A verified bundle. ``model``: the content of model.json; tensors and further JSON files are read when asked for."""

    path: Path
    manifest: Manifest
    model: dict[str, Any]
    _read: dict[str, dict[str, Tensor]] = field(default_factory=dict, repr=False)  # files are read once

    @property
    def kind(self) -> str:
        return self.manifest.kind

    def __contains__(self, name: str) -> bool:
        return name in self.manifest.files

    def tensors(self, name: str) -> dict[str, Tensor]:
        """All tensors of one safetensors file, on the CPU."""
        self._check(name)
        if name not in self._read:
            try:  # copied: load_file maps the file, and whoever wrote over it would change the model, or end the program
                found = {key: value.clone() for key, value in load_file(self.path / name).items()}
            except (SafetensorError, OSError, ValueError) as error:
                raise CheckpointError(
                    f"bundle {self.path} is refused: {name} is not readable safetensors ({error})"
                ) from error
            check_same(self.path, self.manifest)
            self._read[name] = found
        return dict(self._read[name])

    def json(self, name: str) -> Any:
        """The content of one JSON file."""
        self._check(name)
        value = _json(self.path, name)
        check_same(self.path, self.manifest)
        return value

    def _check(self, name: str) -> None:
        if name not in self:
            raise CheckpointError(f"bundle {self.path} holds no {name}; it has {', '.join(sorted(self.manifest.files))}")


def write_bundle(
    path: str | PathLike[str],
    kind: str,
    model: Mapping[str, Any],
    tensors: Mapping[str, Mapping[str, Tensor | np.ndarray]],
    documents: Mapping[str, Any] | None = None,
) -> Path:
    """Write ``model.json``, ``tensors`` (file name -> tensors) and ``documents`` (file name -> JSON) as one bundle.

    The folder is made beside its place and renamed; a bundle already there is replaced, in one step where the system can
    (`exchange`), anything else is left alone.
    """
    target = Path(path)
    replaces = check_target(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name[:LETTERS]}.", dir=target.parent))
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}; choose another path") from error
    fresh, old = work / "new", work / "old"
    try:
        fresh.mkdir()
        for name, value in {MODEL: model, **(documents or {})}.items():
            _place(fresh, name).write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        for name, content in tensors.items():
            save_file({key: _plain(value) for key, value in content.items()}, _place(fresh, name))
        manifest = json.dumps(describe(fresh, kind).to_json(), indent=1) + "\n"
        (fresh / MANIFEST).write_text(manifest, encoding="utf-8")
        _flush(fresh)
        if not (replaces and exchange(fresh, target)):
            if replaces:
                os.replace(target, old)
            try:
                os.replace(fresh, target)
            except OSError:
                if replaces:
                    os.replace(old, target)
                raise
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot write {target}: {reason}; free space or choose another path") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def read_bundle(path: str | PathLike[str]) -> Stored:
    """Verify every file of a bundle against its manifest, and what they hold against the form of its kind."""
    folder = Path(path)
    manifest = verify(folder)
    model = _json(folder, MODEL)
    if not isinstance(model, dict):
        raise CheckpointError(f"bundle {folder} is refused: {MODEL} is not what wildspec writes")
    stored = Stored(folder, manifest, model)
    check_same(folder, manifest)
    if stored.kind in FORMS:
        try:
            FORMS[stored.kind](stored)
        except CheckpointError as error:
            told = str(error)
            raise CheckpointError(
                told if str(folder) in told else f"bundle {folder} is refused: {told}; fit it again or copy it afresh"
            ) from error
    return stored


def _json(folder: Path, name: str) -> Any:
    try:
        return read_json(folder / name)
    except DataError as error:
        raise CheckpointError(f"bundle {folder} is refused: {name} is not readable JSON") from error


def _place(folder: Path, name: str) -> Path:
    wrong = safe_name(name)
    if wrong is not None:
        raise InputError(f"a bundle cannot hold the file {name!r}: it {wrong}")
    place = folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _plain(value: Tensor | np.ndarray) -> Tensor:
    """A contiguous tensor on the CPU that shares no memory with another (safetensors refuses shared storage)."""
    tensor = torch.from_numpy(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value.detach()
    return tensor.cpu().contiguous().clone()


def _flush(folder: Path) -> None:
    """Everything under the folder is on the disk, and readable to those whom the user's umask lets read a file."""
    mode = stat.S_IMODE((folder / MANIFEST).stat().st_mode)  # tensors are written by a library with a mode of its own
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            os.chmod(path, mode)
            flush(path)
        flush(root)
