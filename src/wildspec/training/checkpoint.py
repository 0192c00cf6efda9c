"""Checkpoints: whole or absent, checked by sha256, the newest intact one is used.

    RUN/checkpoints/step-000001200/
        tensors.safetensors    weights, optimizer, average, method, generators
        state.json             where the run is, sha256 of the tensors and of all of this

Whatever does not fit, a digest, the step in the folder's name, a version, is damage of that checkpoint: the one before is
used.

A checkpoint is written into a hidden folder beside its place, flushed, and renamed; `kill -9` at any moment leaves the one
before it, and a hidden folder that the next one clears away. No pickle is read or written.
"""

import hashlib
import json
import os
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from wildspec.errors import CheckpointError
from wildspec.files import flush, read_json, sha256_file

FORMAT = 2


@dataclass
class Checkpoint:
    """Tensors by name, JSON-able facts, and where it came from."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    path: Path | None = None


def save(folder: Path, step: int, tensors: dict[str, Tensor], facts: dict[str, Any], *, keep: int = 2) -> Path:
    """Write step-N under ``folder``, then remove all others but the newest ``keep`` up to it. One of a later step is damaged
    or foreign: this run has not been there. A full disk leaves the older ones alone."""
    target = folder / _name(step)
    temporary = folder / f".{_name(step)}.{os.getpid()}"
    try:
        for unfinished in folder.glob(".step-*"):  # left by a kill; one process at a time writes here
            shutil.rmtree(unfinished, ignore_errors=True)
        temporary.mkdir(parents=True)
        unshared = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        save_file(unshared, temporary / "tensors.safetensors")
        record = {"format": FORMAT, "step": step, "sha256": sha256_file(temporary / "tensors.safetensors"), "facts": facts}
        text = json.dumps({**record, "state_sha256": _digest(record)}, allow_nan=False)
        (temporary / "state.json").write_text(text, encoding="utf-8")
        for name in ("tensors.safetensors", "state.json", ""):
            flush(temporary / name)
        if target.exists():
            shutil.rmtree(target)
        os.replace(temporary, target)
        flush(folder)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"cannot write checkpoint {target}: {error}; free space or choose another --out; older checkpoints are intact"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    written = listed(folder)
    upto = written.index(target) + 1
    for other in [*written[upto:], *written[:upto][:-keep]]:
        shutil.rmtree(other, ignore_errors=True)
    return target


def listed(folder: Path) -> list[Path]:
    """Finished checkpoints, oldest first."""
    return sorted(folder.glob("step-*")) if folder.is_dir() else []


def load(path: Path) -> Checkpoint:
    """Read one checkpoint; a missing file, a changed byte or another format version is a CheckpointError."""
    state, tensors = path / "state.json", path / "tensors.safetensors"
    for file in (state, tensors):
        if not file.is_file():
            raise CheckpointError(f"checkpoint {path} is incomplete: {file.name} is missing")
    try:
        record = read_json(state)
        version, step, digest, facts = record["format"], record["step"], record["sha256"], record["facts"]
        own = record.pop("state_sha256", None)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"checkpoint {path} is damaged: state.json is not what was written ({error})") from error
    old = version == 1 and own is None  # without a digest of its own
    if version != FORMAT and not old:
        raise CheckpointError(f"checkpoint {path} has format {version}, this version of wildspec reads {FORMAT}")
    if (own != _digest(record) and not old) or path.name != _name(step):
        raise CheckpointError(f"checkpoint {path} is damaged: state.json is not what was written")
    if sha256_file(tensors) != digest:
        raise CheckpointError(f"checkpoint {path} is damaged: the checksum of tensors.safetensors does not match")
    try:
        return Checkpoint(load_file(tensors), facts, path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"checkpoint {path} is damaged: {error}") from error


def load_newest(folder: Path) -> Checkpoint | None:
    """The newest intact checkpoint, warning about each damaged one passed over; None when there is none at all."""
    candidates = listed(folder)
    for path in reversed(candidates):
        try:
            return load(path)
        except CheckpointError as error:
            warnings.warn(f"{error}; using the one before it", stacklevel=2)
    if candidates:
        raise CheckpointError(f"no intact checkpoint under {folder}; remove it to start again, or choose another folder")
    return None


def under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with ``prefix``, without it."""
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}


def _name(step: Any) -> str:
    return f"step-{step:09d}" if isinstance(step, int) else ""


def _digest(record: dict[str, Any]) -> str:
    """Of all that state.json says, however it is laid out."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
