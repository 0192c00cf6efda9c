"""Folders as people have them: names that are no text, and pictures of kinds that are not read."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wildspec.data.folder import left_out
from wildspec.data.source import ImageSource
from wildspec.files import plain


def with_plain_names(source: ImageSource) -> ImageSource:
    """The source itself, or where a name or a class is no text that can be shown, a view of it in which they are."""
    named = (source.name(i) for i in range(len(source)))
    if all(map(_is_text, source.classes)) and all(map(_is_text, named)):
        return source
    return PlainNames(source)


class PlainNames(ImageSource):
    """The images of a source under names that can be written."""

    def __init__(self, source: ImageSource) -> None:
        self.source = source
        self.labels, self.classes = source.labels, tuple(map(plain, source.classes))

    def name(self, i: int) -> str:
        return plain(self.source.name(i))

    def load(self, i: int) -> np.ndarray:
        return self.source.load(i)

    def reduced(self, i: int, side: int) -> np.ndarray:
        return self.source.reduced(i, side)

    def shorter_side(self, i: int) -> int:
        return self.source.shorter_side(i)

    def fingerprint(self) -> str | None:
        return self.source.fingerprint()


def passed_over(given: Sequence[str | None]) -> str:
    """One line about hidden folders, and those that systems make, that hold pictures; empty where there are none."""
    paths = [path for item in given if item is not None and os.path.isdir(item) for path in left_out(item)]
    if not paths:
        return ""
    first = plain(str(paths[0]))
    if len(paths) == 1:
        return f"the folder {first} is hidden or made by a system, and left out with the pictures in it"
    return f"{len(paths):,} folders are hidden or made by a system, and left out with the pictures in them, first {first}"


def in_words(paths: list[Path], what: str, root: str | None = None) -> str:
    """One line about them, names relative to ``root``; empty where there are none."""
    if not paths:
        return ""
    first = paths[0] if root is None else paths[0].relative_to(root)
    many, are = (f"{len(paths):,} {what}s", "are") if len(paths) > 1 else (f"1 {what}", "is")
    them = "them" if len(paths) > 1 else "it"
    return f"{many} {are} of a kind that is not read and left out, first {plain(str(first))}; save {them} as JPEG or PNG"


def _is_text(name: str) -> bool:
    return name == plain(name)
