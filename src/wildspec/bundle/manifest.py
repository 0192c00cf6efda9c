"""What a bundle must be before anything in it is read: the files its manifest names, all of them, nothing else.

    MODEL/
        manifest.json              format, version, kind; sha256 and size of every other file
        model.json                 what the model is
        *.safetensors              tensors, in folders or not

A manifest protects against damage and mix-ups, not against someone who rewrites it: that is why nothing in a bundle can
run code (safetensors and JSON only), and why no path in it may lead out of the folder.
"""

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from wildspec.errors import CheckpointError, DataError, InputError
from wildspec.files import read_json, read_regular, sha256_file

FORMAT = "wildspec-bundle"
VERSION = 1
MANIFEST = "manifest.json"
MODEL = "model.json"
TRAINING = "training"  # folder of a training that is not finished: the bundle comes in its place
SUFFIXES = (".json", ".safetensors")
MAX_MANIFEST_BYTES = 1 << 20
MAX_FILES = 1000


@dataclass(frozen=True)
class Manifest:
    """``kind``: which estimator the bundle holds. ``files``: relative path -> (sha256, bytes), without the manifest."""

    kind: str
    files: dict[str, tuple[str, int]]

    def to_json(self) -> dict[str, Any]:
        listed = {name: {"sha256": digest, "bytes": size} for name, (digest, size) in sorted(self.files.items())}
        return {"format": FORMAT, "version": VERSION, "kind": self.kind, "files": listed}


def describe(folder: Path, kind: str) -> Manifest:
    """The manifest of the files that lie in ``folder`` now."""
    names = sorted(name for name in _names(folder) if name != MANIFEST)
    return Manifest(kind, {name: (sha256_file(folder / name), (folder / name).stat().st_size) for name in names})


def is_bundle(folder: Path) -> bool:
    """Whether a folder looks like one from outside."""
    return folder.is_dir() and os.path.lexists(folder / MANIFEST)


def says_bundle(folder: Path) -> bool:
    """Does its manifest say that it is one, readable or not? Other programs call their files manifest.json, too."""
    path = folder / MANIFEST
    try:
        record = json.loads(read_regular(path, MAX_MANIFEST_BYTES))
    except (OSError, ValueError, RecursionError):  # DataError is a ValueError
        return False
    return isinstance(record, dict) and record.get("format") == FORMAT


def check_outside(out: Path, option: str = "--out") -> None:
    """Nothing is written into a bundle: with one file more it would be refused."""
    for folder in Path(os.path.realpath(out)).parents:
        if says_bundle(folder):
            raise InputError(f"{option} {out} lies in a bundle, which could not be read with it; choose another {option}")


def check_bundle(folder: Path) -> None:
    """Is there a bundle at all? What is in it is not looked at."""
    if not folder.exists():
        raise CheckpointError(f"bundle {folder} does not exist; make one with wildspec fit --out {folder}")
    if (folder / TRAINING).is_dir():
        raise CheckpointError(f"{folder} is not finished; go on with: wildspec train --resume --out {folder}")
    if not is_bundle(folder):
        raise CheckpointError(f"{folder} is not a wildspec bundle: it has no {MANIFEST}; make one with wildspec fit")


def verify(folder: Path) -> Manifest:
    """Read the manifest and check every file against it; one line says what is wrong with a bundle that is refused."""
    try:
        check_bundle(folder)
        manifest = read_manifest(folder)
        try:
            _check_files(folder, manifest)
        except (OSError, CheckpointError):
            check_same(folder, manifest)
            raise
        return manifest
    except OSError as error:
        then = "let this user read all of the bundle" if isinstance(error, PermissionError) else "copy the bundle afresh"
        raise CheckpointError(f"cannot read {error.filename or folder}: {error.strerror or error}; {then}") from error


def check_same(folder: Path, manifest: Manifest) -> None:
    """Is this still the bundle of that manifest? Another may have taken its place while it was read."""
    try:
        same = read_manifest(folder) == manifest
    except (OSError, CheckpointError):
        same = False
    if not same:
        raise CheckpointError(f"bundle {folder} was replaced while it was read; try again")


def _check_files(folder: Path, manifest: Manifest) -> None:
    present = set(_names(folder)) - {MANIFEST}
    missing = sorted(set(manifest.files) - present)
    if missing:
        raise _damaged(folder, f"{missing[0]} is missing")
    extra = sorted(present - set(manifest.files))
    if extra:
        raise _damaged(folder, f"{extra[0]} is not in its manifest; remove it")
    for name, (digest, size) in manifest.files.items():
        found = (folder / name).stat().st_size
        if found != size:
            raise _damaged(folder, f"{name} has {found:,} bytes, its manifest says {size:,}")
        if sha256_file(folder / name) != digest:
            raise _damaged(folder, f"the checksum of {name} does not match its manifest")


def safe_name(name: Any) -> str | None:
    """Why a name in a manifest cannot be a file of the bundle; None when it can."""
    if not isinstance(name, str) or not name:
        return "is not a file name"
    path = PurePosixPath(name)
    if path.is_absolute() or "\\" in name or ":" in name or "\0" in name or ".." in path.parts:
        return "leads out of the bundle"
    if str(path) != name or path.name == MANIFEST:
        return "is not a plain relative path"
    if path.suffix not in SUFFIXES:
        return f"is neither {' nor '.join(SUFFIXES)}"
    return None


def read_manifest(folder: Path) -> Manifest:
    """The manifest as written, its names checked; the files themselves are not looked at."""
    path = folder / MANIFEST
    if path.is_symlink() or not path.is_file():
        raise _damaged(folder, f"{MANIFEST} is not a plain file")
    if path.stat().st_size > MAX_MANIFEST_BYTES:
        raise _damaged(folder, f"{MANIFEST} is larger than {MAX_MANIFEST_BYTES:,} bytes")
    with open(path, "rb"):  # OSError: what may not be read is not damaged
        pass
    try:
        record = read_json(path)
    except DataError as error:
        raise _damaged(folder, f"{MANIFEST} is not readable JSON") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise CheckpointError(f"{folder} is not a wildspec bundle: its {MANIFEST} does not say format {FORMAT!r}")
    version = record.get("version")
    if isinstance(version, int) and version > VERSION:
        raise CheckpointError(
            f"bundle {folder} was written by a newer wildspec (format version {version}, this one reads up to {VERSION}); "
            "upgrade wildspec"
        )
    kind, files = record.get("kind"), record.get("files")
    known = version == VERSION and not isinstance(version, bool)
    if not known or not isinstance(kind, str) or not isinstance(files, dict) or len(files) > MAX_FILES:
        raise _damaged(folder, f"{MANIFEST} is not what wildspec writes")
    checked = {}
    for name, entry in files.items():
        wrong = safe_name(name)
        if wrong is not None:
            raise _damaged(folder, f"its manifest names {name!r}, which {wrong}")
        try:
            checked[name] = (str(entry["sha256"]), int(entry["bytes"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise _damaged(folder, f"its manifest has no sha256 and size for {name}") from error
    if MODEL not in checked:
        raise _damaged(folder, f"its manifest does not name {MODEL}")
    return Manifest(kind, checked)


def _names(folder: Path, prefix: str = "") -> Iterator[str]:
    """Relative paths of all files under a bundle; a link or a special file is refused, wherever it points."""
    with os.scandir(folder / prefix) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            name = prefix + entry.name
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                yield from _names(folder, name + "/")
            elif stat.S_ISREG(mode):
                yield name
            else:
                what = "a symbolic link" if stat.S_ISLNK(mode) else "not a plain file"
                raise _damaged(folder, f"{name} is {what}; a bundle holds plain files only")


def _damaged(folder: Path, why: str) -> CheckpointError:
    return CheckpointError(f"bundle {folder} is refused: {why}; fit it again or copy it afresh")
