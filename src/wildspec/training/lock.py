"""One training per folder: two of them would write into each other's checkpoints.

The lock is one that the operating system keeps on a hidden file and drops when the process ends, however it ends. Where
there are no such locks (some network file systems, Windows) nothing is locked and nothing is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from wildspec.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FILE = ".training"


class BusyError(InputError):
    """Another process is training in the folder."""


@contextmanager
def locked(folder: Path | None) -> Iterator[None]:
    """Have the folder to oneself; `BusyError` where another process has it. None: there is nothing to lock."""
    if folder is None or fcntl is None:
        yield
        return
    with _mark(folder) as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(
                f"another process is training in {folder}; wait until it is done, or choose another folder"
            ) from error
        except OSError:
            pass  # no locks here
        yield


def _mark(folder: Path) -> TextIO:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return open(folder / FILE, "w", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror}; choose another folder") from error
