"""A fitted detector and its calibrated threshold as one thing: what is decided by, and the one form in which it is kept.

The state is a record (JSON) and tensors (safetensors):

    {"detector": {"name", "config"}, "calibration": {...}}      the detector's tensors, by name

Bundles, runs and benchmarks all keep decisions in this form; whichever calibration it was (conformal or joint) comes back.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from wildspec.decision.calibration import Calibration
from wildspec.decision.joint import calibration_from_json
from wildspec.detectors.base import Detector, build_detector

D = TypeVar("D", bound="DetectorDecision")


@dataclass(frozen=True, eq=False)
class DetectorDecision:
    """``detector``: fitted; scores are high for out-of-distribution samples. ``calibration``: of those scores."""

    detector: Detector
    calibration: Calibration

    @property
    def threshold(self) -> float:
        """Samples with a score above it are rejected: conformal; with a wild pool, raised to keep shifted ones."""
        return self.calibration.threshold

    @property
    def alpha(self) -> float:
        """Promised share of in-distribution samples rejected by mistake."""
        return self.calibration.alpha

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Record and tensors, from which `from_state` makes it again."""
        record = {
            "detector": {"name": self.detector.name, "config": self.detector.config()},
            "calibration": self.calibration.to_json(),
        }
        return record, self.detector.state()

    @classmethod
    def from_state(
        cls: type[D], record: Mapping[str, Any], tensors: Mapping[str, Tensor], device: torch.device | str | None = None
    ) -> D:
        """``device``: where the detector's tensors go; None: where they are."""
        chosen = record["detector"]
        detector = build_detector(chosen["name"], **chosen["config"])
        if tensors:
            detector.load_state({name: value if device is None else value.to(device) for name, value in tensors.items()})
        return cls(detector, calibration_from_json(record["calibration"]))
