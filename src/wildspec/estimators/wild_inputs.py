"""What lies in a folder of images and is not read: pictures of kinds that Pillow alone cannot open."""

import os
from pathlib import Path

# Other files (notes, Thumbs.db) nobody expects to be read; these a user takes for images.
NOT_READ = (
    ".heic", ".heif", ".avif", ".jxl", ".jp2", ".psd", ".svg", ".raw", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf",
    ".raf", ".rw2",
)  # fmt: skip


def not_read(given: str | None) -> list[Path]:
    """Such files under a folder, hidden ones left out, in order; none where no folder was given."""
    if given is None or not os.path.isdir(given):
        return []
    found = []
    for folder, folders, names in os.walk(given):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [
            Path(folder, name) for name in sorted(names) if name.lower().endswith(NOT_READ) and not name.startswith(".")
        ]
    return found


def in_words(paths: list[Path], what: str, root: str | None = None) -> str:
    """One line about them, names relative to ``root``; empty where there are none."""
    if not paths:
        return ""
    first = paths[0] if root is None else paths[0].relative_to(root)
    many, are = (f"{len(paths):,} {what}s", "are") if len(paths) > 1 else (f"1 {what}", "is")
    them = "them" if len(paths) > 1 else "it"
    return f"{many} {are} of a kind that is not read and left out, first {first}; save {them} as JPEG or PNG"
