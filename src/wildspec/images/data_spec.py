"""Where the images of a training come from, in words that can be kept: the built-in digits task, or sets on disk.

A bundle keeps its `DataSpec`, so that a cut training finds its images again, and `wildspec evaluate` those it learned from.
"""

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wildspec.checks import choice, integer, open_fraction
from wildspec.data.digits_task import digits_task
from wildspec.data.source import ImageSource
from wildspec.errors import DataError, InputError
from wildspec.images.checks import check_apart
from wildspec.images.parts import Parts, split_sets
from wildspec.images.reading import Images, open_images, per_class, read_sets
from wildspec.images.sizing import choose_size


@dataclass(frozen=True)
class DataSpec:
    """What to open. ``kind``: digits or files; ``seed``: of the split; ``held_out``, ``alpha``: how much of the labelled
    images is kept back. ``environments``: a .npy or text file with one whole number per labelled image, in the order the
    images are listed. ``init``: weights the network starts from; other images than those it learned from are held out."""

    kind: str = "digits"
    labelled: str | None = None
    wild: str | None = None
    environments: str | None = None
    size: int | None = None
    held_out: float = 0.2
    alpha: float = 0.05
    seed: int = 0
    init: str | None = None
    max_unreadable: float = 0.05
    cache: str | None = None

    def __post_init__(self) -> None:
        choice("data", self.kind, ("digits", "files"))
        integer("data seed", self.seed)
        open_fraction("held_out", self.held_out)
        open_fraction("alpha", self.alpha)
        if self.kind == "files" and self.labelled is None:
            raise InputError("training on your own images needs --labelled DIR, one sub-folder per class")
        if self.kind == "digits" and (self.labelled or self.wild or self.environments):
            raise InputError("--data digits brings its own images; leave out --labelled, --wild and --environments")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def for_bundle(self) -> dict[str, Any]:
        """What a bundle says: where the images were, not where anything may be written."""
        return {name: value for name, value in asdict(self).items() if name != "cache"}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "DataSpec":
        """What `to_json` wrote, now or in an earlier version."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: given for name, given in value.items() if name in known})


@dataclass(frozen=True)
class Opened:
    """The images of a training. ``labelled``, ``wild``: where thumbnails come from, if anywhere. ``tests``: id, covariate
    and semantic test sets that come with the data."""

    parts: Parts
    labelled: ImageSource | None = None
    wild: ImageSource | None = None
    tests: dict[str, Images] = field(default_factory=dict)


def open_data(spec: DataSpec, device: torch.device | None = None) -> Opened:
    """Read and split. ``device`` decides the image size where none is given: a CPU gets 32 px at most."""
    return _digits(spec) if spec.kind == "digits" else _files(spec, device or torch.device("cpu"))


def _digits(spec: DataSpec) -> Opened:
    """Nobody learns from the ID test images: they are the validation part, too."""
    task = digits_task(spec.seed)
    parts = {"train": task.labelled, "validation": task.id_test, "calibration": task.calibration}
    split = task.splits["known"]
    hashes = {"train": "labelled", "validation": "id_test", "calibration": "calibration"}
    known = sum(map(len, parts.values()))
    counts = np.sum([per_class(images) for images in parts.values()], axis=0).tolist()
    wild = task.wild.pool
    record = {
        "labelled": {
            "count": known, "unreadable": 0, "unreadable_first": [],
            "split": {"n": known, "seed": spec.seed, "parts": {
                name: {"count": len(images), "sha256": split.hash(hashes[name])} for name, images in parts.items()
            }},
            "per_class": dict(zip(task.labelled.classes, counts, strict=True)),
        },
        "wild": {"count": len(wild), "unreadable": 0, "unreadable_first": [], "repeated": 0, "repeated_first": []},
        "source": spec.for_bundle(),
    }  # fmt: skip
    tests: dict[str, Images] = {
        "id": task.id_test, "covariate": task.covariate_test, "semantic": task.semantic_test
    }  # fmt: skip
    made = Parts(
        task.labelled, task.id_test, task.calibration, wild, record, preprocess=task.preprocess  # type: ignore[arg-type]
    )
    return Opened(made, tests=tests)


def _files(spec: DataSpec, device: torch.device) -> Opened:
    check_apart(spec.labelled, spec.wild)
    labelled = open_images(spec.labelled, labelled=True)
    wild = None if spec.wild is None else open_images(spec.wild, labelled=False)
    given = None if spec.environments is None else read_environments(spec.environments, len(labelled))
    size = spec.size or choose_size(labelled, device)
    read = read_sets(labelled, wild, size, max_unreadable=spec.max_unreadable, cache=spec.cache)
    parts = split_sets(
        read, held_out=spec.held_out, alpha=spec.alpha, seed=spec.seed, init=spec.init,
        environments=None if given is None else torch.from_numpy(given[read.labelled.kept]),
    )  # fmt: skip
    parts.record["source"] = spec.for_bundle()
    return Opened(parts, labelled, wild)


def open_again(record: dict[str, Any], size: int, *, labelled: str | None = None, wild: str | None = None) -> Opened:
    """The images that a model learned from, found again by the record in its bundle, or where they are now."""
    kept = record["data"].get("source")
    if kept is None and labelled is None:
        raise InputError("the model does not say where its images are; give --labelled DIR, and --wild DIR if it had any")
    if labelled is None and any(str(kept.get(name)).startswith("hf:") for name in ("labelled", "wild")):
        raise InputError("the model learned from the Hugging Face hub; say so with --labelled hf:NAME, and --wild")
    spec = DataSpec.from_json({**(kept or {"kind": "files"}), **({} if labelled is None else {"labelled": labelled}),
                               **({} if wild is None else {"wild": wild}), "size": size})  # fmt: skip
    found = open_data(spec)
    before, now = (each["split"]["parts"] for each in (record["data"]["labelled"], found.parts.record["labelled"]))
    if before != now:
        raise InputError(
            f"{spec.labelled} no longer holds the images that the model learned from: {_counts(now)} now, "
            f"{_counts(before)} then; give the same ones as --labelled, or leave out --detector"
        )
    return found


def _counts(parts: dict[str, Any]) -> str:
    return f"{sum(part['count'] for part in parts.values()):,} labelled images"


def read_environments(path: str, n: int) -> np.ndarray:
    """(n,) whole numbers from 0."""
    file = Path(path)
    try:
        values = np.load(file, allow_pickle=False) if file.suffix == ".npy" else np.loadtxt(file, dtype=np.int64, ndmin=1)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"environments {file} are not readable ({error}); expected one number per line, or .npy") from error
    if values.shape != (n,) or values.dtype.kind not in "iu" or values.min() < 0:
        raise DataError(
            f"environments {file} must hold {n} whole numbers from 0, one per labelled image, "
            f"got {values.dtype} {values.shape}"
        )
    return values.astype(np.int64)
