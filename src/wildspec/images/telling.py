"""What a fit says about the images it has read."""

from collections.abc import Callable
from typing import Any

from wildspec.images.checks import classes_in_words
from wildspec.images.parts import Parts

Say = Callable[[str], None]


def tell(parts: Parts, say: Say, init: Any = None) -> None:
    """What was read, in a few lines."""
    counts = parts.record["labelled"]["per_class"]
    wild = 0 if parts.wild is None else len(parts.wild)
    say(
        f"read {sum(counts.values()):,} labelled images of {len(counts)} classes ({len(parts.train):,} to learn from, "
        f"{len(parts.validation):,} for validation, {len(parts.calibration):,} for calibration) and {wild:,} wild "
        f"{'one' if wild == 1 else 'ones'} at {parts.size} px"
    )
    say(classes_in_words(list(counts), list(counts.values())))
    if parts.groups is not None:
        say(f"groups: {parts.groups:,}, of {sum(counts.values()):,} labelled images")
    copies = parts.record["labelled"]["split"]["parts"].get("copies", {"count": 0})["count"]
    if copies:
        many = f"{copies:,} labelled images are copies" if copies > 1 else "1 labelled image is a copy"
        say(f"{many} of held-out ones, or of their group, and not learned from")
    if init is not None and parts.record["labelled"].get("held_out_taught") == 0:
        say(f"none of the images held out taught the network in {init}")
