"""Image folders to try things on, made of the digits that come with scikit-learn: nothing to download.

    labelled/0 ... labelled/5    clean digits 0 to 5, one folder per class
    wild/                        what came in from the field: clean and noisy 0 to 5, and some 6 to 9 nobody told us about
    test/known, test/shifted, test/unknown

    python examples/digits_folders.py photos        # then: wildspec fit --labelled photos/labelled --wild photos/wild ...
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from wildspec.data import load_digits_images


def make_folders(root: Path, seed: int = 0) -> dict[str, Path]:
    """Write the folders under ``root``; the same seed gives the same files."""
    rng = np.random.default_rng(seed)
    digits = load_digits_images()
    pixels = digits.images.numpy().transpose(0, 2, 3, 1)
    labels = digits.labels.numpy()
    noisy = np.clip(pixels + rng.normal(0, 45, (len(pixels), 8, 8, 1)), 0, 255).astype(np.uint8)

    def write(where: str, images: np.ndarray, numbers: np.ndarray) -> None:
        (root / where).mkdir(parents=True, exist_ok=True)
        for number in numbers:
            large = Image.fromarray(images[number]).resize((32, 32), Image.Resampling.NEAREST)
            large.save(root / where / f"{number:04d}.png")

    for digit in range(10):
        members = rng.permutation(np.flatnonzero(labels == digit))
        if digit < 6:
            write(f"labelled/{digit}", pixels, members[:60])
            write("wild", pixels, members[60:90])
            write("wild", noisy, members[90:130])
            write(f"test/known/{digit}", pixels, members[130:150])
            write(f"test/shifted/{digit}", noisy, members[150:])
        else:
            write("wild", pixels, members[:15])
            write("test/unknown", pixels, members[15:60])
    tests = {name: root / "test" / name for name in ("known", "shifted", "unknown")}
    return {"labelled": root / "labelled", "wild": root / "wild", **tests}


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python examples/digits_folders.py FOLDER")
    for name, folder in make_folders(Path(sys.argv[1])).items():
        print(f"{name}: {folder} ({sum(1 for _ in folder.rglob('*.png'))} images)")
