"""A person's answers on disk: a table to which lines are only ever added, each of them there before the next question shows.

    row or image   what the answer is about      act    number of what was done; an answer for a group has a line each
    class          a class, unknown, a new name  did    answer, skip or undo (of the act of that number)
                                                 pool   which wild pool it is of; last, so that a torn line shows

What was done is one write, flushed to the disk before `AnswerLog.add` returns. Writers take turns by a lock of the operating
system, and each reads what the others have written: two windows or two processes may answer at the same time. A line that a
power cut has torn is passed over; the next begins on a line of its own. `wildspec review MODEL --answers` reads it, too.
"""

import contextlib
import csv
import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wildspec.errors import DataError, InputError
from wildspec.files import flush, plain
from wildspec.serving.rows import guarded, unguarded

try:
    import fcntl
except ImportError:  # Windows: two windows of one program take turns all the same
    fcntl = None  # type: ignore[assignment]

ANSWER, SKIP, UNDO = "answer", "skip", "undo"
MORE = ("class", "act", "did", "pool")


@dataclass(frozen=True)
class Act:
    """What was done at once: ``names`` of samples were given ``value``, or passed over (`SKIP`)."""

    number: str
    did: str
    names: tuple[str, ...]
    value: str


class AnswerLog:
    """The table at ``path``, of the pool ``pool``; ``column``: what its samples are called, row or image. Made with the
    first line. One thread at a time."""

    def __init__(self, path: str | os.PathLike[str], pool: str, column: str = "row") -> None:
        self.path, self.pool, self.column = Path(path), pool, column
        self.torn = 0  # lines that were passed over
        self._clear()
        self.sync()

    def sync(self) -> None:
        """Read what was added since, by whomever."""
        try:
            with open(self.path, "rb") as stream:
                self._read(stream)
        except FileNotFoundError:
            self._clear()
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror or error}; choose another --log") from error

    def add(self, number: str, did: str, names: Sequence[str] = (), value: str = "") -> bool:
        """Write one act; False where an act of that number is there already (the same request came twice).

        An undo names the act that is taken back; one that is not there, or was taken back before, is False too.
        """
        if plain(value) != value:
            raise InputError(f"a name must be one line of plain text, got {plain(value)!r}; choose another")
        with self._open() as (stream, descriptor):
            self._read(stream)
            known = number in self._acts
            if (did == UNDO and (not known or number in self._undone)) or (did != UNDO and known):
                return False
            lines = [[guarded(plain(name)), guarded(value), number, did, self.pool] for name in (names or ("",))]
            size = os.fstat(descriptor).st_size
            if size and not self._offset:  # not even its first line is whole: it was torn when it was made
                os.ftruncate(descriptor, 0)
                size = 0
            head = b"" if size else _text([(self.column, *MORE)])
            if self._offset < size:  # the last line is torn: nobody else is writing it now
                head = b"\n"
            try:
                _write(descriptor, head + _text(lines))
                os.fsync(descriptor)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, size)  # half an answer is none
                raise
            self._read(stream)
        return True

    @property
    def acts(self) -> list[Act]:
        """What was done and not taken back, in order."""
        return [act for number, act in self._acts.items() if number not in self._undone]

    @property
    def answers(self) -> dict[str, str]:
        """Name -> what was said of it last."""
        found: dict[str, str] = {}
        for act in self.acts:
            if act.did == ANSWER:
                for name in act.names:
                    found.pop(name, None)  # the order is that of the last answers
                    found[name] = act.value
        return found

    @property
    def skipped(self) -> set[str]:
        return {name for act in self.acts if act.did == SKIP for name in act.names}

    # -- inside --------------------------------------------------------------------------------------------------------
    def _clear(self) -> None:
        self._acts: dict[str, Act] = {}
        self._undone: set[str] = set()
        self._offset, self._node, self._line, self.torn = 0, -1, 0, 0

    @contextlib.contextmanager
    def _open(self) -> Iterator[tuple[io.BufferedReader, int]]:
        try:
            new = not self.path.exists()
            if new:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
            with open(descriptor, "rb") as stream:
                if fcntl is not None:
                    with contextlib.suppress(OSError):  # no locks on this file system
                        fcntl.flock(descriptor, fcntl.LOCK_EX)  # until it is closed
                yield stream, descriptor
            if new:
                with contextlib.suppress(OSError):  # the name of a new file is on the disk, too, where one can ask
                    flush(self.path.parent)
        except OSError as error:
            raise DataError(
                f"cannot write {self.path}: {error.strerror or error}; free space or choose another --log"
            ) from error

    def _read(self, stream: io.BufferedReader) -> None:
        status = os.fstat(stream.fileno())
        if status.st_size < self._offset or status.st_ino != self._node:
            self._clear()  # another file has taken its place
            self._node = status.st_ino
        stream.seek(self._offset)
        whole = stream.read()
        whole = whole[: whole.rfind(b"\n") + 1]
        self._offset += len(whole)
        for raw in whole.split(b"\n")[:-1]:
            self._line += 1
            self._take(raw)

    def _take(self, raw: bytes) -> None:
        """One line; each on its own, so that an open quote in a torn one does not swallow those after it."""
        try:
            text = raw.decode("utf-8-sig").rstrip("\r")
            cells = next(csv.reader([text]), [])
        except (UnicodeDecodeError, csv.Error):
            cells = []
        if self._line == 1:
            if cells[:1] + cells[-4:] != [self.column, *MORE]:
                raise InputError(
                    f"{self.path} is no table of answers: its first line must name {self.column}, {', '.join(MORE)}; "
                    "choose another --log"
                )
            return
        if not cells:
            return
        if len(cells) != 1 + len(MORE) or len(cells[4]) < len(self.pool) or cells[3] not in (ANSWER, SKIP, UNDO):
            self.torn += 1
            return
        name, value = map(unguarded, cells[:2])
        number, did, pool = cells[2:]
        if pool != self.pool:
            raise InputError(
                f"{self.path}, line {self._line}, is about the pool {pool}, this model's is {self.pool}; use its own model, "
                "or choose another --log"
            )
        if did == UNDO:
            self._undone.add(number)
        else:
            before = self._acts.get(number)
            self._acts[number] = Act(number, did, (*(before.names if before else ()), name), value)


def is_log(head: str) -> bool:
    """Is this the first line of such a table, as written here or by a spreadsheet?"""
    columns = [name.strip('" \r\n').casefold() for name in re.split("[,;\t]", head)]
    return {"class", "act", "did"} <= set(columns)


def log_table(text: str, separator: str = ",") -> list[list[str]]:
    """The cells of such a table, line by line. The class is empty where the answer was taken back or replaced later, and
    where the line is torn."""
    table = [next(csv.reader([line], delimiter=separator), []) for line in text.split("\n")]
    columns = [name.strip().casefold() for name in table[0]]
    value, act, did = (columns.index(name) for name in ("class", "act", "did"))
    whole = [row for row in table[1:] if len(row) == len(columns) and row[-1].strip()]
    undone = {row[act] for row in whole if row[did] == UNDO}
    last = {row[0]: id(row) for row in whole if row[did] == ANSWER and row[act] not in undone}
    for row in table[1:]:
        if len(row) > value and last.get(row[0]) != id(row):
            row[value] = ""
    return table


def _text(rows: Sequence[Sequence[str]]) -> bytes:
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue().encode()


def _write(descriptor: int, data: bytes) -> None:
    """All of it; one call where the system takes it all, which it does for so little."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
