"""Training recipes that several methods share. ``paper``: as published; ``fast``: the same with fewer epochs.

- `supervised`: SGD with Nesterov momentum 0.9, rate 0.1, cosine, batch 128, weight decay 5e-4, flip and shift; 100 epochs
  (Hendrycks et al., 2019), fast 30.
- `domainbed`: Adam, constant rate 1e-3, no weight decay (Gulrajani and Lopez-Paz, 2021, small images); same epochs.
- `wild`: `supervised` as stage "pretrain", then stage "wild" with 128 labelled + 128 wild images a step, rate halved at
  50, 75 and 90 % (Katz-Samuels et al., 2022; Bai et al., 2023); 100 epochs, fast 20.
"""

from wildspec.checks import choice
from wildspec.data.augment import Augmentation
from wildspec.methods.base import Stage

PRESETS = ("paper", "fast")
SUPERVISED_EPOCHS = {"paper": 100.0, "fast": 30.0}
WILD_EPOCHS = {"paper": 100.0, "fast": 20.0}


def supervised(preset: str, name: str = "train") -> Stage:
    """Cross-entropy training from scratch on the labelled set."""
    choice("preset", preset, PRESETS)
    return Stage(
        name, epochs=SUPERVISED_EPOCHS[preset], lr=0.1, batch_labelled=128, schedule="cosine",
        augmentation=Augmentation.flip_and_shift(4),
    )


def domainbed(preset: str, name: str = "train") -> Stage:
    """The optimizer for which penalty weights of 10 to 100 were chosen: its steps do not grow with the penalty."""
    return supervised(preset, name).scaled(optimizer="adam", lr=1e-3, weight_decay=0.0, schedule="constant")


def wild(preset: str, lr: float) -> tuple[Stage, Stage]:
    """A labelled pre-training stage, then a stage on labelled + wild batches."""
    first = supervised(preset, "pretrain")
    second = Stage(
        "wild", epochs=WILD_EPOCHS[preset], lr=lr, batch_labelled=128, batch_wild=128, wild_views=1, schedule="step",
        augmentation=Augmentation.flip_and_shift(4),
    )
    return first, second
