"""A run may begin at the end of another whose only stage is its first one: the same bits as training both stages."""

import shutil
from pathlib import Path

import pytest
from common import CLASSES, assert_same_bits, data, model, quiet, weights

from wildspec.data import ImageArrays
from wildspec.data.augment import Augmentation
from wildspec.errors import InputError
from wildspec.methods import Stage, build_method
from wildspec.models import build_model
from wildspec.training import train

VIEWS = Augmentation.flip_and_shift(1)
FIRST = Stage("pretrain", epochs=2, lr=0.05, batch_labelled=32, augmentation=VIEWS)
SECOND = Stage("wild", epochs=2, lr=0.01, batch_labelled=32, batch_wild=32, wild_views=1, augmentation=Augmentation.none())


@pytest.fixture(scope="module")
def cross_entropy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("erm")
    train(model(dropout=True), build_method("erm", CLASSES), data(), quiet(), stages=[FIRST.scaled(name="train")],
          run_dir=folder)
    return folder


def test_from_the_end_of_cross_entropy_is_the_whole_run(cross_entropy: Path, tmp_path: Path) -> None:
    whole = train(model(dropout=True), build_method("woods", CLASSES), data(), quiet(), stages=[FIRST, SECOND])
    begun = train(
        model(seed=5, dropout=True), build_method("woods", CLASSES), data(), quiet(), stages=[FIRST, SECOND],
        run_dir=tmp_path, start=cross_entropy,
    )  # fmt: skip
    assert_same_bits(weights(whole), weights(begun))
    assert (begun.steps, begun.views, begun.stage_steps) == (whole.steps, whole.views, whole.stage_steps)
    found = train(
        model(seed=7, dropout=True), build_method("woods", CLASSES), data(), quiet(), stages=[FIRST, SECOND],
        run_dir=tmp_path, resume=True, start=tmp_path / "not there",
    )  # fmt: skip
    assert_same_bits(weights(whole), weights(found))  # its own checkpoint comes first


@pytest.mark.parametrize("change", ["stage", "seed", "labels", "cut", "network", "images"])
def test_another_run_is_no_start(cross_entropy: Path, tmp_path: Path, change: str) -> None:
    first = FIRST.scaled(lr=0.04) if change == "stage" else FIRST
    words = {"stage": "another stage", "cut": "not finished", "network": "another network", "images": "other labelled"}
    start, expected = cross_entropy, words.get(change, "another seed")
    network = build_model("wrn16_2", CLASSES, dropout=0.1) if change == "network" else model(dropout=True)
    given = data(64) if change == "labels" else data()
    if change == "images":
        pixels = given.labelled.gather(range(96))
        given.labelled = ImageArrays(pixels.flip(3), given.labelled.labels)
    if change == "cut":
        start = tmp_path / "cut"
        shutil.copytree(cross_entropy, start)
        shutil.rmtree(start / "checkpoints")
    with pytest.raises(InputError, match=expected):
        train(
            network, build_method("woods", CLASSES), given, quiet(seed=int(change == "seed")), stages=[first, SECOND],
            start=start,
        )  # fmt: skip


def test_epoch_steps_are_the_length_of_an_epoch() -> None:
    """2 epochs of 5 steps: 10 steps, and the duals move twice, whatever the number of labelled images."""
    moved = []

    class Counting(type(build_method("woods", CLASSES))):  # type: ignore[misc]
        def end_epoch(self, context, epoch: int) -> None:  # type: ignore[no-untyped-def]
            moved.append(epoch)

    short = SECOND.scaled(epoch_steps=5)
    done = train(model(), Counting(CLASSES), data(), quiet(), stages=[short])
    assert (done.steps, moved) == (10, [1, 2])
