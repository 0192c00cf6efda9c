"""One decision: a fitted detector and the calibrated threshold of its scores. What is kept, said, saved and exported.

    score > threshold: rejected, class -1; else the network's class

The state is a record (JSON) and tensors (safetensors); bundles, runs and benchmarks keep decisions in this form:

    {"detector": {"name", "config"}, "calibration": {...}}      the detector's tensors, by name

Whichever calibration it was (conformal or joint) comes back. Nothing here knows a detector: whoever reads a state makes the
detector first (`wildspec.detectors.restore_detector`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from wildspec.decision.calibration import Calibration
from wildspec.decision.joint import calibration_from_json
from wildspec.decision.verdicts import REJECTED
from wildspec.errors import InputError


class Scorer(Protocol):
    """What a decision asks of its detector (`wildspec.detectors.Detector` is one)."""

    @property
    def name(self) -> str: ...

    def score(
        self, *, features: Any = None, logits: Any = None, inputs: Any = None, model: nn.Module | None = None
    ) -> Tensor: ...

    def config(self) -> dict[str, Any]: ...

    def state(self) -> dict[str, Tensor]: ...

    def graph(self) -> nn.Module | None: ...


S = TypeVar("S", bound=Scorer)


@dataclass(frozen=True, eq=False)
class Decision(Generic[S]):
    """``detector``: fitted; scores are high for out-of-distribution samples. ``calibration``: of those scores.

    Samples are given as ``detector.score`` takes them: features (n, d), logits (n, C), and what else it needs.
    """

    detector: S
    calibration: Calibration

    @property
    def threshold(self) -> float:
        """Samples with a score above it are rejected: conformal; with a wild pool, raised to keep shifted ones."""
        return self.calibration.threshold

    @property
    def alpha(self) -> float:
        """Promised share of in-distribution samples rejected by mistake."""
        return self.calibration.alpha

    def score(self, features: Any = None, logits: Any = None, **more: Any) -> Tensor:
        """(n,) scores, high = OOD."""
        return self.detector.score(features=features, logits=logits, **more)

    def p_value(self, features: Any = None, logits: Any = None, **more: Any) -> Tensor:
        """(n,) conformal p-values among the held-out ID samples: small = unlike the labelled samples, shifted or unknown."""
        return self.calibration.p_value(self.score(features, logits, **more))

    def reject(self, features: Any = None, logits: Any = None, **more: Any) -> Tensor:
        """(n,) True where a sample belongs to no known class."""
        return self.calibration.reject(self.score(features, logits, **more))

    def predict(self, features: Any, logits: Tensor, **more: Any) -> Tensor:
        """(n,) class, -1 = rejected."""
        return torch.where(self.reject(features, logits, **more).to(logits.device), REJECTED, logits.argmax(dim=1))

    def describe(self) -> str:
        """What is promised, in plain words."""
        return self.calibration.describe()

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Record and tensors, from which `from_state` makes it again."""
        record = {
            "detector": {"name": self.detector.name, "config": self.detector.config()},
            "calibration": self.calibration.to_json(),
        }
        return record, self.detector.state()

    @classmethod
    def from_state(cls, record: Mapping[str, Any], detector: S) -> "Decision[S]":
        """``detector``: made again from ``record["detector"]`` and the tensors."""
        return cls(detector, calibration_from_json(record["calibration"]))

    def graph(self) -> "DecisionGraph":
        """The decision as a module for export; an error where the detector has none."""
        scoring = self.detector.graph()
        if scoring is None:
            raise InputError(
                f"{self.detector.name} cannot be exported: its score is no fixed graph of features and logits; "
                "fit with --detector auto"
            )
        return DecisionGraph(scoring, self.calibration)


class DecisionGraph(nn.Module):
    """features (n, d), logits (n, C) -> score, p_value, reject, (n,) each: tensor operations alone, as ONNX needs them.

    Single precision is what detectors give: thresholds and calibration scores lose nothing.
    """

    threshold: Tensor

    def __init__(self, scoring: nn.Module, calibration: Calibration) -> None:
        super().__init__()
        self.scoring = scoring
        self.register_buffer("threshold", torch.tensor(calibration.threshold, dtype=torch.float32))
        self.p_values = PValues(calibration)

    def forward(self, features: Tensor, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        score = self.scoring(features, logits)
        return score, self.p_values(score), score > self.threshold


class PValues(nn.Module):
    """(n,) scores -> (n,) conformal p-values (`Calibration.p_value`)."""

    calibration: Tensor
    members: Tensor

    def __init__(self, calibration: Calibration) -> None:
        super().__init__()
        self.register_buffer("calibration", torch.tensor(calibration.scores, dtype=torch.float32))
        self.register_buffer("members", torch.from_numpy(calibration.members()).float())  # (m, groups)

    def forward(self, score: Tensor) -> Tensor:
        at_least = (self.calibration[None, :] >= score[:, None]).to(torch.float32) @ self.members
        return ((1 + at_least) / (1 + self.members.sum(0))).amax(1)
