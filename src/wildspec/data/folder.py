"""Images in files: a list of paths, or a folder (one sub-folder per class, or flat = unlabelled)."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path

import numpy as np

from wildspec.data.decode import MAX_PIXELS, decode
from wildspec.data.headers import EXTENSIONS, NOT_READ, look
from wildspec.data.images import UNLABELLED
from wildspec.data.source import ImageSource, files_fingerprint
from wildspec.errors import DataError
from wildspec.files import read_regular

# What systems leave in folders: archives of a Mac, photo stations, dustbins, caches. No class, and its pictures are copies.
CLUTTER = frozenset((
    "__macosx", "@eadir", "@tmp", "#recycle", "#snapshot", "$recycle.bin", "recycler", "recycled", "lost+found",
    "system volume information", "__pycache__",
))  # fmt: skip
# Folders that a downloaded data set is parted into. A class may be called train; all of them are not.
PARTS = frozenset(("train", "training", "val", "valid", "validation", "dev", "test", "testing"))
MAX_BYTES = 6 * MAX_PIXELS + (1 << 20)  # of a file: as many pixels as are decoded, 16 bits a channel, without compression


class FilesSource(ImageSource):
    """Image files in the order given, unlabelled."""

    def __init__(self, paths: Iterable[str | PathLike[str]]) -> None:
        self.paths = [Path(path) for path in paths]
        self.labels = np.full(len(self.paths), UNLABELLED, dtype=np.int64)
        self.classes: tuple[str, ...] = ()

    def name(self, i: int) -> str:
        return str(self.paths[i])

    def load(self, i: int) -> np.ndarray:
        return decode(self._encoded(i))

    def reduced(self, i: int, side: int) -> np.ndarray:
        return decode(self._encoded(i), side=side)

    def shorter_side(self, i: int) -> int:
        return look(self._encoded(i)).shorter_side

    def fingerprint(self) -> str | None:
        return files_fingerprint(self.paths)

    def _encoded(self, i: int) -> bytes:
        try:
            return read_regular(self.paths[i], MAX_BYTES)
        except DataError as error:
            raise DataError(f"cannot be opened: {_why_not_listed(self.paths[i]) or error}") from error
        except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
            raise DataError(f"cannot be opened: {getattr(error, 'strerror', None) or error}") from error
        except MemoryError as error:
            raise DataError("not enough memory to read it") from error


class FolderSource(FilesSource):
    """All images under a folder, at any depth, in natural order (2.png before 10.png).

    ``labelled=True``: every sub-folder of ``root`` is a class, an empty one too, so that numbering does not depend on which
    class happens to have images. ``False``: flat, unlabelled. None: classes if there are sub-folders with images and no
    images beside them. ``classes``: fixes names and numbers, e.g. those of the training set. Names are relative to ``root``.
    Hidden files and folders, `CLUTTER` and other extensions are left out (`left_out`). Links are followed, but no folder is
    read twice: one that lies under ``root`` is read there alone. A dangling link counts as unreadable.
    """

    def __init__(
        self,
        root: str | PathLike[str],
        *,
        labelled: bool | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise DataError(f"{self.root} is not a folder; expected one with images or one sub-folder per class")
        folders, loose = _listing(self.root)
        walk = _Walk(self.root)
        found = {folder.name: list(walk.under(folder)) for folder in folders}
        if labelled is None:
            labelled = any(found.values()) and not loose
            if any(found.values()) and loose:
                raise DataError(
                    f"{self.root} holds both images ({loose[0].name}) and folders of images; sort the images into class "
                    "folders, or say labelled=False for one unlabelled set"
                )
        elif labelled and loose and not any(found.values()):
            raise DataError(
                f"{self.root} has no labels: its images, as {loose[0].name}, lie in no sub-folder; put them into one per "
                "class, or give them as wild or unknown images"
            )
        elif labelled and loose:
            raise DataError(
                f"{self.root} must hold one folder per class, but {loose[0].name} lies beside them; move it into one "
                "of them, or out of there"
            )
        if labelled and classes is None and len(found) > 1 and all(name.casefold() in PARTS for name in found):
            one = next((name for name in found if name.casefold().startswith("train")), next(iter(found)))
            raise DataError(
                f"{self.root} holds the parts of a data set ({', '.join(found)}), not one folder per class; give one of "
                f"them, as {self.root / one}"
            )
        paths = [path for part in ([] if labelled else [loose], found.values()) for group in part for path in group]
        if not paths:
            raise DataError(f"{self.root} {_why_empty(self.root, bool(labelled))}")
        super().__init__(paths)
        if labelled:
            self.classes = tuple(classes) if classes is not None else tuple(found)
            numbers = {name: number for number, name in enumerate(self.classes)}
            others = [name for name, images in found.items() if images and name not in numbers]
            if others:
                raise DataError(f"{self.root} has the folder {others[0]!r}, none of the {len(numbers)} classes asked for")
            self.labels = np.array([numbers[name] for name, images in found.items() for _ in images], dtype=np.int64)

    def name(self, i: int) -> str:
        return self.paths[i].relative_to(self.root).as_posix()


class DomainFolderSource(FilesSource):
    """``root/<domain>/<class>/...``: labels are the classes, over all domains; ``column("domain")`` gives the domains.

    ``domains``: those wanted, in order; all sub-folders by default.
    """

    def __init__(self, root: str | PathLike[str], domains: Sequence[str] | None = None) -> None:
        self.root = Path(root)
        found = [folder.name for folder in _listing(self.root)[0]]
        missing = [name for name in domains or [] if name not in found]
        if missing or not found:
            raise DataError(
                f"{self.root} must hold one folder per domain ({', '.join(domains or ['...'])}), in each one folder per "
                f"class; {f'{missing[0]!r} is missing' if missing else 'it has none'}"
            )
        names = list(domains or found)
        parts = [FolderSource(self.root / name, labelled=True) for name in names]
        super().__init__([path for part in parts for path in part.paths])
        self.classes = tuple(sorted({name for part in parts for name in part.classes}, key=natural_key))
        place = {name: number for number, name in enumerate(self.classes)}
        self.labels = np.concatenate([np.array([place[c] for c in part.classes])[part.labels] for part in parts])
        self._domains = np.repeat(np.array(names), [len(part) for part in parts])

    def name(self, i: int) -> str:
        return self.paths[i].relative_to(self.root).as_posix()

    def column(self, name: str) -> np.ndarray:
        """(n,) values; the only column is ``domain``."""
        if name != "domain":
            raise DataError(f"{self.root} has no column {name!r}; it has domain")
        return self._domains


def natural_key(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """Sorts digits by value: img2 before img10. The name itself decides between 'a1' and 'a01'."""
    pieces = re.split(r"([0-9]+)", name.casefold())
    return [(0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in pieces if piece], name


def is_left_out(name: str) -> bool:
    """Whether a file or folder is hidden or `CLUTTER`, by its name."""
    return name.startswith(".") or name.casefold() in CLUTTER


def left_out(root: str | PathLike[str]) -> list[Path]:
    """Folders under ``root`` that are hidden or `CLUTTER` and hold pictures, in order: what a user may miss. Links are not
    followed."""
    found = []
    for folder, folders, _ in _walked(root):
        passed = [name for name in folders if is_left_out(name)]
        found += [Path(folder, name) for name in passed if _holds_images(Path(folder, name))]
        folders[:] = [name for name in folders if name not in passed]
    return sorted(found, key=lambda path: natural_key(path.as_posix()))


def not_read(given: str | PathLike[str] | None) -> list[Path]:
    """Pictures of kinds that are not read (`NOT_READ`) under a folder, hidden ones and clutter left out, in order."""
    if given is None or not os.path.isdir(given):
        return []
    found = []
    for folder, folders, names in _walked(given):
        folders[:] = sorted(name for name in folders if not is_left_out(name))
        found += [Path(folder, name) for name in sorted(names) if name.lower().endswith(NOT_READ) and not is_left_out(name)]
    return found


def _holds_images(folder: Path) -> bool:
    return any(name.lower().endswith(EXTENSIONS) for _, _, names in _walked(folder) for name in names)


def _walked(root: str | PathLike[str]) -> Iterator[tuple[Path, list[str], list[str]]]:
    """`os.walk` without its depth: before Python 3.12 it calls itself for every level. Links are not followed."""
    waiting = [Path(root)]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                kinds = {entry.name: _is_folder(entry) for entry in entries}
        except OSError:
            continue
        folders = [name for name, is_folder in kinds.items() if is_folder]
        yield here, folders, [name for name, is_folder in kinds.items() if not is_folder]
        waiting += [here / name for name in reversed(folders) if not (here / name).is_symlink()]


def _why_empty(root: Path, labelled: bool) -> str:
    """What a folder without a readable image seems to be."""
    if (root / "manifest.json").is_file():
        return "holds no images: it looks like a model of wildspec fit; give the folder of images"
    if others := not_read(root):
        return f"holds no images that are read, but {len(others):,} such as {others[0].name}; save them as JPEG or PNG"
    where = "one folder per class with " if labelled else ""
    return f"holds no images; expected {where}files ending in {', '.join(EXTENSIONS)}"


def _listing(folder: Path) -> tuple[list[Path], list[Path]]:
    """(sub-folders, image files) of a folder, each in natural order, hidden ones and `CLUTTER` left out."""
    folders, files = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_left_out(entry.name):
                    continue
                if _is_folder(entry):
                    folders.append(Path(entry.path))
                elif entry.name.lower().endswith(EXTENSIONS) and (entry.is_symlink() or entry.is_file()):
                    files.append(Path(entry.path))
    except OSError as error:
        raise DataError(f"cannot list {folder}: {error.strerror or error}") from error
    return sorted(folders, key=lambda p: natural_key(p.name)), sorted(files, key=lambda p: natural_key(p.name))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _why_not_listed(path: Path) -> str:
    """What is wrong with a folder that stands for its files; empty where it is none, or in order."""
    try:
        os.scandir(path).close()
    except NotADirectoryError:
        return ""
    except OSError as error:
        return f"a folder: {error.strerror or error}"
    return ""


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def images_under(root: Path) -> Iterator[Path]:
    """All image files of a folder at any depth, as `FolderSource` finds them, one by one; what cannot be listed stands for
    what is in it."""
    folders, files = _listing(root)
    yield from files
    walk = _Walk(root)
    for folder in folders:
        yield from walk.under(folder)


class _Walk:
    """Every folder under ``root`` once, however many links lead to it. One that lies under ``root`` itself is met where it
    lies and not through a link, so that `latest -> run` takes nothing away from run."""

    def __init__(self, root: Path) -> None:
        self.root, self._seen = root, {_identity(root)}

    def under(self, folder: Path) -> Iterator[Path]:
        """Image files at any depth, those of a folder before those of its sub-folders. A folder that cannot be listed stands
        for what is in it, and is then told as unreadable."""
        waiting = [(folder, folder.is_symlink())]  # a stack: folders may lie deeper than Python's calls
        while waiting:
            here, linked = waiting.pop()
            try:
                me = _identity(here)
                if me in self._seen or (linked and me in self._own):
                    continue
                self._seen.add(me)
                folders, files = _listing(here)
            except (DataError, OSError):
                yield here
                continue
            yield from files
            waiting += [(inner, linked or inner.is_symlink()) for inner in reversed(folders)]

    @cached_property
    def _own(self) -> set[tuple[int, int]]:
        """The folders that lie under the root without any link, asked for when the first link is met."""
        own, waiting = set(), [self.root]
        while waiting:
            here = waiting.pop()
            try:
                own.add(_identity(here))
                waiting += [inner for inner in _listing(here)[0] if not inner.is_symlink()]
            except (DataError, OSError):
                continue
        return own
