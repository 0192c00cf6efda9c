"""Layers and outputs that a method adds to a network, and that a saved network is built again with.

    neck          for each width: linear, batch norm, ReLU (or leaky ReLU, slope 0.2), dropout; between backbone and head
    unknown       one more logit on the features: "none of the known classes"
    open_heads    two logits for each class, all yes first, then all no; without bias
"""

from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from wildspec.checks import choice, fraction, integer
from wildspec.errors import InputError
from wildspec.models.classifier import Classifier

SLOPE = 0.2  # of leaky ReLU for negative inputs


@dataclass(frozen=True)
class ExtraOutputs:
    """What is added; ``widths``: of the neck, empty = none."""

    widths: tuple[int, ...] = ()
    activation: str = "relu"  # or leaky
    dropout: float = 0.0
    unknown: bool = False
    open_heads: bool = False

    def __post_init__(self) -> None:
        for width in self.widths:
            integer("width of the neck", width, 1)
        choice("activation", self.activation, ("relu", "leaky"))
        fraction("dropout", self.dropout)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "widths": list(self.widths)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "ExtraOutputs":
        return cls(**{**value, "widths": tuple(value["widths"])})


def add_outputs(model: Classifier, outputs: ExtraOutputs) -> None:
    """Add them, in place, with new weights; the head is a new one where there is a neck. Nothing where they are there."""
    before = model.outputs
    if before == outputs:
        return
    if before is not None:
        raise InputError(f"the network has {before} already; build a new one for {outputs}")
    width, like = model.feature_dim, model.head.weight
    layers: list[nn.Module] = []
    for wide in outputs.widths:
        active: nn.Module = nn.ReLU() if outputs.activation == "relu" else nn.LeakyReLU(SLOPE)
        layers += [nn.Linear(width, wide), nn.BatchNorm1d(wide), active]
        layers += [nn.Dropout(outputs.dropout)] if outputs.dropout else []
        width = wide
    if layers:
        model.neck, model.head = nn.Sequential(*layers), nn.Linear(width, model.num_classes)
    if outputs.unknown:
        model.unknown = nn.Linear(width, 1)
    if outputs.open_heads:
        model.open_heads = nn.Linear(width, 2 * model.num_classes, bias=False)
    model.outputs = outputs
    model.to(device=like.device, dtype=like.dtype)


def with_outputs(record: dict[str, Any], outputs: ExtraOutputs | None) -> dict[str, Any]:
    """The record of a network, from which `wildspec.models.backbones.rebuild` makes it, with what a method adds to it."""
    return record if outputs is None else {**record, "outputs": outputs.to_json()}


def new_weights(module: nn.Module) -> None:
    """Every layer that can start afresh does."""
    for part in module.modules():
        if callable(start := getattr(part, "reset_parameters", None)):
            start()
