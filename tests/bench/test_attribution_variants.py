"""The rules that joint_digits.py compares: each tells shifted known samples from unknown ones in a world made by hand."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.detectors.test_attribution import world
from torch import Tensor, nn

from wildspec.methods import Stage
from wildspec.methods.base import Context

STAGE = Stage("promote", epochs=1, lr=0.1, batch_labelled=4, batch_wild=3, labelled_views=2, wild_views=2)

LEAST = {  # share of the shifted known samples that a rule finds
    "confidence": 1.0, "propagation": 0.6, "clusters": 0.95, "positive_unlabelled": 0.8, "true_membership": 1.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def variants() -> ModuleType:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    try:
        import attribution_variants
    finally:
        sys.path.pop(0)
    return attribution_variants


class Pixels(nn.Module):
    """Features are the pixels; logits point along the first three axes."""

    def __init__(self) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(1))

    def features(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        return 8 * nn.functional.normalize(x.flatten(1))[:, :3]


@pytest.mark.parametrize("name", LEAST)
def test_a_rule_finds_the_classes(variants: ModuleType, name: str) -> None:
    labelled, labels, wild, truth = world()
    if name == "clusters":  # shifted this far they are clusters of their own, tied to nothing: not shifted here
        wild = wild.clone()
        wild[:, 3] = torch.where(truth < 0, wild[:, 3], 0.0)
    network = Pixels()
    arguments: tuple[Any, ...] = ()
    if name == "confidence":
        arguments = (network, 0.9)
    elif name == "true_membership":
        arguments = (torch.where(truth < 0, 2, 1),)
    parts = {"labelled": labelled, "wild": wild}
    context = Context(
        network, STAGE, lambda: iter([(labelled, labels)]), 1,  # type: ignore[arg-type]
        lambda part, count: iter([parts[part].view(1, -1, 8, 1, 1).expand(count, -1, -1, -1, -1)]),
    )  # fmt: skip
    method = variants.Ruled(3, getattr(variants, name)(*arguments))
    method.start_stage(context)
    named, known = method.wild_label >= 0, truth >= 0
    assert not named[~known].any(), "no unknown sample is let in"
    assert torch.equal(method.wild_label[named & known], truth[named & known]), "and no class is mistaken"
    assert named[known].float().mean() >= LEAST[name]
