"""Images that belong together: copies, and what a user says (frames of one film, crops of one slide).

Where they stood on both sides of a split, the model would be measured, and its threshold set, on images it learned from. So
a group is held out as a whole, and of it one image counts: a new image is exchangeable with groups, not with their members.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch.nn import functional

from wildspec.data import ImageArrays, Split
from wildspec.data.source import ImageSource
from wildspec.decision.near_copies import warn_of_near_copies
from wildspec.embeddings.rows import check_groups, joined
from wildspec.errors import InputError

THUMBNAIL = 8  # pixels, which near-copies share
Groups = str | Callable[[str], Any] | Sequence[Any] | None


def kept_together(images: Any, digests: Sequence[bytes], source: ImageSource, groups: Groups) -> np.ndarray:
    """(n,) group of every image, numbered as they appear. Images with one digest are one; ``groups``: a pattern or a
    function of names, where images with one outcome belong together, or a sequence with an entry for every image of
    ``source``."""
    same = np.array([digest.hex() for digest in digests])
    together = joined(same, _given(images, source, groups))
    _warn_of_two_classes(images, digests)
    if isinstance(images, ImageArrays):
        pixels = images.images[:, :, :: max(images.image_size[0] // 32, 1), :: max(images.image_size[1] // 32, 1)]
        small = functional.adaptive_avg_pool2d(pixels.float(), THUMBNAIL).flatten(1).cpu().numpy()
        warn_of_near_copies(small, images.labels.cpu().numpy(), together, "images")
    return together


def with_their_groups(split: Split, together: np.ndarray, labels: np.ndarray, images: Any) -> Split:
    """From a split of one image of each group to one of all: what is in a group of ``train`` is learned from; of the others
    the first counts, and the rest are ``copies``, which nobody sees."""
    first = np.unique(together, return_index=True)[1]
    if len(first) == len(together):
        return split
    members = {name: first[part] for name, part in split.members.items()}
    members["train"] = np.flatnonzero(np.isin(together, split["train"]))
    missing = np.setdiff1d(labels, labels[members["train"]])
    if len(missing):
        raise InputError(
            f"class {images.classes[missing[0]]!r} has all its images in groups that are held out; it takes more groups"
        )
    members["copies"] = np.setdiff1d(np.arange(len(together)), np.concatenate(list(members.values())))
    return Split(members, len(together), split.seed, images.names)


def _warn_of_two_classes(images: Any, digests: Sequence[bytes]) -> None:
    """One picture under two labels: one of them is wrong."""
    labels, first = images.labels.tolist(), dict[bytes, int]()
    before = [first.setdefault(digest, row) for row, digest in enumerate(digests)]
    wrong = [row for row, one in enumerate(before) if labels[one] != labels[row]]
    if wrong:
        names, row = images.names, wrong[0]
        here, there = (f"{names[i]} ({images.classes[labels[i]]})" for i in (row, before[row]))
        many, are = (f"{len(wrong):,} labelled images", "are copies of some") if len(wrong) > 1 else (
            "1 labelled image", "is a copy of one"
        )
        warnings.warn(
            f"{many} {are} of another class, first {here} of {there}: one of the two labels is wrong; remove it",
            stacklevel=5,
        )


def _given(images: Any, source: ImageSource, groups: Groups) -> np.ndarray:
    if groups is None:
        return np.arange(len(images))
    if isinstance(groups, str):
        try:
            pattern = re.compile(groups)
        except re.error as error:
            raise InputError(f"groups {groups!r} is no regular expression: {error}") from error
        matches = [(name, pattern.search(name)) for name in images.names]
        if not any(found for _, found in matches):
            raise InputError(
                f"groups {groups!r} matches none of the {len(matches):,} names of labelled images, such as {matches[0][0]!r}"
            )
        return np.array([found.group(0) if found else f"\0{name}" for name, found in matches])
    if callable(groups):
        return np.array([str(groups(name)) for name in images.names])
    return check_groups(groups, len(source), "labelled images")[images.kept]
