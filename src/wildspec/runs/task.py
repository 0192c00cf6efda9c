"""The data of a run: scikit-learn's digits (nothing to download), or images on disk.

From disk, ``held_out`` of the labelled images (stratified) are kept back: they calibrate thresholds and, where no test set
is given, stand in for one.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wildspec.checks import choice, integer, open_fraction
from wildspec.data import ImageArrays, Preprocess, StreamingImages, WildPool, holdout, load_images, open_source
from wildspec.data.preprocess import IMAGENET_MEAN, IMAGENET_STD
from wildspec.errors import DataError, InputError

IN_MEMORY_BYTES = 2 << 30  # more pixels than this are read from disk as they are needed
Images = ImageArrays | StreamingImages


@dataclass(frozen=True)
class DataSpec:
    """What to open; JSON-able, kept in the run folder. ``kind``: digits or files; ``seed``: of the split.

    ``environments``: a .npy or text file with one whole number per labelled image, in the order the images are listed.
    ``flip``: may images be mirrored in training? Not digits.
    """

    kind: str = "digits"
    seed: int = 0
    labelled: str | None = None
    wild: str | None = None
    environments: str | None = None
    size: int | None = None
    held_out: float = 0.1
    flip: bool = True

    def __post_init__(self) -> None:
        choice("data", self.kind, ("digits", "files"))
        integer("data seed", self.seed)
        open_fraction("held_out", self.held_out)
        if self.kind == "files" and self.labelled is None:
            raise InputError("training on your own images needs --labelled DIR, one sub-folder per class")
        if self.kind == "digits" and (self.labelled or self.wild or self.environments):
            raise InputError("--data digits brings its own images; leave out --labelled, --wild and --environments")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Task:
    """Opened. ``calibration``: ID images nobody learned from. Test sets are None where they come with the evaluation."""

    labelled: Images
    wild: WildPool | None
    calibration: Images
    preprocess: Preprocess
    flip: bool
    environments: torch.Tensor | None = None
    id_test: Images | None = None
    covariate_test: Images | None = None
    semantic_test: Images | None = None

    @property
    def size(self) -> int:
        return self.preprocess.size

    @property
    def num_environments(self) -> int | None:
        return None if self.environments is None else int(self.environments.max()) + 1


def open_task(spec: DataSpec, device: torch.device | None = None) -> Task:
    """Read and split. ``device`` decides the image size where none is given: a CPU gets 32 px at most."""
    return _digits(spec.seed) if spec.kind == "digits" else _files(spec, device or torch.device("cpu"))


def _digits(seed: int) -> Task:
    from wildspec.data.digits_task import digits_task

    task = digits_task(seed)
    return Task(
        task.labelled, task.wild, task.calibration, task.preprocess, flip=False,
        id_test=task.id_test, covariate_test=task.covariate_test, semantic_test=task.semantic_test,
    )  # fmt: skip


def _files(spec: DataSpec, device: torch.device) -> Task:
    from wildspec.images.sizing import choose_size

    source = open_source(spec.labelled, labelled=True)
    size = spec.size or choose_size(source, device)
    images = read(source, size)
    if int(images.labels.min()) < 0:
        missing = int((images.labels < 0).sum())
        raise InputError(f"{spec.labelled}: {missing} images have no label; move them to the wild pool")
    split = holdout(images.labels.cpu().numpy(), spec.held_out, spec.seed)
    environments = None if spec.environments is None else read_environments(spec.environments, len(source))
    return Task(
        labelled=images.subset(split["train"]),
        wild=None if spec.wild is None else WildPool(read(open_source(spec.wild, labelled=False), size)),
        calibration=images.subset(split["holdout"]),
        preprocess=Preprocess(size) if size <= 64 else Preprocess(size, IMAGENET_MEAN, IMAGENET_STD),
        flip=spec.flip,
        environments=None if environments is None else torch.from_numpy(environments[images.kept][split["train"]]),
    )


def read(source: Any, size: int) -> Images:
    """In memory, or from disk when there are too many pixels."""
    if len(source) * 3 * size * size <= IN_MEMORY_BYTES:
        return load_images(source, size)
    return StreamingImages(source, size)


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


def known_images(path: str, size: int, classes: tuple[str, ...]) -> Images:
    """A labelled test set whose class names are among the known ones; labels are renumbered to theirs."""
    images = read(open_source(path, labelled=True), size)
    strange = [name for name in images.classes if name not in classes]
    if strange:
        raise InputError(
            f"{path} has the class {', '.join(strange[:3])}, which the run does not know; give unknown classes as --semantic"
        )
    number = torch.tensor([classes.index(name) for name in images.classes])
    images.labels = torch.where(images.labels >= 0, number[images.labels.clamp_min(0)], images.labels)
    images.classes = classes
    return images
