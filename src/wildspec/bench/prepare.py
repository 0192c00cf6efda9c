"""A protocol's data, put together: labelled, wild, validation and test sets, each with a hash of its pixels and labels.

Splits follow from the protocol's ``split_seed`` alone, so every method and every seed sees the same images; what differs
between seeds is initialization, order and augmentation.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from wildspec.bench.protocols import Protocol, Semantic
from wildspec.bench.store import Store, content_hash
from wildspec.data import ImageArrays, WildMixture, fraction_split, wild_split
from wildspec.errors import DataError, InputError

TRAIN_NOISE, TEST_NOISE, SEMANTIC_NOISE = 1, 2, 3  # seeds of the corruptions: no image of two sets gets the same noise


@dataclass
class Prepared:
    """All that a run of a protocol is given. ``covariate_test``: by severity; ``unseen``: semantic sets not in the pool."""

    protocol: Protocol
    semantic: Semantic
    covariate: str
    severity: int
    labelled: ImageArrays
    wild: WildMixture
    id_validation: ImageArrays
    id_test: ImageArrays
    covariate_test: dict[int, ImageArrays]
    semantic_test: ImageArrays
    unseen: dict[str, ImageArrays] = field(default_factory=dict)
    splits: dict[str, str] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)  # "cifar10/train": number of images, checksums of the files

    def hashes(self) -> dict[str, str]:
        """Name of each set -> sha256 of its pixels and labels, in order."""
        if not self.splits:
            sets: dict[str, ImageArrays] = {
                "labelled": self.labelled, "id_validation": self.id_validation, "id_test": self.id_test,
                "semantic_test": self.semantic_test, f"covariate_test_{self.severity}": self.covariate_test[self.severity],
            }  # fmt: skip
            pool = self.wild.pool
            assert isinstance(pool, ImageArrays)
            self.splits = {name: content_hash(images) for name, images in {**sets, "wild": pool}.items()}
        return self.splits


def prepare(
    protocol: Protocol,
    semantic: str,
    store: Store,
    *,
    severity: int | None = None,
    unseen: bool = True,
    all_labels: bool = False,
) -> Prepared:
    """Read, split, corrupt and mix what ``protocol`` asks for with ``semantic`` in the wild pool.

    ``all_labels``: the labelled set is not half of the ID training set but all of it, less the ID validation part; the
    wild ID images are then among the labelled ones. Not the protocol: for rows that may have been published that way.
    """
    chosen = protocol.semantic_set(semantic)
    if protocol.kind == "domains":
        if all_labels:
            raise InputError(f"{protocol.name} labels the whole source domain already; leave out --all-labels")
        made = _domains(protocol, chosen, store)
    else:
        made = _corruption(protocol, chosen, store, severity or int(protocol.covariate["severity"]), unseen, all_labels)
    size = protocol.in_distribution["size"]
    made.sources = {
        f"{name}/{split}": store.describe(name, split, size) for name, split in needed_splits(protocol, semantic)
    }
    return made


def needed_splits(protocol: Protocol, semantic: str) -> list[tuple[str, str]]:
    """(set, split) pairs a protocol reads with this semantic set."""
    chosen = protocol.semantic_set(semantic)
    own = protocol.in_distribution
    pairs = [(own["set"], own["train"]), (own["set"], own["test"]), (chosen.set, chosen.train), (chosen.set, chosen.test)]
    return list(dict.fromkeys((name, split) for name, split in pairs if name and split))


# -- CIFAR-10 and ImageNet-100: the covariate set is made by corrupting ID images -------------------------------------------
def _corruption(
    protocol: Protocol, chosen: Semantic, store: Store, severity: int, unseen: bool, all_labels: bool
) -> Prepared:
    from wildspec.data.corruptions import corrupt

    own, size, seed = protocol.in_distribution, protocol.in_distribution["size"], protocol.split_seed
    kind, levels = protocol.covariate["corruption"], protocol.covariate["severities"]
    if severity not in levels:
        raise InputError(f"severity must be one of {', '.join(map(str, levels))}, got {severity}")
    train, test = store.load(own["set"], own["train"], size), store.load(own["set"], own["test"], size)
    _check_classes(protocol, train, test)
    known: list[int] = own.get("known", list(range(own["classes"])))
    all_train, all_test = train, test
    if len(known) < own["classes"]:
        train, test = only_classes(train, known), only_classes(test, known)

    shares = {"labelled": protocol.labelled, "unlabelled": 1 - protocol.labelled}
    halves = fraction_split(len(train), shares, seed, labels=train.labels.numpy())
    unlabelled = train.subset(halves["unlabelled"])
    parts = wild_split(len(unlabelled), seed, protocol.unlabelled_scheme, labels=unlabelled.labels.numpy())
    wild_in = unlabelled.subset(parts["train"])
    held_out = halves["unlabelled"][parts["id_validation"]]
    labelled = np.setdiff1d(np.arange(len(train)), held_out) if all_labels else halves["labelled"]

    def noisy(images: ImageArrays, level: int, noise_seed: int) -> ImageArrays:
        pixels = corrupt(images.images, kind, level, noise_seed)
        return ImageArrays(pixels, images.labels, images.classes, images.names, kept=images.kept)

    def semantic_parts(entry: Semantic) -> tuple[ImageArrays, ImageArrays]:
        """(wild training part, test part) of a semantic set."""
        if entry.unknown_classes:
            rest = [c for c in range(own["classes"]) if c not in known]
            pool, held = only_classes(all_train, rest), only_classes(all_test, rest)
            if entry.corrupted:
                pool, held = noisy(pool, severity, SEMANTIC_NOISE), noisy(held, severity, SEMANTIC_NOISE + 1)
        else:
            assert entry.train is not None
            pool = store.load(entry.set, entry.train, size)
            held = store.load(entry.set, entry.test, size) if entry.test else pool
        cut = wild_split(len(pool), seed, entry.scheme)
        return pool.subset(cut["train"]), (held if entry.test else held.subset(cut["test"]))

    wild_semantic, semantic_test = semantic_parts(chosen)
    others = [entry for entry in protocol.semantic if entry.name != chosen.name] if unseen else []
    return Prepared(
        protocol, chosen, kind, severity,
        labelled=train.subset(labelled),
        wild=WildMixture(
            wild_in, noisy(wild_in, severity, TRAIN_NOISE), wild_semantic, protocol.pi_c or 0.0, protocol.pi_s or 0.0
        ),
        id_validation=unlabelled.subset(parts["id_validation"]),
        id_test=test,
        covariate_test={level: noisy(test, level, TEST_NOISE) for level in levels},
        semantic_test=semantic_test,
        unseen={entry.name: semantic_parts(entry)[1] for entry in others if _there(entry, store)},
    )  # fmt: skip


def _there(entry: Semantic, store: Store) -> bool:
    if entry.unknown_classes:
        return True
    return all(store.available(entry.set, split) for split in (entry.train, entry.test) if split)


def _check_classes(protocol: Protocol, *sets: ImageArrays) -> None:
    wanted = protocol.in_distribution["classes"]
    for images in sets:
        found = len(torch.unique(images.labels))
        if len(images.classes) != wanted or found != wanted or int(images.labels.min()) < 0:
            raise DataError(
                f"{protocol.in_distribution['set']} must have {wanted} classes, all labelled; found {found} among "
                f"{len(images.classes)} named"
            )
        lacking = sorted(set(protocol.in_distribution.get("wnids", ())) - set(images.classes))
        if lacking:
            raise DataError(f"{protocol.in_distribution['set']} lacks the classes {', '.join(lacking[:5])} of the paper")


# -- Office-Home: the covariate set is another domain ---------------------------------------------------------------------
def _domains(protocol: Protocol, chosen: Semantic, store: Store) -> Prepared:
    own = protocol.in_distribution
    assert protocol.known is not None
    assert protocol.unknown is not None
    assert protocol.id_holdout is not None
    whole = store.load(own["set"], own["train"], own["size"])
    domain = store.column(own["set"], own["train"], own["size"], "domain")
    order = sorted(range(len(whole.classes)), key=lambda c: whole.classes[c].lower())
    if len(order) != protocol.known + protocol.unknown:
        raise DataError(
            f"{own['set']} must have {protocol.known + protocol.unknown} classes, found {len(order)}; use the whole set"
        )
    wanted = {key: protocol.domains[key] for key in (chosen.source, chosen.target) if key is not None}
    for key, name in wanted.items():
        if name not in domain:
            have = ", ".join(sorted(set(domain.tolist())))
            raise DataError(f"{own['set']} has no images of the domain {name!r} ({key}); it has {have}")
    known, unknown = order[: protocol.known], order[protocol.known :]
    source = only_classes(whole.subset(np.flatnonzero(domain == wanted[str(chosen.source)])), known)
    target = whole.subset(np.flatnonzero(domain == wanted[str(chosen.target)]))
    covariate, semantic = only_classes(target, known), only_classes(target, unknown)

    half = protocol.id_holdout / 2
    shares = {"labelled": 1 - protocol.id_holdout, "validation": half, "test": half}
    cut = fraction_split(len(source), shares, protocol.split_seed, labels=source.labels.numpy())
    pi_c = len(covariate) / (len(covariate) + len(semantic))
    return Prepared(
        protocol, chosen, "domain", 1,
        labelled=source.subset(cut["labelled"]),
        wild=WildMixture(None, covariate, semantic, pi_c, 1 - pi_c),
        id_validation=source.subset(cut["validation"]),
        id_test=source.subset(cut["test"]),
        covariate_test={1: covariate},
        semantic_test=semantic,
    )  # fmt: skip


def only_classes(images: ImageArrays, classes: list[int]) -> ImageArrays:
    """The images of some classes, renumbered 0, 1, ... in the order given."""
    place = torch.full((len(images.classes),), -1, dtype=torch.int64)
    place[torch.tensor(classes, dtype=torch.int64)] = torch.arange(len(classes))
    mine = torch.isin(images.labels, torch.tensor(classes, dtype=torch.int64))
    kept = images.subset(torch.nonzero(mine).flatten())
    made: dict[str, Any] = {"images": kept.images, "labels": place[kept.labels], "names": kept.names, "kept": kept.kept}
    return ImageArrays(classes=tuple(images.classes[c] for c in classes), **made)
