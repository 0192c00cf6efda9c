"""Training recipes that several methods share. ``paper``: as the authors ran them; ``fast``: the same with fewer epochs.

- `supervised`: SGD with Nesterov momentum 0.9, rate 0.1, cosine, batch 128, weight decay 5e-4, flip and shift; 100 epochs
  (Hendrycks et al., 2019), fast 30.
- `domainbed`: fast: Adam, constant rate 1e-3, no weight decay (Gulrajani and Lopez-Paz, 2021, small images); paper:
  `supervised`, which alone comes near the published accuracies.
- `wild`: `supervised` as stage "pretrain", then stage "wild" with 128 labelled + 128 wild images a step, rate halved at
  50, 75 and 90 % (Katz-Samuels et al., 2022; Bai et al., 2023). paper: images as they are, 100 epochs of 117 steps (the
  published loop ends with its shortest loader, 15,000 images); fast: flip and shift, 20 passes over the labelled images.

The published networks of all these, WRN-40-2, have dropout 0.3: `DROPOUT`.
"""

from wildspec.checks import choice
from wildspec.data.augment import Augmentation
from wildspec.methods.base import Stage

PRESETS = ("paper", "fast")
SUPERVISED_EPOCHS = {"paper": 100.0, "fast": 30.0}
WILD_EPOCHS = {"paper": 100.0, "fast": 20.0}
WILD_EPOCH_STEPS = {"paper": 117, "fast": 0}
DROPOUT = {"paper": 0.3, "fast": 0.0}


def supervised(preset: str, name: str = "train") -> Stage:
    """Cross-entropy training from scratch on the labelled set."""
    choice("preset", preset, PRESETS)
    return Stage(
        name, epochs=SUPERVISED_EPOCHS[preset], lr=0.1, batch_labelled=128, schedule="cosine",
        augmentation=Augmentation.flip_and_shift(4),
    )


def domainbed(preset: str, name: str = "train") -> Stage:
    """``fast``: the optimizer for which penalty weights of 10 to 100 were chosen: its steps do not grow with the penalty."""
    stage = supervised(preset, name)
    return stage if preset == "paper" else stage.scaled(optimizer="adam", lr=1e-3, weight_decay=0.0, schedule="constant")


def wild(preset: str, lr: dict[str, float]) -> tuple[Stage, Stage]:
    """A labelled pre-training stage, then a stage on labelled + wild batches; ``lr``: rate of the latter by preset."""
    first = supervised(preset, "pretrain")
    second = Stage(
        "wild", epochs=WILD_EPOCHS[preset], lr=lr[preset], batch_labelled=128, batch_wild=128, wild_views=1,
        schedule="step", augmentation=Augmentation.none() if preset == "paper" else Augmentation.flip_and_shift(4),
        epoch_steps=WILD_EPOCH_STEPS[preset],
    )  # fmt: skip
    return first, second
