"""What a resumed run must not do in silence: go on with another recipe, data or network, or from a model that diverged."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.common import CLASSES, data, method, model, quiet, stages
from torch import Tensor

from wildspec.data import ImageArrays
from wildspec.errors import InputError
from wildspec.methods import Batch, Stage, build_method
from wildspec.methods.erm import ERM
from wildspec.models import build_model
from wildspec.training import DivergenceError, TrainData, train
from wildspec.training.checkpoint import listed, load, save

RECIPE = stages(epochs=1)


@pytest.fixture
def started(tmp_path: Path) -> Path:
    train(model(), method(), data(), quiet(), stages=RECIPE, run_dir=tmp_path)
    return tmp_path


def test_another_hyper_parameter(started: Path) -> None:
    other = build_method("spectral", CLASSES, eta_l=7.5)
    with pytest.raises(InputError, match=r"spectral\.eta_l = 0\.5, now .*7\.5"):
        train(model(), other, data(), quiet(), stages=RECIPE, run_dir=started, resume=True)
    assert train(model(), method(), data(), quiet(), stages=RECIPE, run_dir=started, resume=True).finished


def test_other_labels(started: Path) -> None:
    """As many images, another split of them."""
    plain = data()
    labels = plain.labelled.labels.roll(1)
    other = TrainData(ImageArrays(plain.labelled.gather(torch.arange(96)), labels), plain.wild)
    with pytest.raises(InputError, match="was started with other labels"):
        train(model(), method(), other, quiet(), stages=RECIPE, run_dir=started, resume=True)


def test_another_network(started: Path) -> None:
    with pytest.raises(InputError, match="was started with another network") as caught:
        train(build_model("wrn16_2", CLASSES), method(), data(), quiet(), stages=RECIPE, run_dir=started, resume=True)
    assert "\n" not in str(caught.value)


def test_checkpoints_of_earlier_versions_are_gone_on_with(started: Path) -> None:
    """They know neither labels nor hyper-parameters."""
    newest = load(listed(started / "checkpoints")[-1])
    facts = {name: value for name, value in newest.facts.items() if name not in ("labels", "hyper-parameters")}
    assert len(facts) == len(newest.facts) - 2
    save(started / "checkpoints", newest.facts["steps"], newest.tensors, facts)
    assert train(model(), method(), data(), quiet(), stages=RECIPE, run_dir=started, resume=True).finished


class Breaks(ERM):
    """Cross-entropy with a NaN in the fourth step: in the loss, or in a gradient alone."""

    def __init__(self, where: str) -> None:
        super().__init__(CLASSES)
        self.where, self.calls = where, 0

    def backward(self, network: Any, batch: Batch, stage: Stage) -> dict[str, Tensor]:
        told = super().backward(network, batch, stage)
        self.calls += 1
        if self.calls == 4 and self.where == "gradient":
            network.head.weight.grad[0, 0] = torch.nan
        return {**told, "loss": told["loss"] * torch.nan} if self.calls == 4 and self.where == "loss" else told


@pytest.mark.parametrize(
    ("where", "said"), [("loss", "loss is nan"), ("gradient", r"head\.weight is not finite after step 4")]
)
def test_a_diverged_model_is_not_saved(tmp_path: Path, where: str, said: str) -> None:
    """The loss is looked at every 50 steps, a checkpoint is written every second one."""
    stage, settings = RECIPE[1].scaled(epochs=4, name="train"), quiet(checkpoint_steps=2, log_every=50)
    with pytest.raises(DivergenceError, match=rf"{said}.*the last good checkpoint is .*step-000000002; lower"):
        train(model(), Breaks(where), data(), settings, stages=[stage], run_dir=tmp_path)
    (kept,) = listed(tmp_path / "checkpoints")
    assert kept.name == "step-000000002"
    assert all(value.isfinite().all() for value in load(kept).tensors.values() if value.is_floating_point())


def test_the_last_update_of_a_stage_is_looked_at_too(tmp_path: Path) -> None:
    """4 steps: the fourth spoils the weights after its loss was taken."""
    stage = RECIPE[1].scaled(epochs=4 / 3, name="train")
    with pytest.raises(DivergenceError, match=r"head\.weight is not finite after step 4"):
        train(model(), Breaks("gradient"), data(), quiet(), stages=[stage], run_dir=tmp_path)
    assert listed(tmp_path / "checkpoints") == []


