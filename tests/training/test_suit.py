"""A recipe suited to data and time: batches never exceed the data, lengths follow the arithmetic, budgets are kept."""

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import tiny_model
from quick_wild import quick
from wildspec import Training
from wildspec.data import Preprocess, WildPool, load_images, open_source
from wildspec.errors import InputError
from wildspec.images.choosing import choose_method, settle_training
from wildspec.methods import build_method
from wildspec.models import build_model
from wildspec.models.backbones import choose_name
from wildspec.training import Settings, TrainData
from wildspec.training import suit as recipe

CPU = torch.device("cpu")


def _stages(name: str = "spectral") -> Any:
    return build_method(name, 3).stages("fast")


def test_batches_never_exceed_what_there_is_and_rates_follow() -> None:
    for labelled, wild in ((10, 7), (64, 64), (5000, 5000)):
        for old, new in zip(_stages(), recipe.suit_data(_stages(), labelled, wild, 32, CPU), strict=True):
            assert new.batch_labelled == min(64, labelled)
            assert new.batch_wild == (min(64, wild) if old.batch_wild else 0)
            assert new.lr == pytest.approx(max(0.005, old.lr * new.batch_labelled / old.batch_labelled))


def test_pu_is_the_same_on_every_device_up_to_many_images_the_others_are_not() -> None:
    cuda, few, many = torch.device("cuda"), 1600, recipe.MANY
    assert recipe.suit_data(_stages("pu"), few, few, 32, cuda) == recipe.suit_data(_stages("pu"), few, few, 32, CPU)
    assert choose_name("pu", 32, cuda) == choose_name("pu", 32, CPU) == choose_name("pu", 64, cuda) == "small_resnet"
    (large,) = recipe.suit_data(_stages("pu"), many, many, 32, cuda)
    assert (large.batch_labelled, large.batch_wild, large.lr) == (128, 128, 0.1)
    assert recipe.suit_data(_stages(), few, few, 32, cuda)[0].batch_labelled == 256
    assert [choose_name(*asked, cuda) for asked in (("spectral+", 32), ("erm", 64), ("pu", 128))] == [
        "wrn40_2", "wrn40_2", "resnet34"]  # fmt: skip


def test_a_small_set_gets_more_epochs_a_large_one_the_recipe() -> None:
    small = recipe.suit_data(_stages(), 50, 50, 32, CPU)
    assert [recipe.steps_of(stage, 50) for stage in small] == [1200, 300]
    large = recipe.suit_data(_stages(), 100_000, 1000, 32, CPU)
    assert [stage.epochs for stage in large] == [stage.epochs for stage in _stages()]


def test_a_gpu_trains_spectral_plus_as_it_was_measured_on_photographs() -> None:
    chosen, cuda = Training("spectral+"), torch.device("cuda")
    usual = settle_training(chosen, cuda, 84, 120).hparams
    assert usual
    assert [stage.name for stage in build_method("spectral+", 3, **usual).stages("fast")][1] == "warmup_head"
    own = Training("spectral+", hparams={"rounds": 2})
    for asked, device in ((chosen, CPU), (own, cuda), (Training("spectral"), cuda)):
        assert settle_training(asked, device, 84, 120) == asked


def test_epochs_are_the_total_divided_as_in_the_recipe() -> None:
    given = recipe.suit_data(_stages(), 640, 640, 32, CPU, epochs=52)
    assert sum(stage.epochs for stage in given) == pytest.approx(52)
    pretrain, finetune = (stage.epochs for stage in _stages())
    share = max(1 / 6, finetune / (pretrain + finetune))
    assert given[1].epochs / given[0].epochs == pytest.approx(share / (pretrain / (pretrain + finetune)))
    assert given[0].warmup / given[0].epochs == pytest.approx(_stages()[0].warmup / _stages()[0].epochs)


def test_short_runs_give_the_head_time_and_rate() -> None:
    pretrain, finetune = recipe.suit_data(recipe.short_runs(_stages()), 5000, 5000, 32, CPU)
    assert (finetune.lr, finetune.batch_labelled) == (0.05, 64)
    assert finetune.epochs == pytest.approx(0.25 * pretrain.epochs)
    assert pretrain == recipe.suit_data(_stages(), 5000, 5000, 32, CPU)[0]
    assert recipe.short_runs(_stages("erm")) == tuple(_stages("erm"))


@pytest.mark.parametrize(("able", "precision"), [((), "fp32"), (("_is_avx512_bf16_supported",), "bf16"),
                                                 (("_is_amx_tile_supported",), "bf16")])  # fmt: skip
def test_bf16_is_for_processors_that_have_it(
    monkeypatch: pytest.MonkeyPatch, able: tuple[str, ...], precision: str
) -> None:
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda name=name: name in able, raising=False)
    assert recipe.cpu_precision() == precision
    monkeypatch.delattr(torch.cpu, "_is_amx_tile_supported")  # torch 2.4 knows nothing of it
    assert recipe.cpu_precision() == ("bf16" if "_is_avx512_bf16_supported" in able else "fp32")


def test_shifts_scale_with_the_image_and_flips_can_be_forbidden() -> None:
    for size, pad in ((8, 1), (32, 4), (64, 8)):
        (stage,) = recipe.suit_data(_stages("erm"), 640, 640, size, CPU, flip=False)
        assert stage.augmentation.pad == pad
        assert stage.augmentation.flip == 0.0
    assert recipe.suit_data(_stages("erm"), 640, 640, 32, CPU)[0].augmentation.flip == 0.5
    assert recipe.suit_data(_stages(), 640, 640, 64, CPU)[0].augmentation.pad == 0, "resized crops are no shifts"


def test_a_budget_scales_all_stages_by_one_factor() -> None:
    stages = recipe.suit_data(_stages(), 6400, 640, 32, CPU)
    speed = recipe.Speed(per_step=(0.1, 0.02), start_up=3.0)
    needed = sum(recipe.steps_of(s, 6400) * cost for s, cost in zip(stages, speed.per_step, strict=True))
    suited = recipe.suit_time(stages, 6400, speed, 0.5 * needed)  # long enough: nothing is held at its least
    factors = [new.epochs / old.epochs for old, new in zip(stages, suited, strict=True)]
    assert factors == pytest.approx([(0.5 * needed * 0.9 - 3) / needed] * 2)
    spent = 3 + sum(recipe.steps_of(s, 6400) * cost for s, cost in zip(suited, speed.per_step, strict=True))
    assert spent <= 0.5 * needed
    assert recipe.suit_time(stages, 6400, speed, 1e9)[0].epochs == pytest.approx(recipe.LONGEST * stages[0].epochs)
    assert recipe.suit_time(stages, 6400, speed, 1e9, most=1.0)[0].epochs == pytest.approx(stages[0].epochs)
    with pytest.raises(InputError, match=r"time is too short.*\d+ s"):
        recipe.suit_time(stages, 6400, speed, 10)
    together = recipe.suit_data(_stages("pu"), 1600, 2000, 32, CPU)
    longest = recipe.suit_time(together, 1600, recipe.Speed(per_step=(0.1,), start_up=0.0), 1e9)
    assert recipe.steps_of(longest[0], 1600) == 2500, "a quarter more than 2,000: longer is worse"


def test_a_short_budget_does_not_starve_the_last_stage() -> None:
    stages = recipe.suit_data(_stages(), 6400, 640, 32, CPU)
    speed = recipe.Speed(per_step=(0.1, 0.02), start_up=0.0)
    suited = recipe.suit_time(stages, 6400, speed, 300.0)
    steps = [recipe.steps_of(stage, 6400) for stage in suited]
    assert steps[1] == recipe.MIN_STEPS_OTHER
    assert steps[0] * 0.1 + steps[1] * 0.02 == pytest.approx(270, abs=0.2)
    tight = recipe.suit_time(stages, 6400, recipe.Speed((0.01, 0.4), 0.0), 300.0)
    ratio = [new.epochs / old.epochs for old, new in zip(stages, tight, strict=True)]
    assert ratio[0] == pytest.approx(ratio[1]), "where the last stage is the dear one, all are shortened alike"


def test_minutes_use_the_measured_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the steps declared slow, the schedule shrinks to what fits; it completes, decay included."""
    monkeypatch.setattr(recipe, "MIN_STEPS", {"pretrain": 40})
    monkeypatch.setattr(recipe, "MIN_STEPS_OTHER", 16)
    monkeypatch.setattr(recipe, "PROBE_STEPS", {"cpu": 2, "cuda": 2})
    seen = []

    def declared(*args: Any) -> recipe.Speed:
        found = real(*args)
        seen.append(found)
        return recipe.Speed((18.0,) * len(found.per_step), 0.0)

    real = recipe.measure
    monkeypatch.setattr("wildspec.images.train.measure", declared)
    labelled, wild = tiny_model.labelled_and_wild()
    model = quick(method="spectral+", epochs=None, minutes=10).fit(labelled, wild)
    steps = sum(stage["steps"] for stage in model.record_["training"]["stages"])
    assert 24 <= steps <= 30, "ten minutes, less a tenth, at 18 s a step"
    assert all(0 < cost < 60 for cost in seen[0].per_step)
    assert model.record_["training"]["minutes"] == 10


@pytest.mark.filterwarnings("ignore:no wild images were given")
@pytest.mark.parametrize(("options", "wild", "trained"), [
    ({"minutes": 10}, 84, ("pu", "SmallResNet")), ({}, 84, ("pu", "SmallResNet")), ({}, 0, ("erm", "SmallResNet")),
    ({}, 9, ("erm", "SmallResNet")), ({"epochs": 10}, 84, ("spectral+", "SmallNet")),
    ({"epochs": 10}, 0, ("spectral", "SmallNet")),
    ({"hparams": {"eta_u": 1.0}}, 84, ("spectral+", "SmallNet")), ({"method": "spectral+"}, 84, ("spectral+", "SmallNet")),
])  # fmt: skip
def test_in_minutes_a_cpu_trains_a_short_method_unless_one_is_named(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], wild: int, trained: tuple[str, str]
) -> None:
    """Nothing else about the machine decides: the same command trains the same method wherever there is no GPU."""
    monkeypatch.setattr(
        "wildspec.images.train.measure", lambda *a, **k: recipe.Speed((0.01,) * len(a[3]), 0.0)
    )
    found = []

    def train(model: Any, method: Any, data: Any, settings: Any, stages: Any) -> Any:
        found.append((method.name, type(model.backbone).__name__))
        raise InputError("enough is known")

    monkeypatch.setattr("wildspec.images.train.train", train)
    labelled, pool = tiny_model.labelled_and_wild()
    with pytest.raises(InputError, match="enough is known"):
        quick(**{"epochs": None, **options}).fit(labelled, pool[:wild] if wild else None)
    assert found == [trained]


@pytest.mark.parametrize(("options", "pool", "labelled", "method"), [
    ({}, 500, 2000, "pu"), ({"epochs": 10}, 500, 2000, "pu"), ({}, 500, 9_999, "pu"),
    ({}, 500, 10_000, "spectral+"), ({}, 0, 2000, "spectral"), ({"hparams": {"eta_u": 1.0}}, 500, 2000, "spectral+"),
])  # fmt: skip
def test_a_gpu_takes_the_spectral_recipe_where_there_are_many_labelled_images(
    options: dict[str, Any], pool: int, labelled: int, method: str
) -> None:
    assert choose_method(Training(**options), torch.device("cuda"), pool, labelled) == method


def test_on_a_gpu_the_first_pass_over_images_is_not_the_speed_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that shows 8 s for the first pass and 1 s for each further one."""
    moments = iter([0.0, 8.0, 20.0, 21.0])
    monkeypatch.setattr(recipe, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    monkeypatch.setattr(recipe, "accuracy", lambda *a, **k: None)
    labelled, _ = tiny_model.labelled_and_wild()
    images = load_images(open_source(labelled, labelled=True), 10)
    data = TrainData(images, WildPool(images), preprocess=Preprocess(size=10))
    model = build_model("small", 3, size=10)
    assert recipe.seconds_an_image(model, data, torch.device("cuda")) == pytest.approx(1 / len(images))


def test_measuring_does_not_warn_of_what_a_few_steps_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps are fewer than IRM's 500 before its penalty: no fault of the 600 that are planned."""
    monkeypatch.setattr(recipe, "PROBE_STEPS", {"cpu": 2, "cuda": 2})
    monkeypatch.setattr(recipe, "PROBE_SECONDS", 0.0)
    labelled, _ = tiny_model.labelled_and_wild()
    data = TrainData(load_images(open_source(labelled, labelled=True), 10), preprocess=Preprocess(size=10))
    (stage,) = recipe.suit_data(_stages("irm"), len(data.labelled), 1, 10, CPU)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        speed = recipe.measure(
            build_model("small", 3, size=10), build_method("irm", 3), data, [stage], Settings(device="cpu")
        )
    assert speed.per_step[0] > 0
    assert not [str(one.message) for one in said if "anneal_steps" in str(one.message)]


def test_the_fewest_seconds_are_arithmetic() -> None:
    """An eighth of the least steps of each stage, all stages shortened alike: the dearest share decides."""
    stages = recipe.suit_data(_stages(), 640, 640, 32, CPU)
    steps = [recipe.steps_of(stage, 640) for stage in stages]
    speed = recipe.Speed((2.0, 1.0), 10.0)
    factor = max((1200 // 8) / steps[0], (300 // 8) / steps[1])
    least = recipe.shortest(stages, 640, speed)
    assert least == pytest.approx((factor * (2 * steps[0] + steps[1]) + 10) / 0.9)
    recipe.suit_time(stages, 640, speed, least)
    with pytest.raises(InputError, match="the time is too short"):
        recipe.suit_time(stages, 640, speed, 0.99 * least)


def test_speed_is_measured_on_few_images_with_every_class_among_them() -> None:
    labels = np.array([0] * 1500 + [1] * 3 + [2] * 900)
    images = load_images(open_source((np.zeros((len(labels), 8, 8, 3), np.uint8), labels)))
    pool = WildPool(load_images(open_source(np.zeros((700, 8, 8, 3), np.uint8))))
    some = recipe._some(TrainData(images, pool), 100)
    assert set(some.labelled.labels.tolist()) == {0, 1, 2}
    assert 100 <= len(some.labelled) <= 103
    assert some.wild is not None
    assert len(some.wild) == 100


def test_speed_is_measured_with_the_environments_of_the_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "PROBE_STEPS", {"cpu": 2, "cuda": 2})
    monkeypatch.setattr(recipe, "PROBE_SECONDS", 0.0)
    count = 2 * recipe.PROBE_IMAGES
    images = load_images(open_source((np.zeros((count, 8, 8, 3), np.uint8), np.arange(count) % 3)))
    data = TrainData(images, environments=np.arange(count) % 4)
    (stage,) = recipe.suit_data(_stages("vrex"), count, 1, 8, CPU)
    model, method = build_model("small", 3, size=8), build_method("vrex", 3)
    assert recipe.measure(model, method, data, [stage], Settings(device="cpu")).per_step[0] > 0


def test_a_stage_shorter_than_the_least_is_kept_not_lengthened() -> None:
    """6,400 images, 100 steps an epoch: 4,000 steps of the first stage, 100 of the second, which counts as whole at 300."""
    first, second = (stage.scaled(batch_labelled=64, warmup=0.0) for stage in _stages())
    stages = (first.scaled(epochs=40.0), second.scaled(epochs=1.0))
    speed = recipe.Speed((0.01, 0.01), 0.0)
    long, short = recipe.suit_time(stages, 6400, speed, 0.5 * 41 / (1 - recipe.KEEP_BACK))
    assert short.epochs == pytest.approx(1.0)
    assert 100 * (long.epochs + short.epochs) == pytest.approx(0.5 * 4100), "all of the time is used"


@pytest.mark.parametrize(("pad", "size", "expected"), [(4, 8, 1), (1, 8, 1), (1, 32, 1), (4, 64, 8), (4, 12, 2), (0, 64, 0)])
def test_a_shift_is_at_least_a_pixel_where_there_is_one(pad: int, size: int, expected: int) -> None:
    (stage,) = _stages("erm")
    shifted = stage.scaled(augmentation=replace(stage.augmentation, pad=pad))
    assert recipe.suit_data([shifted], 640, 640, size, CPU)[0].augmentation.pad == expected
