"""The 1,797 handwritten digits that come with scikit-learn, as an image set: real images without a download."""

import numpy as np
import torch

from wildspec.data.images import ImageArrays


def load_digits_images() -> ImageArrays:
    """scikit-learn's 8x8 digits: uint8 (1797, 3, 8, 8), grey repeated, grey levels 0..16 scaled to 0..255; 10 classes."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    grey = np.rint(digits.images * (255 / 16)).astype(np.uint8)  # (n, 8, 8)
    images = np.ascontiguousarray(np.repeat(grey[:, None], 3, axis=1))
    return ImageArrays(
        images=torch.from_numpy(images),
        labels=torch.from_numpy(digits.target.astype(np.int64)),
        classes=tuple(str(digit) for digit in range(10)),
        names=[f"digit-{i:04d}" for i in range(len(images))],
    )
