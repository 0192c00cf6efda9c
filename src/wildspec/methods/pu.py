"""Cross-entropy, and an energy that tells wild samples from labelled ones: positive-unlabelled learning.

With h(x) = w lse(z(x)) + b (w, b trained beside the network, h > 0 = called wild), on views of labelled and wild samples,

    L = mean_ID CE + weight [ mean_ID softplus(h) + mean_wild softplus(-h) ]

The bracket is logistic regression of "wild" against "labelled", at its best h = log p_wild / p_labelled. The wild pool is
known samples and unknown ones, so the ratio grows with p_unknown / p_known: ranking by it is ranking by what is sought, and
the share of unknown samples need not be known (Elkan and Noto, 2008). That holds as far as the views make known wild samples
look like labelled ones: hence views that hide what cameras and light do (`Augmentation.field`). What they do not hide counts
as unknown. The bracket is left out for the first part of the stage (``start``), until the network knows the classes.

At test time the score is -lse(z): w and b are not needed. WOODS (`woods.py`) asks the same of the energy by constraints
and keeps no condition hidden; this is its plain form for a budget of minutes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wildspec.checks import fraction, non_negative
from wildspec.data.augment import Augmentation
from wildspec.losses.spectral import at_least_float32
from wildspec.methods.base import Batch, Context, Method, Network, Stage
from wildspec.methods.recipes import supervised

STAGE = "together"
EPOCHS = 2.0  # as many as a supervised run of the same preset has, times this


class PU(Method):
    """One stage, ``together``: labelled and wild views in one batch."""

    name = "pu"
    summary = "cross-entropy and an energy that tells wild images from labelled ones"
    paper = "this library; ratio of Elkan and Noto, 2008 (KDD)"
    default_detector = "energy"
    needs_wild = True
    active: Tensor
    first: Tensor

    def __init__(self, num_classes: int, weight: float = 0.5, start: float = 0.3) -> None:
        super().__init__(num_classes)
        self.weight = non_negative("weight", weight)
        self.start = fraction("start", start)
        self.scale = nn.Parameter(torch.tensor(-1.0))  # w: a wild sample has a low lse
        self.shift = nn.Parameter(torch.tensor(2.0))  # b
        # tensors: a captured step sees them change, and a run that goes on after a break finds them again
        self.register_buffer("first", torch.tensor(0))  # step from which the bracket counts
        self.register_buffer("active", torch.tensor(0.0))  # 1 from there on

    def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
        plain = supervised(preset, STAGE)
        return (
            plain.scaled(epochs=EPOCHS * plain.epochs, batch_wild=plain.batch_labelled, wild_views=1,
                         augmentation=Augmentation.field()),
        )  # fmt: skip

    def start_stage(self, context: Context) -> None:
        self.first.fill_(round(self.start * context.total_steps))

    def before_step(self, stage: Stage, step: int) -> bool:
        self.active.copy_(self.first <= step)
        return False

    def loss(self, model: Network, batch: Batch, stage: Stage) -> tuple[Tensor, dict[str, Tensor]]:
        logits = at_least_float32(model(batch.images))
        (known,), (mixed,) = batch.split(logits)
        supervised_term = F.cross_entropy(known, batch.labels)
        called = F.softplus(self.called_wild(known)).mean() + F.softplus(-self.called_wild(mixed)).mean()
        return supervised_term + self.weight * self.active * called, {"ce": supervised_term.detach(), "pu": called.detach()}

    def called_wild(self, logits: Tensor) -> Tensor:
        """h of (n, C) logits: (n,), > 0 = called wild."""
        return self.scale * torch.logsumexp(logits, 1) + self.shift
