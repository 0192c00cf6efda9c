"""Quality while training: a quick look at the model every few epochs, for the curve of quality against time.

A look takes the features of the labelled, ID, covariate and semantic test images. Classes come from the paper's linear
probe (`wildspec.graph.linear_probe`) on the labelled features, since the head knows nothing before fine-tuning; the detector
is the paper's KNN. One JSON line each; looks steer nothing, and their time is not training time.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wildspec.bench.prepare import Prepared
from wildspec.bench.records import PAPER
from wildspec.data import ImageArrays, Preprocess
from wildspec.detectors.knn import knn_score
from wildspec.evaluation import collect, evaluate_scores
from wildspec.files import append_line
from wildspec.graph import linear_probe
from wildspec.graph.nearest import normalize

FILE = "curve.jsonl"


@dataclass
class Look:
    """Called by the training loop after each epoch; looks every ``every`` epochs and at the end of each stage."""

    prepared: Prepared
    preprocess: Preprocess
    folder: Path
    every: float
    device: torch.device

    def __call__(self, model: nn.Module, moment: dict[str, Any]) -> None:
        if not moment["last"] and moment["epoch"] % max(1, round(self.every)):
            return
        row = {**{key: value for key, value in moment.items() if key != "last"}, **self.metrics(model)}
        self.folder.mkdir(parents=True, exist_ok=True)
        append_line(self.folder / FILE, json.dumps(row))

    def metrics(self, model: nn.Module) -> dict[str, float | None]:
        """The paper's four numbers of a model as it is now."""
        here = self.prepared
        bank = self._features(model, here.labelled)
        probe = linear_probe(bank.double().cpu().numpy(), here.labelled.labels.cpu().numpy())
        k = min(here.protocol.neighbours, len(bank))

        def look(images: ImageArrays) -> tuple[Tensor, np.ndarray]:
            rows = self._features(model, images)
            return knn_score(rows, bank, k).cpu(), (rows.double().cpu().numpy() @ probe).argmax(axis=1)

        shifted = here.covariate_test[here.severity]
        (known, known_class), (moved, moved_class) = look(here.id_test), look(shifted)
        unknown, _ = look(here.semantic_test)
        found = evaluate_scores(
            id_scores=known, id_pred=torch.from_numpy(known_class), id_labels=here.id_test.labels, covariate_scores=moved,
            covariate_pred=torch.from_numpy(moved_class), covariate_labels=shifted.labels, semantic_scores=unknown,
        )  # fmt: skip
        return {name: found.to_json()[name] for name in PAPER}

    def _features(self, model: nn.Module, images: ImageArrays) -> Tensor:
        return normalize(collect(model, images, self.preprocess, device=self.device).features)


def read_curve(folder: Path) -> list[dict[str, Any]]:
    """The looks of a run in order of steps; steps that were taken twice, after a cut, count once, as taken last. A line torn
    by a kill is passed over: its look was taken again."""
    path = folder / FILE
    latest: dict[int, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        latest[row["step"]] = row
    return [latest[step] for step in sorted(latest)]
