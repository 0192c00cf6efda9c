"""What the loop hands to a method: which images, which views, when hooks are called, what is counted."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.training.common import CLASSES, data, model, quiet, stages
from torch import Tensor, nn

from wildspec.data import ImageArrays, Preprocess
from wildspec.data.augment import Augmentation
from wildspec.methods import Stage, build_method
from wildspec.methods.base import Batch, Context
from wildspec.methods.spectral import Spectral
from wildspec.training import TrainResult, train
from wildspec.training.step import Step
from wildspec.training.validate import accuracy


class Watching(Spectral):
    """The learner itself, and a diary of what it was given."""

    def __init__(self) -> None:
        super().__init__(CLASSES)
        self.batches: list[tuple[str, Tensor, Tensor | None]] = []
        self.calls: list[tuple[str, str, int]] = []
        self.looks: list[tuple[str, int, dict[str, float]]] = []

    def loss(self, model: Any, batch: Batch, stage: Stage) -> Any:
        self.batches.append((stage.name, batch.images.clone(), None if batch.wild_rows is None else batch.wild_rows.clone()))
        return super().loss(model, batch, stage)

    def start_stage(self, context: Context) -> None:
        self.calls.append(("start", context.stage.name, len(self.batches)))

    def end_epoch(self, context: Context, epoch: int) -> None:
        self.calls.append((f"epoch {epoch}", context.stage.name, len(self.batches)))

    def look_at(self, stage: Stage, step: int, values: dict[str, float]) -> None:
        self.looks.append((stage.name, step, values))


def watched(seed: int = 0, epochs: float = 2, **changes: Any) -> tuple[Watching, TrainResult]:
    method = Watching()
    first, second = stages(epochs)
    second = first.scaled(name="pretrain", **changes)  # the same stage twice: only the number of the stage differs
    return method, train(model(), method, data(), quiet(seed=seed), stages=(first, second))


def test_order_and_views_follow_the_seed_and_the_stage() -> None:
    method, _ = watched()
    again, _ = watched()
    other, _ = watched(seed=1)
    half = len(method.batches) // 2
    for (_, images, rows), (_, same_images, same_rows) in zip(method.batches, again.batches, strict=True):
        assert torch.equal(images, same_images)
        assert rows is not None
        assert same_rows is not None
        assert torch.equal(rows, same_rows)
    orders = [tuple(diary.batches[step][2].tolist()) for diary in (method, other) for step in (0, half)]  # type: ignore[union-attr]
    assert len(set(orders)) == 4  # two seeds, two stages: four orders of the wild pool


def test_another_seed_draws_other_views(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Tensor] = []
    original = Augmentation.draw

    def draw(self: Augmentation, *rest: Any) -> Any:
        params = original(self, *rest)
        drawn.append(params[0].clone())
        return params

    monkeypatch.setattr(Augmentation, "draw", draw)
    for seed in (0, 1):
        train(model(), Watching(), data(), quiet(seed=seed), stages=stages(1)[:1])
    first, second = drawn[:3], drawn[3:]
    assert not any(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_hooks_come_before_the_first_step_and_after_each_whole_pass() -> None:
    """96 images in batches of 32: 3 steps are an epoch."""
    method, result = watched(epochs=2)
    assert method.calls == [
        ("start", "pretrain", 0), ("epoch 1", "pretrain", 3), ("epoch 2", "pretrain", 6),
        ("start", "pretrain", 6), ("epoch 1", "pretrain", 9), ("epoch 2", "pretrain", 12),
    ]  # fmt: skip
    assert result.steps == 12
    assert result.views == 12 * (2 * 32 + 2 * 32)  # two views of each labelled and of each wild image


def test_a_part_of_an_epoch_is_rounded_to_whole_steps() -> None:
    for epochs, steps in ((0.1, 1), (0.5, 2), (1.6, 5)):  # 3 steps an epoch: 0.3, 1.5 (to even), 4.8
        result = train(model(), build_method("erm", CLASSES), data(), quiet(), stages=(stages()[1].scaled(epochs=epochs),))
        assert result.steps == steps


def test_the_average_is_what_is_shown() -> None:
    """An average changes no step: what is shown differs only where it is the average that is looked at."""
    task = data()

    def right(shown: nn.Module) -> float:
        return accuracy(shown, task.labelled, Preprocess(size=8), torch.device("cpu"))

    def run(ema: float) -> list[float]:
        seen: list[float] = []
        stage = stages(8)[1].scaled(name="train", ema=ema)
        method = build_method("erm", CLASSES)
        train(model(), method, task, quiet(), stages=(stage,), watch=lambda net, _: seen.append(right(net)))
        return seen

    plain, averaged = run(ema=0.0), run(ema=0.99)
    assert len(plain) == len(averaged) == 8
    assert plain != averaged
    assert plain[-1] > right(model()) + 0.3


@pytest.mark.parametrize("training", [True, False])
def test_measuring_accuracy_leaves_the_mode_as_it_was(training: bool) -> None:
    network, images = model().train(training), data().labelled
    measured = accuracy(network, images, Preprocess(size=8), torch.device("cpu"), batch_size=40)
    assert network.training is training
    network.eval()
    with torch.no_grad():
        right = network(Preprocess(size=8)(images.gather(torch.arange(len(images))))).argmax(1) == images.labels
    assert measured == right.sum().item() / len(images)


def test_time_spent_looking_is_not_training_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    original = Step.__call__

    def step(self: Step, raw: Any) -> Any:
        now[0] += 2.0
        return original(self, raw)

    def look(shown: nn.Module, moment: dict[str, Any]) -> None:
        told.append(moment["seconds"])
        now[0] += 1000.0

    told: list[float] = []
    monkeypatch.setattr("wildspec.training.loop.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(Step, "__call__", step)
    result = train(model(), build_method("erm", CLASSES), data(), quiet(), stages=stages(2)[1:], watch=look)
    assert result.steps == 6
    assert told == [6.0, 12.0]
    assert result.seconds == 12.0


def test_without_augmentation_a_step_sees_what_will_be_seen_at_test_time() -> None:
    """Mean and spread of the preprocessing are those of training: the method gets exactly the normalized images."""
    preprocess = Preprocess(size=8, mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 0.75))
    task = data()
    task.preprocess = preprocess
    method = Watching()
    stage = stages(1)[0].scaled(augmentation=Augmentation.none())
    train(model(), method, task, quiet(), stages=(stage,))
    assert task.wild is not None
    assert isinstance(task.wild.pool, ImageArrays)
    for _, images, rows in method.batches:
        assert rows is not None
        pixels = task.wild.pool.images[rows].float() / 255
        mean, std = (torch.tensor(values).view(3, 1, 1) for values in (preprocess.mean, preprocess.std))
        expected = (pixels - mean) / std
        torch.testing.assert_close(images[64:96], expected)  # 2 x 32 labelled views, then the wild ones
        torch.testing.assert_close(images[96:], expected)


def test_a_method_sees_every_value_that_is_logged() -> None:
    method = Watching()
    result = train(model(), method, data(), quiet(log_every=2), stages=stages())
    rows = [row for row in result.history if "loss" in row]
    assert len(method.looks) == len(rows) > 4
    began = {"pretrain": 0, "finetune": result.stage_steps[0]}
    for (stage, step, values), row in zip(method.looks, rows, strict=True):
        assert (stage, step + began[stage]) == (row["stage"], row["step"])
        assert {name: row[name] for name in values} == pytest.approx(values, rel=1e-5)
