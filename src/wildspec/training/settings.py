"""What a run is told besides the method's own recipe, and what it is given to learn from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from wildspec.checks import MOST_SEED, choice, integer, positive
from wildspec.data import ImageSet, WildMixture, WildPool
from wildspec.data.preprocess import Preprocess
from wildspec.errors import InputError, InputTypeError
from wildspec.methods.base import Method, Stage
from wildspec.models import Classifier
from wildspec.training.budget import Budget
from wildspec.training.device import PRECISIONS


@dataclass(frozen=True)
class Settings:
    """How to run: ``batch sizes, rates and epochs`` belong to the stages, not here.

    ``graph``: capture whole steps in a CUDA graph, "auto" = on CUDA; ``compile``: torch.compile of network and augmentation,
    "auto" = on CUDA in stages long enough to win back the time it takes. ``time_limit``: seconds after which the run stops
    with a checkpoint and can be resumed. ``checkpoint_every``: seconds between checkpoints (there is always one at the end
    of a stage). ``budget``: a time to finish in; stages that are late are shortened.
    """

    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    compile: bool | str = "auto"
    graph: bool | str = "auto"
    log_every: int = 50
    checkpoint_every: float = 60.0
    checkpoint_steps: int | None = None
    keep: int = 2
    time_limit: float | None = None
    budget: Budget | None = None
    tensorboard: bool = False
    progress: bool = True

    def __post_init__(self) -> None:
        integer("seed", self.seed, 0, MOST_SEED)
        choice("precision", self.precision, PRECISIONS)
        choice("compile", self.compile, ("auto", True, False))
        choice("graph", self.graph, ("auto", True, False))
        integer("log_every", self.log_every, 1)
        positive("checkpoint_every", self.checkpoint_every)
        if self.checkpoint_steps is not None:
            integer("checkpoint_steps", self.checkpoint_steps, 1)
        integer("keep", self.keep, 1)
        if self.time_limit is not None:
            positive("time_limit", self.time_limit)
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise InputTypeError(
                f"budget must be a Budget(seconds, planned), planned: seconds for each stage, got {self.budget!r}; "
                "to stop after some seconds and resume later: time_limit"
            )


@dataclass
class TrainData:
    """Labelled images, a wild pool or mixture (or None).

    ``environments``: (n,) domain number of each labelled image, for methods that use them.
    """

    labelled: ImageSet
    wild: WildPool | WildMixture | None = None
    environments: Any = None
    preprocess: Preprocess | None = None
    num_classes: int = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.labelled, ImageSet):
            raise InputTypeError(
                f"labelled must be an image set, got {type(self.labelled).__name__}; of a data set, pairs or arrays: "
                "wildspec.data.load_images(open_source(...), size)"
            )
        if self.wild is not None and not isinstance(self.wild, WildPool | WildMixture):
            raise InputTypeError(
                f"wild must be a WildPool or a WildMixture, got {type(self.wild).__name__}; of images: WildPool(images)"
            )
        labels = self.labelled.labels
        if len(self.labelled) == 0:
            raise InputError("the labelled set is empty; give at least two classes of labelled images")
        if int(labels.min()) < 0:
            missing = int((labels < 0).sum())
            raise InputError(f"{missing} images of the labelled set have no label; move them to the wild pool")
        self.num_classes = len(self.labelled.classes)
        present = torch.unique(labels)
        if len(present) < 2:
            raise InputError("the labelled set has one class only; a classifier needs at least two")
        if len(present) < self.num_classes:
            absent = sorted(set(range(self.num_classes)) - set(present.tolist()))
            names = ", ".join(self.labelled.classes[c] for c in absent[:5])
            raise InputError(f"no labelled image of class {names}; add images or drop the class")
        height, width = self.labelled.image_size
        if height != width:
            raise InputError(f"images must be square, got {height} x {width}; load them with size=")
        if self.wild is not None and self.wild.pool.image_size != (height, width):
            theirs = "{} x {}".format(*self.wild.pool.image_size)
            raise InputError(
                f"the wild pool has {theirs} images, the labelled set {height} x {width}; load them with the same size="
            )
        if self.preprocess is None:
            self.preprocess = Preprocess(size=height)
        if self.environments is not None:
            given = np.asarray(self.environments)
            fits = given.shape == (len(self.labelled),) and given.dtype.kind in "biuf" and np.isfinite(given).all()
            if not fits or (given < 0).any() or (given != np.floor(given)).any():
                raise InputError(
                    f"environments must be {len(self.labelled)} whole numbers from 0, one per labelled image, "
                    f"got {given.dtype} of shape {given.shape}"
                )
            self.environments = torch.from_numpy(given.astype(np.int64))


def check_fit(model: Classifier, method: Method, data: TrainData) -> None:
    """Model, method and data must agree on classes and environments, and a method that learns from a pool must have one."""
    if not isinstance(model, Classifier):
        raise InputTypeError(
            f"a {type(model).__name__} cannot be trained here; take off its last layer and give "
            "wildspec.models.wrap_backbone(network, num_classes), whose .head can get the weights of that layer"
        )
    classes = model.head.out_features
    if classes != data.num_classes or method.num_classes != data.num_classes:
        raise InputError(
            f"the data has {data.num_classes} classes, the model {classes}, the method {method.num_classes}; "
            "build both with the number of classes of the data"
        )
    groups = getattr(method, "num_environments", None)
    if groups is not None and data.environments is not None and int(data.environments.max()) >= groups:
        raise InputError(
            f"the data has environments up to {int(data.environments.max())}, the method counts {groups}; "
            f"build it with num_environments={int(data.environments.max()) + 1}"
        )
    if method.needs_wild and data.wild is None:
        raise InputError(f"method {method.name} learns from wild images; give a wild pool (--wild DIR)")


def check_batches(model: Classifier, method: Method, stages: Sequence[Stage]) -> None:
    """Batch norm of features has nothing to divide by in a batch of one."""
    if any(isinstance(part, nn.BatchNorm1d) for part in (*model.modules(), *method.modules())):
        for stage in stages:
            for name, size in (("batch_labelled", stage.batch_labelled), ("batch_wild", stage.batch_wild)):
                if size == 1:
                    raise InputError(f"{name} of stage {stage.name!r} is 1, {method.name} needs at least 2; add images")
