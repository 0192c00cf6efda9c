"""Makes docs/img/corruptions.png: every corruption at every severity, at 32 and at 160 pixels.

    python tools/make_corruptions.py

The photograph is flower.jpg of scikit-learn (sklearn.datasets.load_sample_image).
"""

from pathlib import Path

import matplotlib
import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

from wildspec.data import CORRUPTIONS, corrupt

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TARGET = Path(__file__).parent.parent / "docs" / "img" / "corruptions.png"
PANELS = ((32, "32 pixels, CIFAR-10-C constants"), (160, "160 pixels, ImageNet-C constants"))


def photograph(size: int) -> torch.Tensor:
    """uint8 (1, 3, size, size): the flower, cut square."""
    cut = Image.fromarray(load_sample_image("flower.jpg")[40:400, 90:450])
    pixels = np.array(cut.resize((size, size), Image.Resampling.BOX))
    return torch.from_numpy(pixels).permute(2, 0, 1)[None].contiguous()


def main() -> None:
    rows, columns = len(CORRUPTIONS), 6
    widths = [*[1] * columns, 0.25, *[1] * columns]
    figure, axes = plt.subplots(rows, len(widths), figsize=(13.4, 8.2), width_ratios=widths)
    for panel, (size, title) in enumerate(PANELS):
        clean, first = photograph(size), panel * (columns + 1)
        for row, kind in enumerate(CORRUPTIONS):
            for severity in range(columns):
                axis = axes[row, first + severity]
                image = clean if severity == 0 else corrupt(clean, kind, severity, seed=0)
                axis.imshow(image[0].permute(1, 2, 0).numpy(), interpolation="nearest" if size <= 32 else "antialiased")
                if row == 0:
                    axis.set_title("clean" if severity == 0 else str(severity), fontsize=9)
                if first + severity == 0:
                    axis.set_ylabel(kind.replace("_", "\n"), fontsize=9, rotation=0, ha="right", va="center", labelpad=8)
        figure.text(0.30 + 0.47 * panel, 0.985, title, ha="center", va="top", fontsize=11)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    figure.subplots_adjust(left=0.065, right=0.995, top=0.93, bottom=0.005, wspace=0.05, hspace=0.05)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(TARGET, dpi=100)
    with Image.open(TARGET) as drawn:
        drawn.convert("RGB").save(TARGET, optimize=True)  # without the alpha channel


if __name__ == "__main__":
    main()
