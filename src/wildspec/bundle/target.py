"""May a bundle be written there? Asked before anything heavy is loaded, and long before there is a model."""

import os
import tempfile
from os import PathLike
from pathlib import Path

from wildspec.bundle.manifest import check_outside, says_bundle
from wildspec.errors import DataError, InputError
from wildspec.files import LETTERS, plain


def check_target(path: str | PathLike[str]) -> bool:
    """May a bundle be written there? True when it replaces one; an error when something else is in the way, or when nothing
    can be written there: that is better known before hours of training than after."""
    target = Path(path)
    _check_name(target)
    check_outside(target)
    _try_out(target)
    if not os.path.lexists(target):
        return False
    if target.is_dir() and not target.is_symlink() and (says_bundle(target) or not any(target.iterdir())):
        return True
    raise InputError(f"{target} exists and is not a wildspec bundle; choose another --out or remove it")


def _check_name(target: Path) -> None:
    """Weights are read by a library that takes names in UTF-8 only."""
    try:
        os.fspath(target).encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(
            f"a model under the name {plain(os.fspath(target))} could not be read again: that is no UTF-8; choose another "
            "--out"
        ) from None


def _try_out(target: Path) -> None:
    """Make a folder beside the target, or as near as there is one, and remove it."""
    near = target.parent
    while not os.path.lexists(near):
        near = near.parent
    try:
        os.rmdir(tempfile.mkdtemp(prefix=f".{target.name[:LETTERS]}.", dir=near))
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}; choose another path") from error
