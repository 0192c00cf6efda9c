"""Schedules, averages, settings, divergence, metrics file, bad input."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training.common import CLASSES, data, method, model, quiet, stages
from torch import nn
from torch.utils.data import TensorDataset

from wildspec.data import ArraySource, ImageArrays, StreamingImages, WildPool
from wildspec.errors import InputError, InputTypeError
from wildspec.methods import Stage, build_method
from wildspec.methods.erm import ERM
from wildspec.models import build_model, wrap_classifier
from wildspec.training import DivergenceError, Settings, TrainData, resolve_device, train
from wildspec.training.average import WeightAverage
from wildspec.training.optimizers import build_optimizer, forget
from wildspec.training.schedule import learning_rate
from wildspec.training.settings import check_fit


def test_schedules_by_hand() -> None:
    cosine = Stage("s", epochs=10, lr=2.0, warmup=2)
    rates = [learning_rate(cosine, step, 100, 10) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[19] == pytest.approx(2.0)
    assert rates[60] == pytest.approx(2.0 * 0.5 * (1 + math.cos(math.pi * 40 / 80)))
    assert rates[99] < 0.01
    step = Stage("s", epochs=10, lr=1.0, schedule="step")
    halved = [learning_rate(step, s, 100, 10) for s in (0, 49, 50, 74, 75, 89, 90, 99)]
    assert halved == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]
    assert learning_rate(Stage("s", epochs=1, lr=0.3, schedule="constant"), 7, 10, 10) == 0.3


def test_weight_average_is_the_recursion() -> None:
    network = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average = WeightAverage(network, 0.9)
    expected = network[0].weight.detach().clone()
    for t in range(1, 30):
        with torch.no_grad():
            network[0].weight.add_(torch.randn(2, 3))
        network[1].num_batches_tracked += 1
        average.update()
        decay = min(0.9, (1 + t) / (10 + t))
        expected = decay * expected + (1 - decay) * network[0].weight.detach()
    torch.testing.assert_close(average.model[0].weight, expected)
    assert average.model[1].num_batches_tracked == 29
    assert average.model[0].weight is not network[0].weight


def test_averaged_weights_become_the_model() -> None:
    plain = train(model(), method(), data(), quiet(), stages=[stages()[0]]).model.state_dict()
    averaged = train(model(), method(), data(), quiet(), stages=[stages(ema=0.9)[0]]).model.state_dict()
    assert any((plain[name] - averaged[name]).abs().max() > 1e-4 for name in plain if plain[name].is_floating_point())


def test_seeds_reproduce_and_differ() -> None:
    runs = [train(model(), method(), data(), quiet(seed=seed), stages=stages(1)).history[-1]["loss"] for seed in (0, 0, 1)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_metrics_file_has_one_json_line_per_log(tmp_path: Path) -> None:
    result = train(model(), method(), data(), quiet(log_every=2), stages=stages(), run_dir=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows == result.history
    assert {"step", "stage", "loss", "l1", "l2", "l3", "l4", "l5", "lr", "views_per_s", "seconds"} <= set(rows[0])
    assert result.views == 6 * (32 * 4) + 6 * 32


def test_divergence_names_the_last_good_checkpoint(tmp_path: Path) -> None:
    wild_rate = stages()[0].scaled(lr=1e9, warmup=0.0)
    with pytest.raises(DivergenceError, match=r"diverged.*step.*checkpoint.*learning rate"):
        train(model(), method(), data(), quiet(checkpoint_steps=1), stages=[wild_rate.scaled(epochs=30)], run_dir=tmp_path)


def test_a_loss_that_is_finite_but_enormous_has_diverged() -> None:
    class Rising(ERM):
        def loss(self, model, batch, stage):
            total, _ = super().loss(model, batch, stage)
            return total, {"height": torch.tensor(1e9)}

    with pytest.raises(DivergenceError, match=r"height is 1e\+09 at step 1 .*'finetune'"):
        train(model(), Rising(CLASSES), data(), quiet(), stages=stages()[1:])


@pytest.mark.parametrize(("nesterov", "momentum"), [(True, 0.9), (False, 0.9), (True, 0.0)])
def test_sgd_by_hand(nesterov: bool, momentum: float) -> None:
    """v <- m v + g with g = gradient + decay w; the step is g + m v with Nesterov, v without."""
    stage = Stage("s", epochs=1, lr=0.1, momentum=momentum, nesterov=nesterov, weight_decay=0.05)
    parameter = nn.Parameter(torch.randn(4, 3, dtype=torch.float64))
    optimizer = build_optimizer(stage, [parameter])
    expected, speed = parameter.detach().clone(), torch.zeros(4, 3, dtype=torch.float64)
    for _ in range(3):
        gradient = torch.randn(4, 3, dtype=torch.float64)
        parameter.grad = gradient.clone()
        optimizer.step()
        force = gradient + 0.05 * expected
        speed = momentum * speed + force
        expected = expected - 0.1 * (force + momentum * speed if nesterov else speed)
        torch.testing.assert_close(parameter.detach(), expected)


def test_a_device_that_does_not_exist() -> None:
    with pytest.raises(InputError, match="available: cpu"):
        resolve_device("cuda:99")
    with pytest.raises(InputError, match="auto, cpu, cuda"):
        resolve_device("gpu")
    assert resolve_device("cpu").type == "cpu"


@pytest.mark.parametrize(("changes", "words"), [
    ({"lr": 0.0}, "lr"), ({"epochs": -1}, "epochs"), ({"schedule": "linear"}, "schedule"), ({"warmup": 9.0}, "warmup"),
    ({"batch_labelled": 0}, "batch_labelled"), ({"batch_wild": 8}, "wild_views"), ({"ema": 1.5}, "ema"),
    ({"optimizer": "lion"}, "optimizer"), ({"momentum": -0.1}, "momentum"), ({"nesterov": "False"}, "nesterov"),
])
def test_bad_stages_are_errors(changes: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Stage(**{"name": "s", "epochs": 2.0, "lr": 0.1, **changes})


@pytest.mark.parametrize("changes", [
    {"seed": -1}, {"seed": 2**63}, {"precision": "fp8"}, {"keep": 0}, {"time_limit": 0.0}, {"log_every": 0},
])  # fmt: skip
def test_bad_settings_are_errors(changes: dict) -> None:
    with pytest.raises(InputError, match=next(iter(changes))):
        Settings(**changes)


def test_seconds_alone_are_no_budget() -> None:
    with pytest.raises(InputTypeError, match=r"budget must be .*Budget"):
        Settings(budget=60)  # type: ignore[arg-type]


def test_no_stages_are_not_those_of_the_preset() -> None:
    with pytest.raises(InputError, match="stages"):
        train(model(), method(), data(), quiet(time_limit=0.1), stages=[])


def test_what_is_no_image_set_is_told_how_to_become_one() -> None:
    """A torch Dataset, a list of pairs, a tensor, arrays; and as a pool an image set that is none yet."""
    pixels, labels = images(16), torch.tensor([0, 1] * 8)
    known = ImageArrays(pixels, labels)
    for other in (TensorDataset(pixels, labels), [(pixels[0], 0), (pixels[1], 1)], (pixels, labels), pixels, pixels.numpy()):
        with pytest.raises(InputTypeError, match=r"labelled .*load_images\(open_source"):
            TrainData(other)  # type: ignore[arg-type]
    for pool in (known, pixels, [pixels]):
        with pytest.raises(InputTypeError, match=r"wild .*WildPool"):
            TrainData(known, pool)  # type: ignore[arg-type]


def test_what_is_no_classifier_is_told_how_to_become_one() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, CLASSES))
    for other in (network, wrap_classifier(network)):
        with pytest.raises(InputTypeError, match="wrap_backbone"):
            train(other, method("erm"), data(), quiet(time_limit=0.1))  # type: ignore[arg-type]


def test_a_later_stage_with_too_large_batches_is_told_before_the_first_is_trained() -> None:
    first, second = stages()
    looks: list[object] = []
    with pytest.raises(InputError, match=r"'finetune' .*batches of 97 .*96.*--set finetune.batch_labelled=96"):
        train(model(), method(), data(), quiet(), stages=[first, second.scaled(batch_labelled=97)],
              watch=lambda *seen: looks.append(seen))
    assert not looks


def images(n: int, size: int = 8) -> torch.Tensor:
    return torch.zeros(n, 3, size, size, dtype=torch.uint8)


def test_bad_training_data_is_an_error() -> None:
    two = torch.tensor([0, 1] * 8)
    with pytest.raises(InputError, match="empty"):
        TrainData(ImageArrays(images(0), torch.zeros(0, dtype=torch.int64)))
    with pytest.raises(InputError, match="one class"):
        TrainData(ImageArrays(images(4), torch.zeros(4, dtype=torch.int64)))
    with pytest.raises(InputError, match="have no label"):
        TrainData(ImageArrays(images(2), torch.tensor([0, -1])))
    with pytest.raises(InputError, match=r"no labelled image .*b"):
        TrainData(ImageArrays(images(2), torch.tensor([0, 2]), ("a", "b", "c")))
    with pytest.raises(InputError, match="same size"):
        TrainData(ImageArrays(images(16), two), WildPool(ImageArrays(images(4, 16))))
    for numbers in ([0, 1], ["photo", "sketch"] * 8, [None] * 16, [0.5] * 16, [float("nan")] * 16, [-1] * 16):
        with pytest.raises(InputError, match="environments must be 16 whole numbers from 0"):
            TrainData(ImageArrays(images(16), two), environments=numbers)
    for numbers in (two, two.tolist(), two.numpy().astype(np.float64), two.numpy().astype(np.uint16)):
        assert TrainData(ImageArrays(images(16), two), environments=numbers).environments.tolist() == two.tolist()
    fine = TrainData(ImageArrays(images(16), two))
    with pytest.raises(InputError, match="wild pool"):
        train(build_model("small", 2), build_method("spectral", 2), fine, quiet(), stages=stages())
    with pytest.raises(InputError, match=f"data has 2 classes, the model {CLASSES}"):
        train(build_model("small", CLASSES), build_method("erm", 2), fine, quiet())
    small_pool = TrainData(ImageArrays(images(64), torch.tensor([0, 1] * 32)), WildPool(ImageArrays(images(4))))
    with pytest.raises(InputError, match=r"wild pool .*4 images.*batch_wild"):
        train(build_model("small", 2), build_method("spectral", 2), small_pool, quiet(), stages=stages())


@pytest.mark.cuda
def test_graph_and_compile_follow_the_plain_step() -> None:
    """Captured, compiled and plain training agree on the first steps (bf16 rounding apart)."""
    losses = []
    for compiled, graph in ((False, False), (False, True), (True, True)):
        settings = quiet(device="cuda", compile=compiled, graph=graph)
        result = train(model(), method(), data(), settings, stages=[stages(5)[0]])
        losses.append([row["loss"] for row in result.history])
    for other in losses[1:]:
        assert losses[0] == pytest.approx(other, rel=0.05, abs=0.05)


def test_streaming_sets_train_to_the_same_bits() -> None:
    """Data that does not live on the device takes the same batches to the same weights."""
    here = data()
    assert here.wild is not None

    def streamed(images: ImageArrays, labels: bool) -> StreamingImages:
        pixels = images.images.permute(0, 2, 3, 1).numpy()
        return StreamingImages(ArraySource(pixels, images.labels.numpy() if labels else None), 8)

    assert isinstance(here.labelled, ImageArrays)
    assert isinstance(here.wild.pool, ImageArrays)
    away = TrainData(streamed(here.labelled, True), WildPool(streamed(here.wild.pool, False)))
    weights = [train(model(), method(), source, quiet(), stages=stages()).model.state_dict() for source in (here, away)]
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_a_forgetful_optimizer_steps_like_a_new_one(kind: str) -> None:
    stage = Stage("s", epochs=1, lr=0.1, optimizer=kind)
    start, gradient = torch.randn(4, 3), torch.randn(4, 3)
    results = []
    for used in (False, True):
        parameter = nn.Parameter(start.clone())
        optimizer = build_optimizer(stage, [parameter])
        if used:
            for _ in range(3):
                parameter.grad = torch.randn(4, 3)
                optimizer.step()
            with torch.no_grad():
                parameter.copy_(start)
            forget(optimizer)
        parameter.grad = gradient.clone()
        optimizer.step()
        results.append(parameter.detach())
    torch.testing.assert_close(*results)


def test_environments_beyond_the_methods_number_are_an_error() -> None:
    source = data()
    numbered = TrainData(source.labelled, source.wild, environments=torch.arange(len(source.labelled)) % 5)
    for fewer in (3, 4):  # 0 to 4 are five
        with pytest.raises(InputError, match="num_environments=5"):
            train(model(), build_method("vrex", CLASSES, num_environments=fewer), numbered, quiet())
    check_fit(model(), build_method("vrex", CLASSES, num_environments=5), numbered)
