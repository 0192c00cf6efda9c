"""What the service asks of a model: decide about a block of pixels, and say what it is."""

import os
from typing import Any, Protocol

import numpy as np
import torch

from wildspec.bundle.gallery import data_uri
from wildspec.decision.verdicts import Verdicts
from wildspec.provenance import package_versions

HISTOGRAM_BINS = 40
MOST_PASSES = 4


class Engine(Protocol):
    """A model ready to answer. ``neighbour`` and ``picture_of``: about rows of the labelled bank. ``passes``: how many calls
    of ``decide`` may run at a time, each in its thread."""

    name: str
    classes: tuple[str, ...]
    size: int
    threshold: float
    alpha: float
    passes: int

    def decide(self, pixels: np.ndarray, neighbours: int) -> Verdicts:
        """uint8 (n, 3, S, S) -> verdicts."""
        ...

    def neighbour(self, row: int) -> tuple[str, str]:
        """(name, class) of a labelled sample."""
        ...

    def picture_of(self, row: int) -> str | None:
        """Its thumbnail as a data address, where one was kept."""
        ...

    def describe(self) -> dict[str, Any]:
        """What `/v1/model` answers; no path of this machine in it."""
        ...


class BundleEngine:
    """A fitted `WildClassifier`."""

    def __init__(self, model: Any, name: str) -> None:
        fitted = model.fitted_
        self.model, self.name = model, name
        self.classes: tuple[str, ...] = fitted.classes
        self.size: int = fitted.preprocess.size
        self.threshold, self.alpha = float(fitted.decision.threshold), float(fitted.decision.alpha)
        self._bank, self._pictures = fitted.bank, fitted.pictures["labelled"]
        on_cpu = fitted.device.type == "cpu"
        self.passes = cpu_passes() if on_cpu else 1  # a GPU takes one pass after the other anyway
        if on_cpu:
            fitted.model.to(memory_format=torch.channels_last)  # the order in which convolutions are fastest on a CPU

    def decide(self, pixels: np.ndarray, neighbours: int) -> Verdicts:
        return self.model.decide(torch.from_numpy(pixels), neighbours)

    def neighbour(self, row: int) -> tuple[str, str]:
        return self._bank.names[row], self.classes[int(self._bank.labels[row])]

    def picture_of(self, row: int) -> str | None:
        found = self._pictures.get(row)
        return None if found is None else data_uri(found)

    def describe(self) -> dict[str, Any]:
        fitted, record = self.model.fitted_, self.model.record_
        evidence = fitted.evidence
        groups = {"known": evidence["validation.score"].double().numpy()}
        if "wild.score" in evidence:
            groups["wild"] = evidence["wild.score"].double().numpy()
        return {
            **common_facts(self),
            "method": record["training"]["method"],
            "network": str(fitted.network.get("name") or "own backbone"),
            "detector": fitted.decision.detector.name,
            "fitted": record["provenance"]["created"],
            "validation_accuracy": record["metrics"]["validation"]["accuracy"],
            "validation_count": record["metrics"]["validation"]["count"],
            "scores": histogram(groups, self.threshold),
        }


def cpu_passes() -> int:
    """Passes at a time on this machine. Each on a processor of its own is better than one on all of them: a pass is hundreds
    of small parallel loops, and at the end of each all threads would wait for the slowest."""
    return min(MOST_PASSES, os.cpu_count() or 1)


def common_facts(engine: Engine) -> dict[str, Any]:
    """What every engine can say."""
    return {
        "name": engine.name,
        "classes": list(engine.classes),
        "input_size": engine.size,
        "threshold": engine.threshold,
        "alpha": engine.alpha,
        "wildspec": package_versions()["wildspec"],
    }


def histogram(groups: dict[str, np.ndarray], threshold: float) -> dict[str, Any]:
    """Shares of each group by score, on common edges: what the web page draws a new score on."""
    joined = np.concatenate(list(groups.values()))
    low, high = min(float(joined.min()), threshold), max(float(np.quantile(joined, 0.995)), threshold)
    margin = 0.05 * (high - low) or 0.5
    edges = np.linspace(low - margin, high + margin, HISTOGRAM_BINS + 1)
    shares = {
        name: (np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / len(values)).tolist()
        for name, values in groups.items()
    }
    return {"edges": edges.tolist(), **shares}
