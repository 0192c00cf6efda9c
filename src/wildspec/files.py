"""Files that are whole or absent: written beside their target, flushed, and renamed."""

import hashlib
import json
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wildspec.errors import DataError, InputError

LETTERS = 24  # of a file's name in that of its temporary one: a name has 255 bytes at most, and a letter up to 4


_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}  # what moves a cursor, colours a terminal, ends a line, or turns the direction of reading


def plain(name: str) -> str:
    """A name that can be written and shown: a file's name is bytes, and may hold anything.

    Bytes that are no UTF-8, which Python holds as lone surrogates, are shown as \\udce9; control characters, with which a
    name could rewrite what a terminal shows, as \\x1b.
    """
    return name.encode("utf-8", "backslashreplace").decode("utf-8").translate(_CONTROLS)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; on success it is renamed over the target, else removed.

    Who may read the file is what the user's umask says, or what was said of the file that is replaced. A link stays one:
    what it leads to is replaced. A device or a pipe stays as well: what was written is copied into it.
    """
    check_file(path)
    target, stream_of_bytes = Path(os.path.realpath(path)), _is_stream(path)
    temporary: Path | None = None
    try:
        folder = Path(tempfile.gettempdir()) if stream_of_bytes else target.parent
        folder.mkdir(parents=True, exist_ok=True)
        name = folder / f".{target.name[:LETTERS]}.{secrets.token_hex(4)}{Path(path).suffix[:LETTERS]}"
        handle = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600 if stream_of_bytes else 0o666)
        temporary = name
        mode = os.fstat(handle).st_mode if not target.is_file() else target.stat().st_mode
        os.close(handle)
        yield temporary
        if stream_of_bytes:
            with open(temporary, "rb") as source, open(path, "wb") as sink:
                shutil.copyfileobj(source, sink)
            return
        with open(temporary, "rb+") as stream:
            os.fsync(stream.fileno())
        os.chmod(temporary, stat.S_IMODE(mode))  # whatever wrote it may have made a file of its own
        os.replace(temporary, target)
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"cannot write {path}: {reason}; free space or choose another path") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def check_file(path: str | os.PathLike[str]) -> None:
    """May a file be written under this name? What stands there is a file, nothing yet, or something that takes bytes one
    after the other; asked again when it is written."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # nothing there yet, or nothing that can be looked at: writing says what is wrong
        return
    if stat.S_ISDIR(mode):
        raise DataError(f"cannot write {path}: it is a folder; name a file in it or choose another path")
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise DataError(f"cannot write {path}: it is a disk or a socket; choose another path")


def check_out(out: str | os.PathLike[str], *inputs: object) -> None:
    """May a command write to ``out``? Asked before anything is loaded: not onto what it reads, nor among the shards of a
    folder of parquet that it reads. ``inputs``: paths, or what is none (None, hf:NAME)."""
    check_file(out)
    target = os.path.realpath(out)
    for item in inputs:
        if not isinstance(item, str | os.PathLike) or not os.path.exists(item):
            continue
        if os.path.exists(target) and os.path.samefile(item, target) and not _is_stream(target):
            raise InputError(f"--out {out} is the same file as the input {item}, which would be lost; choose another --out")
        shard = target.lower().endswith(".parquet") and os.path.isdir(os.path.dirname(target))
        if shard and os.path.isdir(item) and os.path.samefile(item, os.path.dirname(target)):
            raise InputError(
                f"--out {out} lies in the folder {item} that is read, and would be taken for a part of it; choose another "
                "--out"
            )


def _is_stream(path: str | os.PathLike[str]) -> bool:
    """A terminal, /dev/null, a pipe: what is neither to be replaced nor to be renamed over."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write text atomically, in UTF-8."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def append_line(path: str | os.PathLike[str], line: str) -> None:
    """Add a line to a log; where a kill has torn its last line, the new one still begins on its own."""
    try:
        with open(path, "ab+") as stream:
            if stream.tell() and stream.seek(-1, os.SEEK_END) >= 0 and stream.read(1) != b"\n":
                line = "\n" + line
            stream.write(line.encode() + b"\n")
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}; free space or choose another path") from error


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write JSON atomically, indented, keys in the order given."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read JSON; a missing or malformed file is a DataError that names it. NaN and infinity are no JSON, and not read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_number, parse_float=_finite)
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist") from error
    except (OSError, ValueError, RecursionError) as error:  # ValueError: no UTF-8, no JSON, a number of thousands of digits
        raise DataError(f"{path} is not readable JSON: {error}") from error


def _no_number(name: str) -> Any:
    raise ValueError(f"it holds {name}, which is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if abs(value) < float("inf") else _no_number(text)


def exchange(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Let two files or folders swap their names in one step, so that neither is ever missing; False where this system, or
    this file system, cannot."""
    try:
        import ctypes

        swap = ctypes.CDLL(None, use_errno=True).renameat2  # Linux
    except (ImportError, OSError, TypeError, AttributeError):
        return False
    here, swapping = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(swap(here, os.fsencode(one), here, os.fsencode(other), swapping) == 0)


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """The content of a plain file of at most ``most`` bytes, links followed. A device would be read without end, a pipe
    waited for without end: neither is opened. OSError as usual; DataError for what is no plain file, or too large."""
    _check_regular(os.stat(path), most)  # opening a device may already do something
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as stream:
        status = os.fstat(handle)
        _check_regular(status, most)  # the name may be another file's by now
        data = stream.read(status.st_size + 1)
    if len(data) > status.st_size:
        raise DataError("it grew while it was read")
    return data


def _check_regular(status: os.stat_result, most: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise DataError("it is a folder" if stat.S_ISDIR(status.st_mode) else "it is no plain file but a device or a pipe")
    if status.st_size > most:
        raise DataError(f"it has {status.st_size:,} bytes, more than the limit of {most:,}")


def flush(path: str | os.PathLike[str]) -> None:
    """A file, or a folder with the names in it, is on the disk."""
    if os.path.isdir(path) and os.name != "posix":  # elsewhere a folder cannot be opened
        return
    handle = os.open(path, os.O_RDWR if os.path.isfile(path) else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256_file(path: str | os.PathLike[str]) -> str:
    """Hex digest of a file's bytes."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def short_hash(value: Any, length: int = 12) -> str:
    """Hash of a JSON value, independent of the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def cache_folder() -> Path:
    """Where this user keeps what can be made again: XDG_CACHE_HOME, or what the system has for it. It need not exist."""
    given = os.environ.get("XDG_CACHE_HOME")
    if given and os.path.isabs(given):  # the specification: a relative one is to be ignored
        return Path(given) / "wildspec"
    try:
        home = Path.home()
    except RuntimeError:  # a user number without a name, as in some containers
        home = Path(tempfile.gettempdir())
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "wildspec"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "wildspec" / "cache"
    return home / ".cache" / "wildspec"
