"""The contract of a training method, on one screen: what to do with a labelled + wild batch.

A method is an `nn.Module`: trainable extras (the logistic layer of WOODS) are its parameters and go to the optimizer, duals
and group weights are its buffers and go to the checkpoint. Most methods implement `stages` and `loss` and nothing else.

    stages(preset)              one or more `Stage`s, each with its own optimizer and schedule
    loss(model, batch, stage)   scalar to minimize and named values to log
    backward(...)               only for methods whose gradient is not that of one loss (SharpDRO)
    start_stage / before_step / end_epoch     hooks with a `Context`; what is chosen of the wild pool between stages
                                              (`Context.views`) is kept in buffers, by `Batch.wild_rows`
    outputs, adapt(model)       what is added to the network before training (`wildspec.models.outputs`): layers below the
                                head, an unknown output; and layers of the method's own that depend on its widths

A model has `features(x) -> (n, d)`, `head` (linear) and is called for logits. Means over a batch are means over this
process's share; the loop averages gradients over processes, so means of means are right. Anything that is not a mean over
samples goes through `self.reduce` (sums over processes, differentiable).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from wildspec.checks import choice, fraction, integer, non_negative, positive
from wildspec.data.augment import Augmentation
from wildspec.errors import InputError
from wildspec.models import Classifier
from wildspec.models.outputs import ExtraOutputs, add_outputs


class Network(Protocol):
    """What a method may ask of a network; the parts below the features only where it has put them there."""

    head: nn.Linear

    @property
    def backbone(self) -> Callable[[Tensor], Tensor]: ...

    @property
    def neck(self) -> nn.Module: ...

    @property
    def unknown(self) -> nn.Linear | None: ...

    def features(self, x: Tensor) -> Tensor: ...

    def maps(self, x: Tensor) -> Tensor: ...

    def __call__(self, x: Tensor) -> Tensor: ...


def true_or_false(name: str, value: Any) -> bool:
    """A switch. Text is refused, above all "False", which Python takes for true."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, in small letters and without quotes, got {value!r}")
    return value


@dataclass(frozen=True)
class Stage:
    """One optimizer run: budget, batch, schedule, augmentation. An epoch is one pass over the labelled set, or
    ``epoch_steps`` steps."""

    name: str
    epochs: float
    lr: float
    batch_labelled: int = 128
    batch_wild: int = 0
    labelled_views: int = 1
    wild_views: int = 0
    augmentation: Augmentation = field(default_factory=Augmentation.flip_and_shift)
    schedule: str = "cosine"  # cosine to 0, step (lr x 0.5 at 50, 75, 90 %), inverse ((1 + 10 p)^-3/4), constant
    warmup: float = 0.0  # epochs of linear growth from 0
    optimizer: str = "sgd"
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4
    ema: float = 0.0  # decay of the weight average per step; 0 = off
    epoch_steps: int = 0  # steps of an epoch; 0: one pass over the labelled set
    backbone_lr: float = 1.0  # factor on the rate of the backbone; 0: it is not trained
    backbone_part: str = "all"  # what of it is trained: all, or last, its last part that has weights
    decay: tuple[float, float] = (0.0, 1.0)  # which part of the inverse schedule the stage covers

    def __post_init__(self) -> None:
        positive("epochs", self.epochs)
        positive("lr", self.lr)
        integer("batch_labelled", self.batch_labelled, 1)
        integer("batch_wild", self.batch_wild, 0)
        integer("labelled_views", self.labelled_views, 1)
        integer("wild_views", self.wild_views, 0)
        choice("schedule", self.schedule, ("cosine", "step", "inverse", "constant"))
        non_negative("backbone_lr", self.backbone_lr)
        choice("backbone_part", self.backbone_part, ("all", "last"))
        given: Any = self.decay
        shares = isinstance(given, (tuple, list)) and len(given) == 2 and all(isinstance(end, (int, float)) for end in given)
        if not shares or not 0 <= given[0] <= given[1] <= 1:
            raise InputError(f"decay must be two shares 0 <= a <= b <= 1 of the inverse schedule, got {self.decay}")
        choice("optimizer", self.optimizer, ("sgd", "adam"))
        non_negative("warmup", self.warmup)
        fraction("momentum", self.momentum)
        non_negative("weight_decay", self.weight_decay)
        fraction("ema", self.ema)
        integer("epoch_steps", self.epoch_steps, 0)
        true_or_false("nesterov", self.nesterov)
        if self.warmup > self.epochs:
            raise InputError(f"warmup ({self.warmup:g} epochs) must not exceed the stage's epochs ({self.epochs:g})")
        if bool(self.batch_wild) != bool(self.wild_views):
            raise InputError(
                f"stage {self.name!r}: batch_wild ({self.batch_wild}) and wild_views ({self.wild_views}) go together"
            )

    @property
    def views_per_step(self) -> int:
        return self.batch_labelled * self.labelled_views + self.batch_wild * self.wild_views

    def scaled(self, **changes: Any) -> "Stage":
        """A copy with some fields changed."""
        return replace(self, **changes)


@dataclass
class Batch:
    """All views of a step in one tensor, so that one forward pass serves them: labelled views first, then wild views."""

    images: Tensor  # (V n + W m, 3, H, W) normalized
    labels: Tensor  # (n,)
    labelled_views: int
    wild_views: int
    environments: Tensor | None = None  # (n,) int64, from 0
    wild_rows: Tensor | None = None  # (m,) int64: which images of the wild pool these are

    def split(self, out: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Per-image outputs -> (V tensors of n rows, W tensors of m rows)."""
        n = self.labels.shape[0]
        cut = n * self.labelled_views
        wild = out[cut:].chunk(self.wild_views) if self.wild_views else ()
        return out[:cut].chunk(self.labelled_views), wild

    @property
    def labelled_images(self) -> Tensor:
        """(n, 3, H, W): the first labelled view."""
        return self.images[: self.labels.shape[0]]


@dataclass
class Context:
    """What hooks may look at. `labelled()` goes once over the labelled set, un-augmented, in batches (images, labels).

    `views(part, count)` goes once over "labelled" or "wild", in order: (count, b, 3, H, W), augmented as in the stage; a
    count of 0 gives (1, b, 3, H, W), un-augmented.
    ``wild_weights``: (m,) how often each image of the wild pool is met, summing to 1; None: all alike.
    ``seed``: of the run, the same on every process.
    """

    model: Network
    stage: Stage
    labelled: Callable[[], Iterator[tuple[Tensor, Tensor]]]
    total_steps: int
    views: Callable[[str, int], Iterator[Tensor]] | None = None
    wild_weights: Any = None
    seed: int = 0


class Method(nn.Module):
    """Base of all training methods."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for lists
    paper: ClassVar[str]
    default_detector: ClassVar[str] = "knn"
    needs_wild: ClassVar[bool] = False
    published: ClassVar[dict[str, Any]] = {}  # hyper-parameters of preset "paper" that are not the defaults
    begins_as: ClassVar[str | None] = None  # its first stage is the training of this method: a run may start from its end
    capturable: ClassVar[bool] = True  # every step runs the same kernels: may be captured in a CUDA graph

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = integer("num_classes", num_classes, 2)
        self.reduce: Callable[[Tensor], Tensor] | None = None  # set by the loop when there are several processes

    @property
    def outputs(self) -> ExtraOutputs | None:
        """What the method adds to a network; None: nothing."""
        return None

    def adapt(self, model: Classifier) -> None:
        """Once, before the first stage (also when resuming): make the network and the method fit each other."""
        if self.outputs is not None:
            add_outputs(model, self.outputs)

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        """The recipe: stages in order."""
        raise NotImplementedError

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        """Scalar to minimize, and values to log (scalars, detached)."""
        raise NotImplementedError

    def backward(self, model: Network, batch: Batch, stage: Stage) -> dict[str, Tensor]:
        """Leave gradients in ``.grad`` and return values to log, ``loss`` among them."""
        total, terms = self.loss(model, batch, stage)
        total.backward()
        return {"loss": total.detach(), **terms}

    def start_stage(self, context: Context) -> None:
        """Before the first step of a stage (not when resuming inside it)."""

    def before_step(self, stage: Stage, step: int) -> bool:
        """Before every step; True = forget the optimizer's state (DomainBed's penalty switch)."""
        return False

    def look_at(self, stage: Stage, step: int, values: dict[str, float]) -> None:
        """The values logged at a step of a stage: where they say that training goes wrong, warn. On one process only."""

    def end_epoch(self, context: Context, epoch: int) -> None:
        """After each pass over the labelled set: dual updates."""
