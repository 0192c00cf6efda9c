"""What a fit of images leaves: what is needed to decide, and the evidence for the report."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wildspec.bundle.gallery import Gallery
from wildspec.data import Preprocess
from wildspec.decision.decision import Decision
from wildspec.decision.verdicts import REJECTED, LabelledBank, Verdicts
from wildspec.detectors import Detector
from wildspec.evaluation import collect
from wildspec.images.decision import judge
from wildspec.images.frozen_decision import FrozenDecision
from wildspec.models import Classifier
from wildspec.models.encoder import Encoder


@dataclass(frozen=True)
class Aside:
    """What a person's answers need besides the rule: rows of the ``calibration`` and of the ``validation`` images, (n, d),
    which nothing was learned from, ``labels`` (n,) of the calibration images (None in bundles of earlier versions), and the
    ``pool``: names of the wild images in the order of the rule's graph."""

    calibration: np.ndarray
    validation: np.ndarray
    pool: list[str]
    labels: np.ndarray | None = None


@dataclass
class Fitted:
    """A network that was trained, and decides by a detector; or an encoder that was taken as it is, and decides by the rule:
    then with ``weights``, the network's own as a bundle keeps them, and ``aside`` (None in bundles that kept none).

    ``bank``: the labelled training images in the space that is decided in.
    """

    model: Classifier | Encoder
    network: dict[str, Any]
    preprocess: Preprocess
    classes: tuple[str, ...]
    decision: Decision[Detector] | FrozenDecision
    bank: LabelledBank
    record: dict[str, Any]
    evidence: dict[str, Tensor]
    wild_names: list[str]
    pictures: dict[str, Gallery]
    log: list[dict[str, Any]] = field(default_factory=list)
    weights: dict[str, Tensor] | None = None
    aside: Aside | None = None

    @property
    def device(self) -> torch.device:
        return self.model.device if isinstance(self.model, Encoder) else next(self.model.parameters()).device

    def verdicts(self, pixels: Tensor, neighbours: int = 0) -> Verdicts:
        """uint8 (n, 3, S, S) -> everything about them."""
        if isinstance(self.decision, FrozenDecision):
            assert isinstance(self.model, Encoder)
            rows = self.decision.rows(self.model.encode(pixels))
            judged, features = self.decision.judge(rows), torch.from_numpy(rows)
        else:
            seen = collect(self.model, pixels, self.preprocess, device=self.device)
            judged, features = judge(self.decision, seen), seen.features
        near, away = self.bank.nearest(features, neighbours)
        return Verdicts(
            predicted=np.where(judged.rejected, REJECTED, judged.likely), likely=judged.likely,
            probabilities=judged.probabilities, score=judged.score, threshold=judged.threshold, p_value=judged.p_value,
            neighbours=near, distances=away, features=features.cpu().numpy(),
        )  # fmt: skip
