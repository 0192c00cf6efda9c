"""The service from an exported graph: onnxruntime instead of torch, same answers."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from wildspec.bundle.onnx_export import METADATA, OUTPUTS, THRESHOLD
from wildspec.checks import require
from wildspec.decision.verdicts import REJECTED, Verdicts
from wildspec.errors import CheckpointError
from wildspec.models.onnx_content import kept_outside
from wildspec.serving.engine import cpu_passes

TOLERANCE = 1e-4  # of scores and probabilities, between an exported graph and its model


class OnnxEngine:
    """An .onnx file of ``wildspec export``. Names at most as many neighbours as the graph gives, and has no thumbnails."""

    def __init__(self, path: Path) -> None:
        runtime = require("onnxruntime", "onnx", f"serving {path.name}")
        if not path.is_file():
            raise CheckpointError(f"{path} does not exist; make it with wildspec export MODEL --onnx {path}")
        self.passes = cpu_passes()
        try:
            content = path.read_bytes()
            outside = kept_outside(content, f"serving {path.name}")
        except Exception as error:  # protobuf raises kinds of its own on damaged files
            raise CheckpointError(f"{path} is not an ONNX file of wildspec export; export it again") from error
        if outside:
            raise CheckpointError(
                f"{path} is refused: it keeps {outside} in another file, which could be any of this machine; export it again"
            )
        try:
            options = runtime.SessionOptions()
            options.intra_op_num_threads = max(1, (os.cpu_count() or 1) // self.passes)
            self._session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            given = {output.name for output in self._session.get_outputs()}
            self._outputs = [*OUTPUTS, *(name for name in (THRESHOLD,) if name in given)]
            facts = json.loads(self._session.get_modelmeta().custom_metadata_map[METADATA])
            bank = facts.pop("bank")
            self._names, self._labels = list(bank["names"]), list(bank["labels"])
            self.name, self.classes = str(facts["name"]), tuple(map(str, facts["classes"]))
            self.size, self.threshold = int(facts["input_size"]), float(facts["threshold"])
            self.alpha = float(facts["alpha"])
        except Exception as error:  # onnxruntime raises its own kinds on damaged files
            raise CheckpointError(
                f"{path} is not an ONNX file of wildspec export ({type(error).__name__}); export it again"
            ) from error
        self._facts: dict[str, Any] = facts

    def decide(self, pixels: np.ndarray, neighbours: int) -> Verdicts:
        """uint8 (n, 3, S, S) -> verdicts, without features."""
        found = dict(zip(self._outputs, self._session.run(self._outputs, {"pixels": pixels}), strict=True))
        limits = found[THRESHOLD].astype(np.float64) if THRESHOLD in found else np.full(len(pixels), self.threshold)
        verdicts = Verdicts(
            predicted=np.where(found["reject"], REJECTED, found["class"]),
            likely=found["class"],
            probabilities=found["probabilities"],
            score=found["score"].astype(np.float64),
            threshold=limits,
            p_value=found["p_value"].astype(np.float64),
            neighbours=found["neighbours"],
            distances=found["distances"],
            features=np.empty((len(pixels), 0), np.float32),
        )
        return verdicts.rows(slice(None), neighbours)

    def neighbour(self, row: int) -> tuple[str, str]:
        return self._names[row], self.classes[self._labels[row]]

    def picture_of(self, row: int) -> str | None:
        return None

    def describe(self) -> dict[str, Any]:
        return self._facts


def largest_difference(model: Any, path: Path, images: int, seed: int = 0) -> float:
    """Largest absolute difference of scores and probabilities on random smooth images, and 1.0 where a decision differs
    although the score is further from the threshold than `TOLERANCE`."""
    import torch

    engine = OnnxEngine(path)
    coarse = np.random.default_rng(seed).integers(0, 256, size=(images, 3, 4, 4)).astype(np.float32)
    smooth = torch.nn.functional.interpolate(torch.from_numpy(coarse), engine.size, mode="bilinear")
    pixels = smooth.round().to(torch.uint8)
    mine, theirs = model.decide(pixels), engine.decide(pixels.numpy(), 0)
    clear = np.abs(mine.score - mine.threshold) > TOLERANCE
    if (mine.predicted != theirs.predicted)[clear].any():
        return 1.0
    return float(max(np.abs(mine.score - theirs.score).max(), np.abs(mine.probabilities - theirs.probabilities).max()))
