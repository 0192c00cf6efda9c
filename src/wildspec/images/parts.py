"""Step 2 of a fit: who is learned from, who is held out.

    train         the network and the detector learn from these, with labels
    validation    nobody learns from these: accuracy and false alarms are measured on them
    calibration   nobody learns from these: the threshold rests on them
    wild          learned from, without labels

What belongs together (`together`) is on one side.
"""

import math
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from torch import Tensor

from wildspec.data import Preprocess, Split, fraction_split
from wildspec.decision.calibration import samples_needed
from wildspec.decision.shares import FEWEST
from wildspec.errors import InputError
from wildspec.images.reading import Images, ReadSets, per_class
from wildspec.images.together import Groups, kept_together, with_their_groups
from wildspec.images.training_history import TrainingHistory, hold_out_others, pixel_digests

MOST_IN_CALIBRATION = 0.5  # of the labelled images


@dataclass(frozen=True)
class Parts:
    """The images of a fit. ``record``: what was read and how it was split, for model.json; ``history``: which images were
    learned from, for fits that start from this one (`training_history`); ``environments``: (n,) of the training images;
    ``preprocess``: where the data bring their own normalization; ``groups``: of the labelled images, where a user said what
    belongs together; None: nobody did."""

    train: Images
    validation: Images
    calibration: Images
    wild: Images | None
    record: dict[str, Any]
    history: dict[str, Tensor] = field(default_factory=dict)
    environments: Tensor | None = None
    preprocess: Preprocess | None = None
    groups: int | None = None

    @property
    def grouped(self) -> bool:
        """Did images come in groups of the user's?"""
        return self.groups is not None

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.train.classes)

    @property
    def size(self) -> int:
        """Side of the images in pixels."""
        return self.train.image_size[0]

    def __len__(self) -> int:
        """All images, which go through the network once when it is trained."""
        wild = 0 if self.wild is None else len(self.wild)
        return len(self.train) + len(self.validation) + len(self.calibration) + wild


def split_sets(
    read: ReadSets, *, held_out: float, alpha: float, seed: int, init: str | PathLike[str] | None = None,
    environments: Tensor | None = None, groups: Groups = None, turns: bool = False,
) -> Parts:  # fmt: skip
    """``held_out``: share of the labelled images kept back; of those the network in ``init`` learned from as few as can be.
    ``environments``: (n,) of the labelled images that were read. ``groups``: `kept_together`. ``turns``: images that are
    learned from calibrate, too (`wildspec.decision.turns`), unless they come in groups."""
    labelled, wild, digests = read.labelled, read.wild, read.digests
    together = kept_together(labelled, digests, read.labelled_source, groups)
    first = np.unique(together, return_index=True)[1]
    one_each = labelled if len(first) == len(labelled) else labelled.subset(first)
    if turns and groups is None:
        split = split_for_turns(one_each, held_out, alpha, seed)
    else:  # with a wild pool the held-out images also say how much of it is like them, which may take more of them
        split = split_labelled(one_each, held_out, alpha, seed, least=1 if wild is None else FEWEST)
    before, known = TrainingHistory.of(init), None
    if init is not None:
        theirs = [digests[i] for i in first.tolist()]
        split, known = hold_out_others(split, one_each, theirs, read.labelled_source, init, before)
    split = with_their_groups(split, together, labelled.labels.cpu().numpy(), labelled)
    pool = [] if wild is None else pixel_digests(wild)
    history = before.after(read.size, digests, split["train"], pool).to_tensors()
    record = {
        "labelled": {
            **_read_record(labelled), "split": split.to_json(),
            "per_class": dict(zip(labelled.classes, per_class(labelled), strict=True)),
            **({} if known is None else {"held_out_taught": known}),
        },
        "wild": None if wild is None else {
            **_read_record(wild), "repeated": len(read.repeated), "repeated_first": list(read.repeated[:10]),
        },
    }  # fmt: skip
    train, validation, calibration = (labelled.subset(split[name]) for name in ("train", "validation", "calibration"))
    mine = None if environments is None else environments[split["train"]]
    return Parts(
        train, validation, calibration, wild, record, history, mine, groups=None if groups is None else len(first)
    )


def split_labelled(images: Images, held_out: float, alpha: float, seed: int, *, least: int = 1) -> Split:
    """``train``, ``validation`` and ``calibration``, stratified; the last two share ``held_out``.

    Calibration gets as many as alpha needs, and ``least``: out of a small set a larger part.
    """
    labels = images.labels.cpu().numpy()
    n, needed = len(images), max(samples_needed(alpha), least)
    share = max(held_out / 2, (needed + 1) / n)
    while share <= MOST_IN_CALIBRATION:
        parts = {"train": 1 - share - held_out / 2, "validation": held_out / 2, "calibration": share}
        split = _learned_from(fraction_split(n, parts, seed, labels=labels, ids=images.names), labels)
        if len(split["calibration"]) >= needed and len(split["validation"]):
            return split
        share *= 1.1
    wanted = max(math.ceil((needed + 1) / MOST_IN_CALIBRATION), n + len(np.unique(labels)))
    raise _too_few(n, alpha, f"{needed} for calibration and as many to learn from", wanted)


def split_for_turns(images: Images, held_out: float, alpha: float, seed: int) -> Split:
    """The same where images that are learned from calibrate, too, in turns: those of a class with two of them or more."""
    labels = images.labels.cpu().numpy()
    n, needed = len(images), samples_needed(alpha)
    share = max(held_out / 2, 1 / n)
    while share < MOST_IN_CALIBRATION:  # larger parts until both have an image: a class may have fewer than ten
        parts = {"train": 1 - 2 * share, "validation": share, "calibration": share}
        split = _learned_from(fraction_split(n, parts, seed, labels=labels, ids=images.names), labels)
        if len(split["calibration"]) and len(split["validation"]):
            _, counts = np.unique(labels[split["train"]], return_counts=True)
            if len(split["calibration"]) + counts[counts > 1].sum() >= needed:
                return split
            break
        share *= 1.1
    wanted = max(math.ceil((needed + 1) / (1 - held_out / 2)), n + len(np.unique(labels)))
    raise _too_few(n, alpha, f"{needed} for calibration", wanted)


def _learned_from(split: Split, labels: np.ndarray) -> Split:
    """The split with an image of every class in ``train``: of a class that has none there, one comes from the larger of the
    other parts that have one."""
    members = dict(split.members)
    for label in np.setdiff1d(labels, labels[members["train"]]).tolist():
        having = [name for name in ("calibration", "validation") if (labels[members[name]] == label).any()]
        name = max(having, key=lambda part: len(members[part]))
        one = members[name][labels[members[name]] == label][:1]
        members[name] = np.setdiff1d(members[name], one)
        members["train"] = np.union1d(members["train"], one)
    return Split(members, split.n, split.seed, split.ids)


def _too_few(n: int, alpha: float, needs: str, wanted: int) -> InputError:
    return InputError(
        f"too few labelled images, {n} (copies and groups count once): alpha = {alpha:g} needs {needs}; give about {wanted} "
        "in all, or allow more false alarms (a larger alpha)"
    )


def _read_record(images: Images) -> dict[str, Any]:
    """What was read: counts and the first unreadable items."""
    first = [{"name": item.name, "reason": item.reason} for item in images.unreadable[:10]]
    return {"count": len(images), "unreadable": len(images.unreadable), "unreadable_first": first}
