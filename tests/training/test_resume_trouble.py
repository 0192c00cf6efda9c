"""What a resumed run must not do in silence: go on with another recipe, data or network, or from a model that diverged."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.common import CLASSES, data, method, model, quiet, stages
from torch import Tensor

from wildspec.data import ImageArrays, JoinedImages, Preprocess, WildMixture, WildPool
from wildspec.errors import InputError
from wildspec.methods import Batch, Stage, build_method
from wildspec.methods.erm import ERM
from wildspec.models import build_model
from wildspec.training import DivergenceError, TrainData, train
from wildspec.training.checkpoint import listed, load, save
from wildspec.training.feed import DeviceData
from wildspec.training.identity import identity

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


def test_another_dropout_is_another_network(tmp_path: Path) -> None:
    """The same weights fit, so that they do not tell."""
    stage = [RECIPE[1].scaled(epochs=1 / 3)]
    train(model(dropout=True), build_method("erm", CLASSES), data(), quiet(), stages=stage, run_dir=tmp_path)
    for other in (build_model("wrn16_2", CLASSES), build_model("wrn16_2", CLASSES, dropout=0.3, size=8)):
        with pytest.raises(InputError, match="another network"):
            train(other, build_method("erm", CLASSES), data(), quiet(), stages=stage, run_dir=tmp_path, resume=True)


def changed(images: Any, row: int) -> ImageArrays:
    pixels = images.images.clone()
    pixels[row, 0, 0, 0] ^= 1
    return ImageArrays(pixels, images.labels, images.classes)


@pytest.mark.parametrize("what", ["labelled images", "wild images", "preprocessing"])
def test_other_pixels(started: Path, what: str) -> None:
    """As many images with the same labels: one number of the last image is another, or they are scaled in another way."""
    other = data()
    if what == "labelled images":
        other.labelled = changed(other.labelled, -1)
    elif what == "wild images":
        assert other.wild is not None
        other.wild = WildPool(changed(other.wild.pool, -1))
    else:
        other.preprocess = Preprocess(size=8, mean=(0.5, 0.5, 0.5))
    with pytest.raises(InputError, match=f"ther {what}"):
        train(model(), method(), other, quiet(), stages=RECIPE, run_dir=started, resume=True)


def test_another_mixture(tmp_path: Path) -> None:
    """The same images in other shares."""

    def mixed(pi_c: float, pi_s: float) -> TrainData:
        plain = data()
        assert plain.wild is not None
        parts: list[Any] = [plain.wild.pool.subset(range(start, start + 40)) for start in (0, 40, 80)]  # type: ignore[attr-defined]
        return TrainData(plain.labelled, WildMixture(*parts, pi_c=pi_c, pi_s=pi_s))

    train(model(), method(), mixed(0.5, 0.1), quiet(), stages=RECIPE, run_dir=tmp_path)
    with pytest.raises(InputError, match="another mixture"):
        train(model(), method(), mixed(0.4, 0.2), quiet(), stages=RECIPE, run_dir=tmp_path, resume=True)
    assert train(model(), method(), mixed(0.5, 0.1), quiet(), stages=RECIPE, run_dir=tmp_path, resume=True).finished


def test_few_images_are_looked_at() -> None:
    """Sets on disk may be large: 64 of 96 and 128, from the first to the last, each set asked once."""
    asked: list[list[int]] = []

    class Watched(JoinedImages):
        def gather(self, indices: Any) -> Tensor:
            asked.append(torch.as_tensor(indices).tolist())
            return super().gather(indices)

    plain = data()
    assert plain.wild is not None
    wild = WildPool(plain.wild.pool)
    wild.pool = Watched(plain.wild.pool, labelled=False)
    source = DeviceData(TrainData(Watched(plain.labelled), wild), torch.device("cpu"))
    found = identity(model(), method(), RECIPE, 0, source)
    assert [(len(set(rows)), min(rows), max(rows)) for rows in asked] == [(64, 0, 95), (64, 0, 127)]
    held = identity(model(), method(), RECIPE, 0, DeviceData(plain, torch.device("cpu")))
    assert found == held, "wherever they are kept"


def test_checkpoints_of_earlier_versions_are_gone_on_with(started: Path) -> None:
    """They know neither labels nor hyper-parameters, nor what images, network and preprocessing there were."""
    newest = load(listed(started / "checkpoints")[-1])
    later = ("labels", "hyper-parameters", "network", "preprocessing", "mixture", "labelled images", "wild images")
    facts = {name: value for name, value in newest.facts.items() if name not in later}
    assert len(facts) == len(newest.facts) - len(later)
    save(started / "checkpoints", newest.facts["steps"], newest.tensors, facts)
    assert train(model(), method(), data(), quiet(), stages=RECIPE, run_dir=started, resume=True).finished


@pytest.mark.parametrize("keep", [1, 2])
def test_a_save_after_a_damaged_checkpoint_keeps_what_is_intact(tmp_path: Path, keep: int) -> None:
    """Resumed from the one before the damaged one, a run saves again where it is: behind the damaged one."""
    for step in (2, 4, 9):
        save(tmp_path, step, {"a": torch.zeros(1)}, {}, keep=3)
    (tmp_path / "step-000000009" / "state.json").write_text("{")
    path = save(tmp_path, 5, {"a": torch.ones(1)}, {}, keep=keep)
    assert [load(each).tensors["a"].item() for each in listed(tmp_path)] == [0.0, 1.0][-keep:]
    assert listed(tmp_path)[-1] == path


def test_without_stages_it_is_the_preset_of_the_hyper_parameters(tmp_path: Path) -> None:
    """A method is built with those of preset "fast" unless told otherwise; stages of "paper" would be no one's recipe."""
    asked = []

    class Asked(ERM):
        def stages(self, preset: str = "paper") -> tuple[Stage, ...]:
            asked.append(preset)
            return (RECIPE[1].scaled(epochs=1 / 3),)

    for more in ({}, {"preset": "paper"}):
        train(model(), Asked(CLASSES), data(), quiet(), **more)
    assert asked == ["fast", "paper"]


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


