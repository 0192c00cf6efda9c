"""Does an exported graph say what its model says? On 1,000 images, every output, by onnxruntime alone."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import tiny_model
from wildspec.bundle.onnx_export import OUTPUTS
from wildspec.data import load_images, open_source

CLOSE = 1e-4


def thousand_pixels() -> torch.Tensor:
    """uint8 (1000, 3, 10, 10): 800 clean pictures, a quarter of them of an unknown shape, and 200 shifted ones."""
    counts = {"bar": 200, "disc": 200, "ring": 200, "stripes": 200}
    clean, shifted = (tiny_model.pictures(counts, 300 + i, shifted=bool(i))[0] for i in range(2))
    return load_images(open_source(np.concatenate([clean, shifted[::4]]))).images


def check_graph(model: Any, file: Path, pixels: torch.Tensor) -> None:
    """``model``: a fitted `WildClassifier`. Where a score or a probability lies on a border, either side of it is right."""
    assert len(pixels) == 1000
    mine = model.decide(pixels, 5)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    found = dict(zip(OUTPUTS, session.run(list(OUTPUTS), {"pixels": pixels.numpy()}), strict=True))
    for name, expected in (("score", mine.score), ("probabilities", mine.probabilities), ("distances", mine.distances)):
        assert np.abs(found[name] - expected).max() < CLOSE, name

    away = np.abs(mine.score - model.threshold_) > CLOSE
    assert away.mean() > 0.95
    assert np.array_equal(found["reject"][away], mine.rejected[away])
    assert 0.01 < mine.rejected.mean() < 0.99, "both decisions occur"

    top_two = np.sort(mine.probabilities, axis=1)[:, -2:]
    decided = top_two[:, 1] - top_two[:, 0] > 10 * CLOSE
    assert decided.mean() > 0.9
    assert np.array_equal(found["class"][decided], mine.likely[decided])

    calibration = np.asarray(model.fitted_.decision.calibration.scores, dtype=float)
    expected = [(1 + (calibration >= s).sum()) / (1 + len(calibration)) for s in found["score"].astype(float)]
    assert found["p_value"] == pytest.approx(expected, abs=1e-6), "the conformal formula, from the graph's own score"
    off = np.abs(mine.score[:, None] - calibration[None]).min(axis=1) > CLOSE
    assert off.mean() > 0.9
    assert found["p_value"][off] == pytest.approx(mine.p_value[off], abs=1e-6), "torch's p-value"

    settled = np.diff(mine.distances, axis=1).min(axis=1) > 10 * CLOSE
    assert settled.mean() > 0.3
    assert np.array_equal(found["neighbours"][settled], mine.neighbours[settled])
