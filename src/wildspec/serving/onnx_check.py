"""Does an exported graph say what the model says?"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from wildspec.serving.onnx_engine import OnnxEngine

TOLERANCE = 1e-4


def largest_difference(model: Any, path: Path, images: int, seed: int = 0) -> float:
    """Largest absolute difference of scores and probabilities on random smooth images, and 1.0 where a decision differs
    although the score is further from the threshold than `TOLERANCE`."""
    engine = OnnxEngine(path)
    coarse = np.random.default_rng(seed).integers(0, 256, size=(images, 3, 4, 4)).astype(np.float32)
    smooth = torch.nn.functional.interpolate(torch.from_numpy(coarse), engine.size, mode="bilinear")
    pixels = smooth.round().to(torch.uint8)
    mine, theirs = model.decide(pixels), engine.decide(pixels.numpy(), 0)
    clear = np.abs(mine.score - mine.threshold) > TOLERANCE
    if (mine.predicted != theirs.predicted)[clear].any():
        return 1.0
    return float(max(np.abs(mine.score - theirs.score).max(), np.abs(mine.probabilities - theirs.probabilities).max()))
